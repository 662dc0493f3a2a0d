//! [`JsonText`]: a part of an object that stays text until it is needed as values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The maximum number of values in it. A pod has some hundred. A value takes up to 350 bytes (an object with one member
/// 650), so that the values of one text take up to 17 MB.
const MAX_VALUES: usize = 50_000;

/// A part of an object as text. Its values take up to fifty times as much memory: they are made when a review needs
/// them, and dropped after it.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonText(Option<Box<RawValue>>);

impl JsonText {
    /// The values; null if the part is missing.
    pub(crate) fn value(&self) -> Value {
        self.read().unwrap_or_default()
    }

    /// The members that `T` names; `None` if they are not as expected.
    pub(crate) fn read<T: for<'de> Deserialize<'de>>(&self) -> Option<T> {
        serde_json::from_str(self.0.as_ref()?.get()).ok()
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        let mut values = 0;
        CountSeed(&mut values)
            .deserialize(&mut serde_json::Deserializer::from_str(text.get()))
            .map_err(D::Error::custom)?;
        Ok(Self(Some(text)))
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

/// Counts values without making them, and fails if there are more than [`MAX_VALUES`].
struct CountSeed<'c>(&'c mut usize);

impl CountSeed<'_> {
    fn count<E: Error>(self) -> Result<(), E> {
        *self.0 += 1;
        if *self.0 > MAX_VALUES { Err(E::custom("too many values")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for CountSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CountSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.count()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.count()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.count()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.count()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.count()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.count()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self(values) = self;
        while items.next_element_seed(CountSeed(values))?.is_some() {}
        CountSeed(values).count()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self(values) = self;
        while members.next_key::<IgnoredAny>()?.is_some() {
            members.next_value_seed(CountSeed(values))?;
        }
        CountSeed(values).count()
    }
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
    }
}
