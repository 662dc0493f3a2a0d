//! Text of others in formats for programs: exact, because the escapes of the format replace the characters that
//! [`mullion_engine::model::foreign_text`] escapes for people.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::io::Write;

use mullion_engine::model::foreign_text::escape;

/// A stream for serialized JSON. It gets whole characters in each write, as from `serde_json` and `tracing`.
#[derive(Debug)]
pub(crate) struct JsonWriter<W>(pub(crate) W);

impl<W: Write> Write for JsonWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes).map(json) {
            Ok(Cow::Owned(escaped)) => self.0.write_all(escaped.as_bytes()).map(|()| bytes.len()),
            Ok(Cow::Borrowed(_)) | Err(_) => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Serialized JSON with the escapes of JSON. Line breaks and tabs are between its values.
fn json(text: &str) -> Cow<'_, str> {
    escape(text, |c, _, out| match c {
        '\n' | '\r' | '\t' => out.push(c),
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _infallible = write!(out, "\\u{unit:04x}");
            }
        }
    })
}

/// An XML document without CDATA sections and comments, with character references.
pub(crate) fn xml(document: &str) -> Cow<'_, str> {
    escape(document, |c, _, out| match c {
        '\n' | '\r' | '\t' => out.push(c),
        _ => {
            let _infallible = write!(out, "&#x{:x};", u32::from(c));
        }
    })
}

/// The text with Rust escapes for control characters, which XML 1.0 does not have or changes in attributes, and which
/// the crate `quick-junit` leaves out, and for the other characters that XML 1.0 does not have.
pub(crate) fn xml_characters(text: &str) -> Cow<'_, str> {
    let has_no_place = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
    if !text.contains(has_no_place) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if has_no_place(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn json_is_exact_and_acts_on_nothing() {
        let text = "a\u{1b}\u{9b}\u{7f}\u{202e}\u{e0041}##vso[x]\n::error::y\u{2028}é";
        let mut out = Vec::new();
        serde_json::to_writer_pretty(JsonWriter(&mut out), &[text]).unwrap();
        let written = String::from_utf8(out).unwrap();
        let expected =
            "[\n  \"a\\u001b\\u009b\\u007f\\u202e\\udb40\\udc41#\\u0023vso[x]\\n:\\u003aerror::y\\u2028é\"\n]";
        assert_eq!(written, expected);
        assert_eq!(serde_json::from_str::<Vec<String>>(&written).unwrap(), [text]);
    }

    #[test]
    fn xml_has_references() {
        assert_eq!(
            xml("<a b=\"##[x]\u{85}\u{202e}\">\n::x</a>\n"),
            "<a b=\"#&#x23;[x]&#x85;&#x202e;\">\n:&#x3a;x</a>\n"
        );
        assert_eq!(xml_characters("a\u{0}\u{1b}\n\u{9b}\u{ffff}é"), "a\\u{0}\\u{1b}\\n\\u{9b}\\u{ffff}é");
    }

    proptest! {
        #[test]
        fn values_stay_the_same(text in "[\\PC\u{0}-\u{20}\u{200b}-\u{2069}#:\\[a\"\\\\]{0,40}") {
            let mut out = Vec::new();
            serde_json::to_writer(JsonWriter(&mut out), &text).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), Value::String(text));
        }
    }
}
