//! The encodings of text files: UTF-8, and UTF-16 with a byte-order mark.
//!
//! Windows PowerShell writes UTF-16 with `>` and `Out-File`. `kubectl` reads it if the file has a byte-order
//! mark (kubernetes/kubernetes#39008), and Flux and kustomize do not.

use std::borrow::Cow;

use crate::document::text_from_bytes;
use crate::problem::{Problem, SpanProblem};
use crate::span::{LineIndex, Span};

/// The encoding of a text file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8, with or without a byte-order mark.
    #[default]
    Utf8,
    /// UTF-16, the low byte first.
    Utf16Le,
    /// UTF-16, the high byte first.
    Utf16Be,
}

impl TextEncoding {
    /// The encoding of a file by its byte-order mark; UTF-8 without one. UTF-32 begins with the mark of UTF-16, and is not
    /// read.
    pub fn of(bytes: &[u8]) -> Self {
        match bytes {
            [0xff, 0xfe, 0, 0, ..] => Self::Utf8,
            [0xff, 0xfe, ..] => Self::Utf16Le,
            [0xfe, 0xff, ..] => Self::Utf16Be,
            _ => Self::Utf8,
        }
    }

    /// `UTF-8`, `UTF-16LE` or `UTF-16BE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
        }
    }

    /// The bytes of `text`, which contains the byte-order mark if the file has one.
    pub fn encode(self, text: &str) -> Cow<'_, [u8]> {
        let to_bytes = match self {
            Self::Utf8 => return Cow::Borrowed(text.as_bytes()),
            Self::Utf16Le => u16::to_le_bytes,
            Self::Utf16Be => u16::to_be_bytes,
        };
        Cow::Owned(text.encode_utf16().flat_map(to_bytes).collect())
    }

    /// The text of a file of this encoding, with its byte-order mark.
    pub fn decode(self, source_name: &str, bytes: &[u8]) -> Result<String, Box<Problem>> {
        let from_bytes = match self {
            Self::Utf8 => return text_from_bytes(source_name, bytes).map(str::to_owned),
            Self::Utf16Le => u16::from_le_bytes,
            Self::Utf16Be => u16::from_be_bytes,
        };
        let (units, rest) = bytes.as_chunks();
        let mut text = String::with_capacity(units.len());
        for unit in char::decode_utf16(units.iter().copied().map(from_bytes)) {
            let Ok(character) = unit else {
                return Err(self.broken(source_name, &text, "half of a character"));
            };
            if character == '\0' {
                return Err(self.broken(source_name, &text, "a zero, which no text contains"));
            }
            text.push(character);
        }
        if rest.is_empty() { Ok(text) } else { Err(self.broken(source_name, &text, "half of a character at the end")) }
    }

    /// A problem behind `text`.
    fn broken(self, source_name: &str, text: &str, what: &str) -> Box<Problem> {
        let fault = SpanProblem::new(Span::empty(text.len()), format!("not {}: this is {what}", self.name()))
            .hint("the file is damaged or not text; write it again, as UTF-8");
        Box::new(fault.located(source_name, &LineIndex::new(text)))
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    const UTF_16: [TextEncoding; 2] = [TextEncoding::Utf16Le, TextEncoding::Utf16Be];

    #[test]
    fn the_mark_decides() {
        let table: [(&[u8], TextEncoding); 6] = [
            (b"a", TextEncoding::Utf8),
            (b"\xef\xbb\xbfa", TextEncoding::Utf8),
            (b"\xff\xfea\0", TextEncoding::Utf16Le),
            (b"\xfe\xff\0a", TextEncoding::Utf16Be),
            (b"\xff\xfe\0\0a\0\0\0", TextEncoding::Utf8),
            (b"\xff", TextEncoding::Utf8),
        ];
        for (bytes, expected) in table {
            assert_eq!(TextEncoding::of(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn broken_text_has_a_place() {
        for encoding in UTF_16 {
            let good = encoding.encode("\u{feff}a: 1\nü: ").into_owned();
            let half = match encoding {
                TextEncoding::Utf16Be => [0xd8, 0x3d],
                _ => [0x3d, 0xd8],
            };
            for (tail, message) in
                [(&half[..], "half of a character"), (&[0, 0][..], "a zero"), (&half[..1], "at the end")]
            {
                let problem = *encoding.decode("t", &[&good, tail].concat()).unwrap_err();
                assert_eq!(problem.place(), Some((2, 4)), "{problem}");
                assert!(problem.message.contains(message), "{problem}");
            }
        }
    }

    proptest! {
        #[test]
        fn text_comes_back_as_it_was(text in "\\PC{0,20}|[\\x01-\\u{10ffff}]{0,20}") {
            for encoding in UTF_16 {
                let text = format!("\u{feff}{text}");
                let bytes = encoding.encode(&text);
                prop_assert_eq!(TextEncoding::of(&bytes), encoding);
                prop_assert_eq!(encoding.decode("t", &bytes).unwrap(), text);
            }
        }

        #[test]
        fn any_bytes_are_text_or_a_problem(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            for encoding in UTF_16 {
                if let Ok(text) = encoding.decode("t", &bytes) {
                    prop_assert_eq!(encoding.encode(&text).into_owned(), bytes.clone());
                }
            }
        }
    }
}
