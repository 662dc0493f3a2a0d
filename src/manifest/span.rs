//! Places in a source text.

use std::ops::Range;

/// A half-open range of bytes in the whole source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

/// A place as an editor shows it: both numbers count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineColumn {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

/// Turns byte offsets into lines and columns.
///
/// Lines end at `\n`, `\r\n` or a lone `\r`, as in YAML; a byte-order mark takes no column.
#[derive(Clone, Debug)]
pub struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// How many characters begin before each block of [`BLOCK`] bytes: a dump may be one line of 50 MB.
    characters: Vec<usize>,
}

/// Bytes that are counted through for one column.
const BLOCK: usize = 4096;

impl Span {
    /// The range from `start` to `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The place between two bytes.
    pub const fn empty(at: usize) -> Self {
        Self { start: at, end: at }
    }

    /// True if no byte lies inside.
    pub const fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// The same bytes counted from a start `offset` bytes earlier.
    #[must_use]
    pub const fn shifted(self, offset: usize) -> Self {
        Self { start: self.start + offset, end: self.end + offset }
    }

    /// As a range, for slicing.
    pub const fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

impl<'a> LineIndex<'a> {
    /// Reads through `text` once.
    pub fn new(text: &'a str) -> Self {
        let mut starts = vec![if text.starts_with('\u{feff}') { 3 } else { 0 }];
        let mut bytes = text.bytes().enumerate().peekable();
        while let Some((at, byte)) = bytes.next() {
            let ends = match byte {
                b'\n' => true,
                b'\r' => !matches!(bytes.peek(), Some((_, b'\n'))),
                _ => false,
            };
            if ends {
                starts.push(at + 1);
            }
        }
        let mut before = 0;
        let characters = text
            .as_bytes()
            .chunks(BLOCK)
            .map(|block| {
                let here = before;
                before += characters(block);
                here
            })
            .collect();
        Self { text, starts, characters }
    }

    /// The line and column of the byte at `offset`; an offset past the end gives the end, one inside a character that character.
    pub fn line_column(&self, offset: usize) -> LineColumn {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.characters_before(offset).saturating_sub(self.characters_before(start));
        LineColumn { line, column: column + 1 }
    }

    /// How many characters end at or before `offset`.
    fn characters_before(&self, offset: usize) -> usize {
        let offset = (0..=offset).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let block = offset / BLOCK;
        let rest = self.text.as_bytes().get(block * BLOCK..offset).unwrap_or_default();
        self.characters.get(block).copied().unwrap_or_else(|| characters(self.text.as_bytes())) + characters(rest)
    }

    /// How many lines there are; the place after a final line break counts as one.
    pub fn lines(&self) -> usize {
        self.starts.len()
    }
}

/// How many characters begin in `bytes`.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| (**byte & 0xc0) != 0x80).count()
}

/// The first line break at or after `at`, or the end of `text`.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find(['\n', '\r'])).map_or(text.len(), |found| at + found)
}

/// The start of the line after the one `at` is in, or the end of `text`.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    let end = line_end(text, at);
    end + line_break(text, end).len()
}

/// The line break that stands at `at`: `"\n"`, `"\r\n"`, `"\r"`, or nothing.
pub(super) fn line_break(text: &str, at: usize) -> &'static str {
    match text.get(at..).unwrap_or_default().as_bytes() {
        [b'\r', b'\n', ..] => "\r\n",
        [b'\r', ..] => "\r",
        [b'\n', ..] => "\n",
        _ => "",
    }
}

/// The start of the line that `at` is in.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind(['\n', '\r'])).map_or(0, |found| found + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_and_columns() {
        let cases: &[(&str, usize, (usize, usize))] = &[
            ("", 0, (1, 1)),
            ("ab\ncd", 0, (1, 1)),
            ("ab\ncd", 2, (1, 3)),
            ("ab\ncd", 3, (2, 1)),
            ("ab\ncd", 99, (2, 3)),
            ("a\r\nb", 1, (1, 2)),
            ("a\r\nb", 3, (2, 1)),
            ("a\rb", 2, (2, 1)),
            ("\u{feff}a: b\nc", 3, (1, 1)),
            ("\u{feff}a: b\nc", 0, (1, 1)),
            ("\u{feff}a: b\nc", 8, (2, 1)),
            ("ü: x", 2, (1, 2)),
            ("ü: x", 1, (1, 1)),
            ("日本: x", 8, (1, 5)),
            ("a\n", 2, (2, 1)),
        ];
        for (text, offset, (line, column)) in cases {
            assert_eq!(
                LineIndex::new(text).line_column(*offset),
                LineColumn { line: *line, column: *column },
                "{text:?} at {offset}"
            );
        }
    }

    #[test]
    fn columns_of_one_long_line() {
        let text = "aü日".repeat(10_000);
        let index = LineIndex::new(&text);
        for offset in [0, 1, 3, 4095, 4096, 4097, 8192, 59_999, 60_000] {
            let column = text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= offset).count() + 1;
            assert_eq!(index.line_column(offset), LineColumn { line: 1, column }, "{offset}");
        }
    }

    proptest! {
        #[test]
        fn any_offset_has_a_place(text in "[\\x{feff}aü\r\n:\\- ]{0,40}", offset in 0usize..120) {
            let index = LineIndex::new(&text);
            let place = index.line_column(offset);
            prop_assert!(place.line >= 1 && place.line <= index.lines());
            prop_assert!(place.column >= 1);
            prop_assert!(index.line_column(offset + 1) >= place);
        }
    }
}
