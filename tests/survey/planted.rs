//! Objects with a distinct text in every member that their type has: fields of the types of the Kubernetes client, read
//! from a source that has each of them.

use std::fmt;

use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::{Map, Value};

/// How each planted text begins. No word of Kubernetes has digits in it.
pub const PLANTED: &str = "s3cret";

/// The time in every member of a time.
const TIME: &str = "2026-01-02T03:04:05Z";

/// The object of a type with every member: one item in each list, and one entry in each map.
pub fn planted<T: DeserializeOwned + Serialize>() -> Value {
    let mut count = 0;
    let object = T::deserialize(Source { count: &mut count }).unwrap();
    serde_json::to_value(object).unwrap()
}

/// A source with every member that is asked for.
struct Source<'c> {
    count: &'c mut usize,
}

impl Source<'_> {
    fn text(&mut self) -> String {
        *self.count += 1;
        format!("{PLANTED}{:05}", *self.count)
    }
}

impl<'de> Deserializer<'de> for Source<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(true)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i32(7)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(7)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        match name {
            "Time" | "MicroTime" => visitor.visit_newtype_struct(IntoDeserializer::<Error>::into_deserializer(TIME)),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(OneItem { source: self, ended: false })
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let key = self.text();
        visitor.visit_map(Members { source: self, keys: vec![key] })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        // The version and the kind of an object are those of its type, and are optional.
        let is_object = fields.starts_with(&["apiVersion", "kind"]) && fields.contains(&"metadata");
        let fields = if is_object { &fields[2..] } else { fields };
        visitor
            .visit_map(Members { source: self, keys: fields.iter().rev().map(|field| (*field).to_owned()).collect() })
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct enum
        identifier ignored_any
    }
}

struct Members<'c> {
    source: Source<'c>,
    /// The next one is the last.
    keys: Vec<String>,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(key) = self.keys.pop() else { return Ok(None) };
        let key: StrDeserializer<'_, Error> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(Source { count: self.source.count })
    }
}

struct OneItem<'c> {
    source: Source<'c>,
    ended: bool,
}

impl<'de> SeqAccess<'de> for OneItem<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(None);
        }
        seed.deserialize(Source { count: self.source.count }).map(Some)
    }
}

/// The path of a member: `spec.containers[].image`. A planted key is `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberPath(pub String);

impl fmt::Display for MemberPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl MemberPath {
    fn member(&self, key: &str) -> Self {
        let key = if key.contains(PLANTED) {
            "*".to_owned()
        } else if key.contains(['.', '/']) {
            format!("[{key}]")
        } else {
            key.to_owned()
        };
        let dot = if self.0.is_empty() || key.starts_with('[') { "" } else { "." };
        Self(format!("{}{dot}{key}", self.0))
    }

    fn item(&self) -> Self {
        Self(format!("{}[]", self.0))
    }
}

/// Visits every value of an object with its path, containers before what they contain.
pub fn visit(path: &MemberPath, value: &Value, see: &mut dyn FnMut(&MemberPath, &Value)) {
    see(path, value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit(&path.item(), item, see)),
        Value::Object(members) => members.iter().for_each(|(key, value)| visit(&path.member(key), value, see)),
        _ => {}
    }
}

/// Changes every map of an object, the inner ones first. Maps with planted keys are not those of a type.
pub fn change_maps(name: &str, value: &mut Value, change: &mut dyn FnMut(&str, &mut Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change_maps(name, item, change)),
        Value::Object(members) => {
            members.iter_mut().for_each(|(key, value)| change_maps(key, value, change));
            change(name, members);
        }
        _ => {}
    }
}
