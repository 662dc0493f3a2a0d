//! Spans and line numbers of a source text.

use std::ops::Range;

/// A half-open range of bytes in the whole source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
}

/// A place in the form that editors show: both numbers count from 1, columns in characters.
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
    /// The counts before each block of [`BLOCK`] bytes. There is no entry for each line, because a file may be 50 MB of
    /// empty lines, or one line of 50 MB.
    blocks: Vec<Before>,
    total: Before,
}

/// The number of bytes to search for one place: ten thousand places in one file take some milliseconds.
const BLOCK: usize = 512;

/// The counts before a byte.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    /// How many lines ended.
    breaks: usize,
    /// How many characters began.
    characters: usize,
}

impl Span {
    /// The range from `start` to `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The empty span between two bytes.
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
        let mut index = Self { text, blocks: Vec::with_capacity(text.len() / BLOCK + 1), total: Before::default() };
        for (at, block) in text.as_bytes().chunks(BLOCK).enumerate() {
            index.blocks.push(index.total);
            index.total.breaks += index.breaks(at * BLOCK, at * BLOCK + block.len());
            index.total.characters += characters(block);
        }
        index
    }

    /// The line and column of the byte at `offset`. An offset past the end is the end; an offset inside a character is
    /// the character.
    pub fn line_column(&self, offset: usize) -> LineColumn {
        let offset = offset.min(self.text.len());
        let offset = (0..=offset).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let line = self.line(offset);
        let start = self.line_start(line - 1, offset);
        let column = self.characters_before(offset).saturating_sub(self.characters_before(start));
        LineColumn { line, column: column + 1 }
    }

    /// The line of the byte at `offset`; faster than [`line_column`](Self::line_column).
    pub fn line(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        self.before(offset / BLOCK).breaks + self.breaks(offset / BLOCK * BLOCK, offset) + 1
    }

    /// The number of lines; the place after a final line break counts as one.
    pub fn lines(&self) -> usize {
        self.total.breaks + 1
    }

    /// The start of the line that contains `offset`, after `breaks` line breaks.
    fn line_start(&self, breaks: usize, offset: usize) -> usize {
        if breaks == 0 {
            return if self.text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        }
        // The last block that begins before the line's own break.
        let block = self.blocks.partition_point(|before| before.breaks < breaks).saturating_sub(1);
        let end = ((block + 1) * BLOCK).min(offset);
        (block * BLOCK..end).rev().find(|at| self.ends_line(*at)).map_or(0, |at| at + 1)
    }

    /// How many characters begin before `offset`, which is not inside a character.
    fn characters_before(&self, offset: usize) -> usize {
        let rest = self.text.as_bytes().get(offset / BLOCK * BLOCK..offset).unwrap_or_default();
        self.before(offset / BLOCK).characters + characters(rest)
    }

    /// The counts before a block; for the one after the last, before the end.
    fn before(&self, block: usize) -> Before {
        self.blocks.get(block).copied().unwrap_or(self.total)
    }

    /// How many lines end from `start` up to `end`.
    fn breaks(&self, start: usize, end: usize) -> usize {
        let bytes = self.text.as_bytes().get(start..end).unwrap_or_default();
        // This case covers nearly every text, and is several times as fast.
        if !bytes.contains(&b'\r') {
            return bytes.iter().map(|byte| usize::from(*byte == b'\n')).sum();
        }
        (start..end).filter(|at| self.ends_line(*at)).count()
    }

    /// Whether a line ends with the byte at `at`.
    fn ends_line(&self, at: usize) -> bool {
        let bytes = self.text.as_bytes();
        match bytes.get(at) {
            Some(b'\n') => true,
            Some(b'\r') => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        }
    }
}

/// How many characters begin in `bytes`.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| (**byte & 0xc0) != 0x80).count()
}

/// The first line break at or after `at`, or the end of `text`.
pub(crate) fn line_end(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find(['\n', '\r'])).map_or(text.len(), |found| at + found)
}

/// The start of the line after the line that contains `at`, or the end of `text`.
pub(crate) fn next_line(text: &str, at: usize) -> usize {
    let end = line_end(text, at);
    end + line_break(text, end).len()
}

/// The line break at `at`: `"\n"`, `"\r\n"`, `"\r"`, or nothing.
pub(crate) fn line_break(text: &str, at: usize) -> &'static str {
    match text.get(at..).unwrap_or_default().as_bytes() {
        [b'\r', b'\n', ..] => "\r\n",
        [b'\r', ..] => "\r",
        [b'\n', ..] => "\n",
        _ => "",
    }
}

/// The start of the line that contains `at`.
pub(crate) fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind(['\n', '\r'])).map_or(0, |found| found + 1)
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

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

    #[test]
    fn lines_that_end_at_the_edge_of_a_block() {
        for filler in [BLOCK - 2, BLOCK - 1, BLOCK, 3 * BLOCK - 1] {
            for line_break in ["\n", "\r\n", "\r"] {
                let text = format!("{}{line_break}ab{line_break}{line_break}c", "x".repeat(filler));
                let index = LineIndex::new(&text);
                let second = filler + line_break.len();
                let fourth = text.len() - 1;
                let places =
                    [(0, (1, 1)), (filler, (1, filler + 1)), (second, (2, 1)), (second + 1, (2, 2)), (fourth, (4, 1))];
                for (offset, (line, column)) in places {
                    assert_eq!(
                        index.line_column(offset),
                        LineColumn { line, column },
                        "{filler} {line_break:?} {offset}"
                    );
                }
                assert_eq!(index.lines(), 4);
            }
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
