//! Text of a document on one line: plain, code and names, and the few things that each format shows in its own way.

use jiff::civil::Date;
use mullion_engine::model::text::{counted, thousands};

/// Text on one line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Vec<Inline>);

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inline {
    Plain(String),
    /// What people type or look up: a command, a field, a value.
    Code(String),
    /// The name of a pool, a namespace, a version.
    Name(String),
    Object {
        kind: String,
        name: String,
    },
    /// The first of several objects, as many as the format shows, and the number of all.
    Objects {
        names: Vec<String>,
        all: usize,
    },
    /// A word that classifies, in the color of its tone.
    Tag(Tone, String),
    /// What is wrong: a number, a date.
    Alert(String),
    /// A date on which something ends. `passed`: whether it is over.
    Day {
        date: Date,
        passed: bool,
    },
    /// Where a fact is published, and the day of the source.
    Source {
        at: String,
        as_of: Option<Date>,
    },
    /// A link to an anchor of the page.
    Link {
        anchor: String,
        text: String,
    },
    /// A number that leads to the rows that it counts: those of a table with a text.
    Rows {
        table: &'static str,
        with: String,
        count: usize,
    },
    Bytes(u64),
    /// The end of one of several values: a line on the page, otherwise a comma.
    Break,
}

/// The color of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Bad,
    Warn,
    Note,
    Good,
}

/// What people type or look up.
pub(crate) fn code(text: impl Into<String>) -> Inline {
    Inline::Code(text.into())
}

/// A name.
pub(crate) fn name(text: impl Into<String>) -> Inline {
    Inline::Name(text.into())
}

impl Text {
    /// The text without marks: a backtick in it is a backtick.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Inline::Plain(text.into()).into()
    }

    /// Several values.
    pub(crate) fn list<T: Into<Self>>(values: impl IntoIterator<Item = T>) -> Self {
        let mut all = Vec::new();
        for value in values {
            if !all.is_empty() {
                all.push(Inline::Break);
            }
            all.extend(value.into().0);
        }
        Self(all)
    }

    /// This text and more.
    #[must_use]
    pub(crate) fn and(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        let is_blank = |part: &Inline| matches!(part, Inline::Plain(text) | Inline::Code(text) | Inline::Name(text) if text.is_empty());
        self.0.iter().all(is_blank)
    }
}

impl From<Inline> for Text {
    fn from(part: Inline) -> Self {
        Self(vec![part])
    }
}

/// A sentence, in which backticks mark code. A single backtick marks nothing.
impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let is_marked = text.matches('`').count().is_multiple_of(2);
        if !is_marked || !text.contains('`') {
            return Self::plain(text);
        }
        let parts = text.split('`').enumerate().filter(|(_, part)| !part.is_empty());
        Self(parts.map(|(at, part)| if at % 2 == 1 { code(part) } else { Inline::Plain(part.to_owned()) }).collect())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<usize> for Text {
    fn from(number: usize) -> Self {
        Self::plain(thousands(number))
    }
}

/// `4.1 GiB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.into_iter().find(|(unit, _)| bytes >= *unit);
    let Some((unit, name)) = unit else { return counted(usize::try_from(bytes).unwrap_or(usize::MAX), "byte") };
    // Tenths, rounded; a u128 holds ten times any u64.
    let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// `4.1 GiB (4,402,341,478 bytes)`.
pub(super) fn exact_size(bytes: u64) -> String {
    format!("{} ({} bytes)", size(bytes), thousands(usize::try_from(bytes).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_mark_code() {
        let plain = |text: &str| Inline::Plain(text.to_owned());
        assert_eq!(
            Text::from("Set `a<b` and `c`.").0,
            [plain("Set "), code("a<b"), plain(" and "), code("c"), plain(".")]
        );
        assert_eq!(Text::from("One ` alone").0, [plain("One ` alone")]);
        assert!(Text::from("").is_empty() && !Text::from("`a`").is_empty());
    }

    #[test]
    fn sizes_have_one_decimal() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (402_653_184, "384.0 MiB"),
            (4_402_341_478, "4.1 GiB"),
            (u64::MAX, "16777216.0 TiB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }
}
