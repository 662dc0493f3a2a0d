//! Deserialization of a [`ManifestNode`] with serde: a type is read from it without a [`Value`](serde_json::Value) in between,
//! which takes 20 MB for ten thousand small maps.

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Error;

use crate::node::{ManifestEntry, ManifestNode, NodeValue};

impl<'de> Deserializer<'de> for &'de ManifestNode {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            NodeValue::Null => visitor.visit_unit(),
            NodeValue::Bool(value) => visitor.visit_bool(*value),
            NodeValue::Number(number) => number.deserialize_any(visitor),
            NodeValue::String(text) => visitor.visit_borrowed_str(text),
            NodeValue::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            NodeValue::Map(entries) => visitor.visit_map(map(entries)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            NodeValue::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.value {
            NodeValue::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            NodeValue::Map(entries) if entries.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(map(entries)))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for &'de ManifestNode {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

fn map(entries: &[ManifestEntry]) -> MapDeserializer<'_, impl Iterator<Item = (&str, &ManifestNode)>, Error> {
    MapDeserializer::new(entries.iter().map(|entry| (entry.key.as_str(), &entry.value)))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;

    use crate::document::documents;

    #[derive(Debug, PartialEq, Deserialize)]
    enum Choice {
        Plain,
        With(i64),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Typed {
        maybe: Option<bool>,
        number: f64,
        choices: Vec<Choice>,
        wrapped: Wrapped,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Wrapped(String);

    impl Default for Typed {
        fn default() -> Self {
            Self { maybe: Some(false), number: 1.0, choices: Vec::new(), wrapped: Wrapped::default() }
        }
    }

    #[test]
    fn types_are_read_as_from_json() {
        for text in [
            "maybe: null\nnumber: 0.5\nchoices: [Plain, {With: 3}]\nwrapped: x",
            "choices: [Plain]",
            "maybe: yes\nnumber: 3",
            "choices: [Other]",
            "choices: [{With: 3, Plain: null}]",
            "choices: [3]",
            "number: text",
            "wrapped: [x]",
            "other: 1",
            "[1, 2]",
            "just text",
        ] {
            let document = documents("t.yaml", text).pop().unwrap().unwrap();
            let from_json = serde_json::from_value::<Typed>(document.json.clone());
            let from_node = Typed::deserialize(&document.node);
            match (from_json, from_node) {
                (Ok(one), Ok(other)) => assert_eq!(one, other, "{text}"),
                (Err(_), Err(_)) => {}
                different => panic!("{text}: {different:?}"),
            }
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            "[a-z: #]{0,5}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_comes_out_as_it_is(value in json()) {
            for document in documents("t.json", &value.to_string()) {
                let document = document.unwrap();
                prop_assert_eq!(Value::deserialize(&document.node).unwrap(), document.json);
            }
        }
    }
}
