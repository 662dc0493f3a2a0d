//! GitHub Flavored Markdown. Names and messages of a cluster cannot become markup.

use std::io;
use std::io::Write;

use jiff::civil::Date;
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::text::{thousands, upper_first};
use mullion_survey::report::Coverage;

use crate::report::inventory_text::coverage_text;

/// A table after an empty line, with at most `most` rows.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    most: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\n| {} |\n|{}", header.join(" | "), "---|".repeat(N))?;
    let mut all = 0;
    for row in rows {
        all += 1;
        if all <= most {
            writeln!(out, "| {} |", row.join(" | "))?;
        }
    }
    write_more(all, most, out)
}

/// Writes how many of `all` rows are not shown, and how to get them.
pub(crate) fn write_more(all: usize, most: usize, out: &mut dyn Write) -> io::Result<()> {
    match all.saturating_sub(most) {
        0 => Ok(()),
        more => writeln!(out, "\nand {} more; `--details` writes all.", thousands(more)),
    }
}

/// The section about what was read: one line, and below it, folded, what was not. `lacks`: the title of the column with what
/// follows from that.
pub(crate) fn write_coverage(coverage: &Coverage, lacks: &str, most: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n## Coverage\n")?;
    writeln!(out, "{}", escaped(&upper_first(&coverage_text(coverage))))?;
    if coverage.unread.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n<details><summary>{lacks}</summary>")?;
    let rows = coverage.unread.iter().map(|unread| {
        let namespace = unread.namespace.as_deref().map_or_else(|| "all".to_owned(), code);
        [code(&unread.kind), namespace, escaped(&unread.reason), escaped(&unread.missing)]
    });
    table(["Not read", "Namespace", "Reason", lacks], rows, most, out)?;
    writeln!(out, "\n</details>")
}

/// A sentence, and after it where it is published, and the day of the source.
pub(crate) fn with_source(sentence: &str, source: &str, as_of: Date) -> String {
    format!("{} ({}, {as_of})", escaped(sentence), escaped(source))
}

/// Several names, each as code.
pub(crate) fn codes(names: &[String]) -> String {
    names.iter().map(|name| code(name)).collect::<Vec<_>>().join(", ")
}

/// A name or value as code, also in a table. Nothing in it is markup, a mention or a link.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    // In a table, the cell separator ends a cell even inside code. With a backslash it does not. Outside of tables, a
    // backslash in code is shown, but names contain none.
    let text = visible(text).replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Lines of a program as they are, without characters that control a terminal.
pub(crate) fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: Vec<_> = text.split('\n').map(visible).collect();
    format!("{fence}{language}\n{}\n{fence}", lines.join("\n"))
}

/// A sentence, in which backticks mark code.
pub(crate) fn escaped(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return plain(text);
    }
    let part = |(at, part): (usize, &&str)| if at % 2 == 1 { code(part) } else { plain(part) };
    parts.iter().enumerate().map(part).collect()
}

/// Words that a wiki converts into a link or a mention become code; all other markup is escaped.
fn plain(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + 16);
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            out.push(' ');
        }
        let lower = word.to_ascii_lowercase();
        if word.contains(['@', '#']) || lower.contains("://") || lower.contains("www.") {
            let end = word.trim_end_matches(['.', ',', ';', ':']).len();
            let (word, sign) = word.split_at(end);
            out.push_str(&code(word));
            out.push_str(sign);
            continue;
        }
        for c in word.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '+' | '!' | '|' | '~' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                // A list or a heading line begins like this.
                '-' | '=' if out.is_empty() => {
                    out.push('\\');
                    out.push(c);
                }
                _ => out.push(c),
            }
        }
    }
    // A number and a period begin a list.
    let digits = out.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && out.as_bytes().get(digits).is_some_and(|sign| *sign == b'.') {
        out.insert(digits, '\\');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_no_markup() {
        let cases = [
            ("Pool win19 has 3 nodes.", "Pool win19 has 3 nodes."),
            ("<script>alert(1)</script>", "&lt;script&gt;alert\\(1\\)&lt;/script&gt;"),
            ("a|b", "a\\|b"),
            ("*a* _b_ [x](y) ![z](w)", "\\*a\\* \\_b\\_ \\[x\\]\\(y\\) \\!\\[z\\]\\(w\\)"),
            ("two\nlines", "two\\\\nlines"),
            ("ask @team, now", "ask `@team`, now"),
            ("see https://x.example/<b>.", "see `https://x.example/<b>`."),
            ("see #12", "see `#12`"),
            ("set `a: b` in *c*", "set `a: b` in \\*c\\*"),
            ("one ` alone", "one \\` alone"),
            ("a@sha256:00|`b", "``a@sha256:00\\|`b``"),
            ("- item", "\\- item"),
            ("1. item", "1\\. item"),
            ("10.0.20348 is a build", "10\\.0.20348 is a build"),
            ("&lt;", "&amp;lt;"),
        ];
        for (text, expected) in cases {
            assert_eq!(escaped(text), expected, "{text:?}");
        }
    }

    #[test]
    fn code_holds_any_text() {
        let cases = [
            ("shop/web", "`shop/web`"),
            ("", ""),
            ("a`b", "``a`b``"),
            ("`", "`` ` ``"),
            ("a|b", "`a\\|b`"),
            ("a\nb", "`a\\nb`"),
            ("</td><script>", "`</td><script>`"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text:?}");
        }
    }
    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        let cases = [
            ("kubectl get pods", "```sh\nkubectl get pods\n```"),
            ("a\nb", "```sh\na\nb\n```"),
            ("```\n# x\u{1b}", "````sh\n```\n# x\\u{1b}\n````"),
        ];
        for (text, expected) in cases {
            assert_eq!(fenced("sh", text), expected, "{text:?}");
        }
    }
}
