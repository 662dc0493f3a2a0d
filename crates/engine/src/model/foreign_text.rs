//! Text of others (names, values, comments, messages) in output for people: nothing of it acts on a terminal, hides, or
//! is a command of a CI system.
//!
//! [`visible`] is for one line. Formats for programs keep the text exact with their own escapes: [`escape`] gives each
//! character that must not be in the output as it is.
//!
//! What is escaped, and why:
//!
//! | text | source |
//! |---|---|
//! | C0 and C1 control characters, DEL | ECMA-48: they control terminals. Sections of GitLab's logs need them, too |
//! | line and paragraph separators | [Unicode 5.8](https://www.unicode.org/versions/latest/core-spec/chapter-5/): some programs end lines there |
//! | characters that change the direction of text | [UTS 55](https://www.unicode.org/reports/tr55/), CVE-2021-42574 |
//! | other characters without a glyph | `Default_Ignorable_Code_Point` in `DerivedCoreProperties.txt` of Unicode 17, and interlinear annotations; string searches of .NET, which CI agents use, skip them |
//! | spaces that look like U+0020 | `Space_Separator`: a file in which one is in place of U+0020 is read differently |
//! | `##[` and `##name[` | GitHub's runner (`ActionCommand.TryParse`), Azure's agent (`##vso[`, `Command.TryParse`) and TeamCity (`##teamcity[`) look for them anywhere in a line |
//! | `::` after white space, or at the start | GitHub's runner (`ActionCommand.TryParseV2`) looks for it at the start of a line, after white space; long text is wrapped at white space |

use std::borrow::Cow;
use std::ops::Range;

/// The text on one line, with the characters that act or hide as Rust escapes: `\n`, `\u{1b}`, `\u{202e}`, `#\u{23}vso[`.
pub fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |c, _, out| push_escape(c, out))
}

/// The same for a text of several lines: line breaks (`\n` and `\r\n`) and tabs stay.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c, rest, out| match c {
        '\n' | '\t' => out.push(c),
        '\r' if rest.starts_with('\n') => out.push(c),
        _ => push_escape(c, out),
    })
}

/// A line of a file with one visible character in place of each one that acts or hides, so that its columns stay, and the
/// place in it of a range of the text. Tabs stay.
pub fn aligned(text: &str, part: Range<usize>) -> (String, Range<usize>) {
    let (mut start, mut end) = (part.start, part.end);
    let shown = escape(text, |c, rest, out| {
        let at = text.len() - rest.len() - c.len_utf8();
        let shown = picture(c);
        out.push(shown);
        let moved = |place: usize, of: usize| {
            if at < of { (place + shown.len_utf8()).saturating_sub(c.len_utf8()) } else { place }
        };
        (start, end) = (moved(start, part.start), moved(end, part.end));
    });
    (shown.into_owned(), start..end)
}

/// The picture of a control character in Unicode, or the replacement character.
fn picture(c: char) -> char {
    match c {
        '\t' => c,
        '\0'..=' ' => char::from_u32(u32::from(c) + 0x2400).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\u{7f}' => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// The text with another form of each character that must not be in the output as it is. `push` adds that form; it gets
/// the character, and the text after it.
pub fn escape(text: &str, mut push: impl FnMut(char, &str, &mut String)) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut copied, mut before, mut colon_at_start) = (0, ' ', false);
    for (at, c) in text.char_indices() {
        let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
        let begins_command = match c {
            '#' => before == '#' && ends_command_prefix(rest),
            ':' => colon_at_start,
            _ => false,
        };
        if begins_command || acts_or_hides(c) {
            out.push_str(text.get(copied..at).unwrap_or_default());
            push(c, rest, &mut out);
            copied = at + c.len_utf8();
        }
        colon_at_start = c == ':' && before.is_whitespace();
        before = c;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Whether `##` and this text are the prefix of a command: `##[`, `##vso[`, `##teamcity[`.
fn ends_command_prefix(text: &str) -> bool {
    text.trim_start_matches(|c: char| c.is_ascii_alphabetic()).starts_with('[')
}

/// Whether a character controls the output, changes the direction of text, ends a line for some programs, or has no
/// glyph.
fn acts_or_hides(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(c,
        // C1.
        '\u{80}'..='\u{9f}'
        // Separators and direction; the marks U+061C, U+200E and U+200F are also in the second list.
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Default_Ignorable_Code_Point.
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        // Interlinear annotations.
        | '\u{fff9}'..='\u{fffb}'
        // Space_Separator.
        | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}'
    )
}

/// Adds the Rust escape of a character.
fn push_escape(c: char, out: &mut String) {
    match c {
        '\t' | '\n' | '\r' => out.extend(c.escape_default()),
        _ => out.extend(c.escape_unicode()),
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_that_act_or_hide_are_escaped() {
        let table = [
            ("", ""),
            ("naïve 日本 a\\b", "naïve 日本 a\\b"),
            ("a\tb\r\nc", "a\\tb\\r\\nc"),
            ("\u{1b}[31m\u{7f}\u{9b}2J\u{85}", "\\u{1b}[31m\\u{7f}\\u{9b}2J\\u{85}"),
            (
                "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}",
                "\\u{61c}\\u{200e}\\u{200f}\\u{202a}\\u{202e}\\u{2066}\\u{2069}",
            ),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            (
                "\u{ad}\u{200b}\u{200d}\u{2060}\u{feff}\u{fe0f}\u{e0041}",
                "\\u{ad}\\u{200b}\\u{200d}\\u{2060}\\u{feff}\\u{fe0f}\\u{e0041}",
            ),
        ];
        for (text, shown) in table {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn commands_of_ci_systems_are_broken() {
        let table = [
            ("##[error]x ##[a]", "#\\u{23}[error]x #\\u{23}[a]"),
            ("a##vso[task.complete]", "a#\\u{23}vso[task.complete]"),
            ("##teamcity[buildStop]", "#\\u{23}teamcity[buildStop]"),
            ("###[x]", "##\\u{23}[x]"),
            ("## Heading [1], #[x], ##", "## Heading [1], #[x], ##"),
            ("::error::x", ":\\u{3a}error::x"),
            ("x  \u{a0}::add-mask::y", "x  \\u{a0}:\\u{3a}add-mask::y"),
            (":::", ":\\u{3a}:"),
            ("std::fmt [::1]:443 a: :b", "std::fmt [::1]:443 a: :b"),
        ];
        for (text, shown) in table {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(visible_lines("a\tb\r\n::x\r\u{1b}\n"), "a\tb\r\n:\\u{3a}x\\r\\u{1b}\n");
    }

    #[test]
    fn columns_of_a_line_stay() {
        let text = "a\u{1b}b\t ##[c\u{202e}d\u{200b}\u{85}::\u{e0041}";
        // U+0085 is white space, so a command may begin after it.
        let expected = "a␛b\t #�[c�d��:��";
        let columns = |text: &str, at: usize| text.get(..at).map(|before| before.chars().count());
        for start in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            for end in (start..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                let (shown, part) = aligned(text, start..end);
                assert_eq!(shown, expected);
                assert_eq!(columns(&shown, part.start), columns(text, start));
                assert_eq!(columns(&shown, part.end), columns(text, end));
            }
        }
        assert_eq!(aligned("::error::x", 0..2).0, ":�error::x");
    }

    proptest! {
        #[test]
        fn shown_text_stays_as_it_is(text in "[\\PC\u{0}-\u{20}\u{200b}-\u{2069}#:\\[a]{0,40}") {
            let shown = visible(&text).into_owned();
            prop_assert!(!shown.contains(acts_or_hides), "{shown:?}");
            prop_assert!(matches!(visible(&shown), Cow::Borrowed(_)), "{shown:?}");
        }
    }
}
