//! The parts of a file that people read: a paragraph, a table cell, a comment of several lines, a string.

/// The kind of file that contains a part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    /// A page, a manifest or a script.
    Document,
    /// Rust code: the part is a comment or a string.
    Code,
}

/// A part, with its lines joined by spaces.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub text: String,
    pub kind: Kind,
    /// The offset of each line in `text`, with its line number in the file.
    pub lines: Vec<(usize, usize)>,
}

impl Segment {
    fn new(kind: Kind) -> Self {
        Self { text: String::new(), kind, lines: Vec::new() }
    }

    fn add(&mut self, number: usize, line: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.lines.push((self.text.len(), number));
        self.text.push_str(line);
    }
}

/// The parts of a file.
pub(crate) fn segments(name: &str, text: &str) -> Vec<Segment> {
    let mut found = Segments { all: Vec::new(), open: None };
    match name.rsplit('.').next() {
        Some("rs") => found.rust(text),
        Some("md") => found.markdown(text),
        _ => found.lines(text),
    }
    found.close();
    found.all.retain(|segment| !segment.text.trim().is_empty());
    found.all
}

struct Segments {
    all: Vec<Segment>,
    open: Option<Segment>,
}

impl Segments {
    fn close(&mut self) {
        self.all.extend(self.open.take());
    }

    /// Adds a line to the open part, or opens one.
    fn join(&mut self, kind: Kind, number: usize, line: &str) {
        self.open.get_or_insert_with(|| Segment::new(kind)).add(number, line);
    }

    fn alone(&mut self, kind: Kind, number: usize, line: &str) {
        self.close();
        self.join(kind, number, line);
        self.close();
    }

    /// Paragraphs and list items are parts; so are headings, cells of tables, and lines of blocks.
    fn markdown(&mut self, text: &str) {
        let mut fenced = false;
        for (line, number) in text.lines().zip(1..) {
            let bare = line.trim();
            let fence = bare.starts_with("```");
            fenced ^= fence;
            if fence {
                self.close();
            } else if fenced || bare.is_empty() || bare.starts_with('#') {
                self.alone(Kind::Document, number, if fenced { bare.trim_start_matches(['#', ' ']) } else { bare });
            } else if bare.starts_with('|') {
                for cell in without_code(bare).split('|') {
                    self.alone(Kind::Document, number, cell.trim());
                }
            } else {
                let item = bare.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches('.');
                let item = item.strip_prefix("- ").or_else(|| item.strip_prefix("> ")).unwrap_or(item);
                if item != bare {
                    self.close();
                }
                self.join(Kind::Document, number, without_code(item.trim()).trim_start_matches(['*', '_']));
            }
        }
    }

    /// Comments of several lines are parts; so is each other line.
    fn lines(&mut self, text: &str) {
        for (line, number) in text.lines().zip(1..) {
            let bare = line.trim();
            match bare.strip_prefix('#').or_else(|| bare.strip_prefix("//")) {
                Some(comment) if !comment.trim().is_empty() => {
                    self.join(Kind::Document, number, comment.trim_start_matches(['#', '/', '!']).trim());
                }
                _ => self.alone(Kind::Document, number, bare),
            }
        }
    }

    /// Comments of several lines are parts; so is each line of a string. Other code is left out.
    fn rust(&mut self, text: &str) {
        let (mut number, mut rest, mut fresh, mut before) = (1, text, true, ' ');
        while let Some(next) = rest.chars().next() {
            if let Some(comment) = rest.strip_prefix("//") {
                let line = comment.split('\n').next().unwrap_or_default();
                let words = line.trim_start_matches(['/', '!']).trim();
                if !fresh || words.is_empty() {
                    self.close();
                }
                if !words.is_empty() {
                    self.join(Kind::Code, number, &without_code(words));
                }
                rest = comment.get(line.len()..).unwrap_or_default();
                // Includes the newline, so that a comment on the next line continues this one.
                rest = rest.strip_prefix('\n').unwrap_or(rest);
                (number, fresh, before) = (number + 1, true, '\n');
                continue;
            }
            if !next.is_whitespace() {
                self.close();
                fresh = false;
            }
            let taken = match next {
                '"' => self.string(rest, 0, true, &mut number),
                'r' if !before.is_alphanumeric() && before != '_' || matches!(before, 'b' | 'c') => {
                    let hashes = rest.chars().skip(1).take_while(|c| *c == '#').count();
                    match rest.get(1 + hashes..).filter(|rest| rest.starts_with('"')) {
                        Some(raw) => 1 + hashes + self.string(raw, hashes, false, &mut number),
                        None => 1,
                    }
                }
                '\'' => character(rest),
                '\n' => {
                    if before == '\n' {
                        self.close();
                    }
                    (number, fresh) = (number + 1, true);
                    1
                }
                other => other.len_utf8(),
            };
            before = next;
            rest = rest.get(taken..).unwrap_or_default();
        }
    }

    /// Reads a string from its opening quote and returns its length. Each line is a part, unless a backslash joins it to the next.
    fn string(&mut self, text: &str, hashes: usize, backslash: bool, number: &mut usize) -> usize {
        let end = format!("\"{}", "#".repeat(hashes));
        let mut line = String::new();
        let mut begins = *number;
        let mut at = 1;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty() && !rest.starts_with(&end)) {
            let next = rest.chars().next().unwrap_or_default();
            let escaped = rest.chars().nth(1).filter(|_| backslash && next == '\\');
            let ends = next == '\n' || escaped == Some('n');
            if ends {
                self.alone(Kind::Code, begins, line.trim());
                line.clear();
            } else if escaped == Some('\n') {
                line.push(' ');
            } else {
                line.push(escaped.unwrap_or(next));
            }
            *number += usize::from(next == '\n' || escaped == Some('\n'));
            at += next.len_utf8() + escaped.map_or(0, char::len_utf8);
            if ends {
                begins = *number;
            }
        }
        self.alone(Kind::Code, begins, line.trim());
        at + end.len()
    }
}

/// The length of a character or of the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut rest = text.char_indices().skip(1);
    match (rest.next(), rest.next()) {
        (Some((_, '\\')), _) => text.get(3..).and_then(|rest| rest.find('\'')).map_or(1, |at| at + 4),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// A line in which all text between backticks is replaced by `x`.
fn without_code(line: &str) -> String {
    let mut prose = String::new();
    for (part, at) in line.split('`').zip(0..) {
        prose.push_str(if at % 2 == 0 { part } else { "`x`" });
    }
    prose
}

#[cfg(test)]
mod tests {
    use super::segments;

    fn texts(name: &str, text: &str) -> Vec<(usize, String)> {
        let line = |segment: &super::Segment| segment.lines.first().map_or(0, |(_, number)| *number);
        segments(name, text).iter().map(|segment| (line(segment), segment.text.clone())).collect()
    }

    #[track_caller]
    fn check(name: &str, text: &str, expected: &[(usize, &str)]) {
        let expected: Vec<(usize, String)> = expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
        assert_eq!(texts(name, text), expected, "{text}");
    }

    #[test]
    fn pages_are_read_by_paragraph() {
        check(
            "a.md",
            "# One\nTwo\nthree `four`.\n\n- Five\n  six\n2. Seven",
            &[(1, "# One"), (2, "Two three `x`."), (5, "Five six"), (7, "Seven")],
        );
        check(
            "a.md",
            "| a | `b|c` |\n```sh\n# one\ntwo\n```\n**Three** four",
            &[(1, "a"), (1, "`x`"), (3, "one"), (4, "two"), (6, "Three** four")],
        );
    }

    #[test]
    fn files_are_read_by_comment_and_line() {
        check("a.yaml", "# One\n# two\na: b\n#\n# three", &[(1, "One two"), (3, "a: b"), (4, "#"), (5, "three")]);
    }

    #[test]
    fn code_is_read_by_comment_and_string() {
        check(
            "a.rs",
            "//! One\n//! two\n\n/// Three `four`\nlet five = 1; // six\n// seven",
            &[(1, "One two"), (4, "Three `x`"), (5, "six seven")],
        );
        check(
            "a.rs",
            "f::<'a>('\"', '\\'', \"one \\\"two\\\" \\\n  three\\nfour\", r#\"five\n\"six\"\"#)",
            &[(1, "one \"two\"    three"), (2, "four"), (2, "five"), (3, "\"six\"")],
        );
    }
}
