//! Text of a cluster in HTML: no text becomes an element, an attribute or an address that runs something.

use std::fmt::Write;

use jiff::civil::Date;
use mullion_engine::model::foreign_text::visible;

/// The text for contents of elements and for quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The longest part of a word that is not broken, in characters. Names without separators are shorter; a longer one would
/// not fit a column.
const LONGEST_PART: usize = 24;

/// The text for contents of elements, with places where a line may break: after the separators of names, paths and
/// addresses. So a narrow column breaks `registry.example.com/web:1` between its parts, and not within a word.
pub(crate) fn breakable(text: &str) -> String {
    let shown = visible(text);
    let mut out = String::with_capacity(text.len() + 8);
    let (mut part, mut length) = (String::new(), 0);
    let mut before = ' ';
    for c in shown.chars() {
        let ends_part = matches!(before, '/' | '.' | ':' | '=' | '_' | '@' | ',' | '[' | ']' | '\\' | '-');
        let is_number = matches!(before, '.' | '-') && c.is_ascii_digit();
        if c.is_alphanumeric() && ((ends_part && !is_number) || length >= LONGEST_PART) {
            out.push_str(&escape(&part));
            out.push_str("<wbr>");
            part.clear();
            length = 0;
        }
        part.push(c);
        length = if c.is_whitespace() { 0 } else { length + 1 };
        before = c;
    }
    out.push_str(&escape(&part));
    out
}

/// A sentence in which backticks mark code.
pub(crate) fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return breakable(text);
    }
    let part = |(at, part): (usize, &&str)| if at % 2 == 1 { code(part) } else { breakable(part) };
    parts.iter().enumerate().map(part).collect()
}

/// A name or a value, in the font of code.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<code>{}</code>", breakable(text)) }
}

/// Where a fact is published: a link if it is an address, otherwise text.
pub(crate) fn source(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\'));
    if plain && text.starts_with("https://") {
        format!("<a href=\"{}\" rel=\"noreferrer\">{}</a>", escape(text), breakable(text))
    } else {
        breakable(text)
    }
}

/// Where a fact is published, and the day of the source: a line below the sentence that needs it.
pub(crate) fn source_line(text: &str, as_of: Date) -> String {
    format!("<br><span class=\"soft small\">{}, {as_of}</span>", source(text))
}

/// An identifier of an element: letters, digits and hyphens of the text.
pub(crate) fn anchor(prefix: &str, text: &str) -> String {
    let mut out = String::from(prefix);
    for c in text.chars().take(80) {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else {
            // Two codes that differ in other characters get different identifiers. Writing to a string does not fail.
            write!(out, "-{:x}", u32::from(c)).unwrap_or_default();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::string_slice, reason = "tests")]

    use super::*;

    #[test]
    fn nothing_is_markup() {
        let cases = [
            ("<script>", "&lt;script&gt;"),
            ("\" onload='x'", "&quot; onload=&#39;x&#39;"),
            ("&lt;", "&amp;lt;"),
            ("a\u{2028}b\u{2029}c", "a\\u{2028}b\\u{2029}c"),
            ("\u{1b}[31m\u{202e}\n", "\\u{1b}[31m\\u{202e}\\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(escape(text), expected, "{text:?}");
        }
    }

    #[test]
    fn sources_are_links_only_if_they_are_addresses() {
        for text in [
            "javascript:alert(1)",
            "data:text/html,x",
            "http://a.example/",
            "https://a\" onclick=\"x",
            "MicrosoftDocs/x y.md",
        ] {
            assert!(!source(text).contains("<a"), "{text}");
        }
        assert_eq!(
            source("https://a.example/?b=1&c"),
            "<a href=\"https://a.example/?b=1&amp;c\" rel=\"noreferrer\">https://<wbr>a.<wbr>example/?b=<wbr>1&amp;c</a>"
        );
    }

    #[test]
    fn lines_break_between_the_parts_of_names() {
        let cases = [
            ("shop/web-api", "shop/<wbr>web-<wbr>api"),
            ("10.0.20348.4294", "10.0.20348.4294"),
            ("status.containerStatuses[0].state", "status.<wbr>containerStatuses[<wbr>0].<wbr>state"),
            ("End. Then a&b.", "End. Then a&amp;b."),
            ("os=windows:NoSchedule", "os=<wbr>windows:<wbr>NoSchedule"),
            ("\u{1b}[1m", "\\<wbr>u{1b}[<wbr>1m"),
        ];
        for (text, expected) in cases {
            assert_eq!(breakable(text), expected);
            assert_eq!(breakable(text).replace("<wbr>", ""), escape(text));
        }
        let long = "x".repeat(60);
        assert_eq!(breakable(&long), [&long[..24], &long[..24], &long[..12]].join("<wbr>"));
    }

    #[test]
    fn backticks_mark_code() {
        assert_eq!(prose("Set `a<b` and `c`."), "Set <code>a&lt;b</code> and <code>c</code>.");
        assert_eq!(prose("One ` alone"), "One ` alone");
    }
}
