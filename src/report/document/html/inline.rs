//! Text of a cluster in HTML: no text becomes an element, an attribute or an address that runs something.

use std::fmt::Write;

use maud::{Escaper, Markup, PreEscaped, Render, html};
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::text::{list, prefix, thousands};

use crate::report::document::inline::{Inline, Text, Tone, exact_size};

/// The longest text of one line, in bytes. The report's own texts are shorter.
pub(super) const TEXT: usize = 2048;

/// The most values, lines and objects of one cell.
pub(super) const LINES: usize = 20;

/// The longest part of a word that is not broken, in characters. Names without separators are shorter; a longer one would
/// not fit a column.
const LONGEST_PART: usize = 24;

/// Foreign text as it is, on one line: for attributes and pictures.
pub(in crate::report::document) struct Exact<'t>(pub(in crate::report::document) &'t str);

impl Render for Exact<'_> {
    fn render_to(&self, out: &mut String) {
        visible(self.0).render_to(out);
    }
}

/// The lines of a command.
pub(super) struct Lines<'t>(pub(super) &'t str);

impl Render for Lines<'_> {
    fn render_to(&self, out: &mut String) {
        for (at, line) in self.0.split('\n').enumerate() {
            out.push_str(if at > 0 { "\n" } else { "" });
            Exact(line).render_to(out);
        }
    }
}

/// Foreign text with places where a line may break: after the separators of names, paths and addresses. So a narrow column
/// breaks `registry.example.com/web:1` between its parts, and not within a word.
pub(super) struct Breakable<'t>(pub(super) &'t str);

impl Render for Breakable<'_> {
    fn render_to(&self, out: &mut String) {
        let (mut length, mut before, mut is_option) = (0, ' ', false);
        for c in visible(self.0).chars() {
            let ends_part =
                matches!(before, '/' | '.' | ':' | '=' | '_' | '@' | ',' | '[' | ']' | '\\' | '-') && !is_option;
            let is_number = matches!(before, '.' | '-' | ',') && c.is_ascii_digit();
            if c.is_alphanumeric() && ((ends_part && !is_number) || length >= LONGEST_PART) {
                out.push_str("<wbr>");
                length = 0;
            }
            // Writing to a string does not fail.
            Escaper::new(out).write_char(c).unwrap_or_default();
            length = if c.is_whitespace() { 0 } else { length + 1 };
            // `--details` is one word.
            is_option = c == '-' && (is_option || before.is_whitespace());
            before = c;
        }
    }
}

/// The color of a tone, as a class.
pub(super) const fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Bad => "bad",
        Tone::Warn => "warn",
        Tone::Note => "note",
        Tone::Good => "good",
    }
}

/// The text, as much of it as fits into the limits.
pub(super) fn line(text: &Text) -> Markup {
    let (mut out, mut room, mut lines) = (String::new(), TEXT, 1);
    for part in &text.0 {
        lines += usize::from(*part == Inline::Break);
        if room == 0 || lines > LINES {
            break;
        }
        inline(part, &mut room).render_to(&mut out);
    }
    PreEscaped(out)
}

/// As much of the text as fits into the bytes that are left.
fn cut<'t>(text: &'t str, room: &mut usize) -> &'t str {
    let shown = prefix(text, *room);
    *room -= shown.len();
    // A part of a character does not fit.
    *room = if shown.len() < text.len() { 0 } else { *room };
    shown
}

fn inline(part: &Inline, room: &mut usize) -> Markup {
    match part {
        Inline::Plain(text) | Inline::Name(text) => html! { (Breakable(cut(text, room))) },
        Inline::Code(text) => html! { code { (Breakable(cut(text, room))) } },
        Inline::Object { kind, name } => html! {
            span.name { (Breakable(cut(name, room))) } br; span.soft { (Breakable(cut(kind, room))) }
        },
        Inline::Objects { names, all } => {
            let shown = names.len().min(LINES);
            let more = all.max(&names.len()) - shown;
            let first = list(names.iter().take(shown));
            html! { (Breakable(cut(&first, room))) @if more > 0 { " and " (thousands(more)) " more" } }
        }
        Inline::Tag(tone, text) => html! { span.tag.(class(*tone)) { (Exact(cut(text, room))) } },
        Inline::Alert(text) => html! { span.bad-text { (Exact(cut(text, room))) } },
        Inline::Day { date, passed } => html! { span.day.bad-text[*passed] { (date.to_string()) } },
        Inline::Source { at, as_of } => html! {
            (source(cut(at, room))) @if let Some(as_of) = as_of { ", " (as_of.to_string()) }
        },
        Inline::Link { anchor, text } => html! { a href={ "#" (Exact(anchor)) } { (Exact(cut(text, room))) } },
        Inline::Rows { table, with, count } => html! {
            a href={ "#" (table) "-table" } data-find=(Exact(cut(with, room))) { (thousands(*count)) }
        },
        Inline::Bytes(bytes) => html! { (exact_size(*bytes)) },
        Inline::Break => html! { br; },
    }
}

/// Where a fact is published: a link if it is an address, otherwise text.
fn source(text: &str) -> Markup {
    let plain = text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\'));
    if plain && text.starts_with("https://") {
        html! { a href=(text) rel="noreferrer" { (Breakable(text)) } }
    } else {
        html! { (Breakable(text)) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::string_slice, reason = "tests")]

    use super::*;

    #[test]
    fn nothing_is_markup() {
        let cases = [
            ("<script>", "&lt;script&gt;"),
            ("\" onload='x'", "&quot; onload='x'"),
            ("&lt;", "&amp;lt;"),
            ("a\u{2028}b\u{2029}c", "a\\u{2028}b\\u{2029}c"),
            ("\u{1b}[31m\u{202e}\n", "\\u{1b}[31m\\u{202e}\\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(Exact(text).render().0, expected, "{text:?}");
        }
        assert_eq!(Lines("cat <<'EOF'\n\ta\u{1b}\nEOF").render().0, "cat &lt;&lt;'EOF'\n\\ta\\u{1b}\nEOF");
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
            assert!(!source(text).0.contains("<a"), "{text}");
        }
        assert_eq!(
            source("https://a.example/?b=1&c").0,
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
            ("-o csv --details", "-o csv --details"),
            ("1,204", "1,204"),
        ];
        for (text, expected) in cases {
            assert_eq!(Breakable(text).render().0, expected);
        }
        let long = "x".repeat(60);
        assert_eq!(Breakable(&long).render().0, [&long[..24], &long[..24], &long[..12]].join("<wbr>"));
    }

    #[test]
    fn texts_are_cut() {
        let long = Text::list((0..100).map(|_| Inline::Code("y".repeat(100))));
        let made = line(&long).0;
        assert_eq!(made.matches("<code>").count(), LINES, "{made}");
        assert_eq!(line(&"z".repeat(100_000).into()).0.matches('z').count(), TEXT);
    }
}
