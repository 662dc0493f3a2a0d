//! Text of a cluster in HTML: no text becomes an element, an attribute or an address that runs something.

use mullion_engine::model::foreign_text::visible;
use std::fmt::Write;

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

/// A sentence in which backticks mark code.
pub(crate) fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let part = |(at, part): (usize, &&str)| if at % 2 == 1 { code(part) } else { escape(part) };
    parts.iter().enumerate().map(part).collect()
}

/// A name or a value, in the font of code.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<code>{}</code>", escape(text)) }
}

/// Where a fact is published: a link if it is an address, otherwise text.
pub(crate) fn source(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\'));
    if plain && text.starts_with("https://") {
        let shown = escape(text);
        format!("<a href=\"{shown}\" rel=\"noreferrer\">{shown}</a>")
    } else {
        escape(text)
    }
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
            "<a href=\"https://a.example/?b=1&amp;c\" rel=\"noreferrer\">https://a.example/?b=1&amp;c</a>"
        );
    }

    #[test]
    fn backticks_mark_code() {
        assert_eq!(prose("Set `a<b` and `c`."), "Set <code>a&lt;b</code> and <code>c</code>.");
        assert_eq!(prose("One ` alone"), "One ` alone");
    }
}
