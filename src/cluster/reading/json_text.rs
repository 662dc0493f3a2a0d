//! [`JsonText`]: a part of an object that stays text until it is needed as values.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The maximum number of values in it. A pod has some hundred. A value takes up to 350 bytes (an object with one member
/// 650), so that the values of one text take up to 17 MB.
const MAX_VALUES: usize = 50_000;

/// The deepest JSON that `serde_json` parses.
const MAX_DEPTH: usize = 127;

/// A part of an object as text. Its values take up to fifty times as much memory: they are made when a review needs
/// them, and dropped after it.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonText(Option<Box<RawValue>>);

impl JsonText {
    /// The values; null if the part is missing.
    pub(crate) fn value(&self) -> Value {
        self.parse().unwrap_or_default()
    }

    /// The members that `T` names; `None` if they are not as expected.
    pub(crate) fn parse<T: for<'de> Deserialize<'de>>(&self) -> Option<T> {
        serde_json::from_str(self.0.as_ref()?.get()).ok()
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        if is_within_limits(text.get()) { Ok(Self(Some(text))) } else { Err(D::Error::custom("too many values")) }
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

/// Whether the values of a JSON text can be made. Valid JSON has one value before each comma outside of texts, and one
/// at the end of each list and object that is not empty.
fn is_within_limits(json: &str) -> bool {
    let (mut values, mut depth, mut after_opening) = (1_usize, 0_usize, false);
    let (mut in_text, mut escaped) = (false, false);
    for byte in json.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        let (opens, closes) = (matches!(byte, b'{' | b'['), matches!(byte, b'}' | b']'));
        values += usize::from(byte == b',' || (after_opening && !closes));
        depth = if closes { depth.saturating_sub(1) } else { depth + usize::from(opens) };
        if values > MAX_VALUES || depth > MAX_DEPTH {
            return false;
        }
        (after_opening, in_text) = (opens, byte == b'"');
    }
    true
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn the_number_of_values_is_limited() {
        let list = |items: usize| serde_json::from_value::<JsonText>(vec![json!({}); items].into());
        assert!(list(MAX_VALUES - 1).is_ok());
        assert!(list(MAX_VALUES).is_err());
        let spec = json!({"os": {"name": "windows"}, "list": [1, -1, 1.5, true, null, "a"]});
        let text: JsonText = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!((text.value(), serde_json::to_value(&text).unwrap()), (spec.clone(), spec));
        assert_eq!(JsonText::default().value(), Value::Null);
        // A text that is accepted has values.
        for (depth, expected) in [(127, true), (128, false)] {
            let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(serde_json::from_str::<Value>(&nested).is_ok(), expected, "{depth}");
            assert_eq!(is_within_limits(&nested), expected, "{depth}");
        }
        // Characters in texts do not count.
        assert!(is_within_limits(&format!(r#"{{"a": "{}", "b": "\\"}}"#, "\\\",[".repeat(MAX_VALUES))));
    }
}
