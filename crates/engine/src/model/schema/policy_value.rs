//! The types that a key of a policy file can have, each with the shape of its value.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::schema::types::{SchemaObject, TextFormat, ValueShape};

/// A type of values in policy files.
pub trait PolicyValue {
    /// The shape of its values.
    const SHAPE: ValueShape;
}

/// A type with the keys of a map, declared by [`policy_object!`](crate::policy_object).
pub trait PolicyObject {
    /// Its keys.
    const OBJECT: &'static SchemaObject;
}

impl<T: PolicyValue> PolicyValue for Option<T> {
    const SHAPE: ValueShape = T::SHAPE;
}

impl<T: PolicyValue> PolicyValue for Vec<T> {
    const SHAPE: ValueShape = ValueShape::List(&T::SHAPE);
}

macro_rules! shapes {
    ($($type:ty: $shape:expr),+ $(,)?) => {
        $(impl PolicyValue for $type {
            const SHAPE: ValueShape = $shape;
        })+
    };
}

shapes! {
    String: ValueShape::Text(TextFormat::Any),
    i64: ValueShape::Integer,
    Duration: ValueShape::Text(TextFormat::Span),
    PathBuf: ValueShape::Text(TextFormat::Path),
    Value: ValueShape::Map,
    Map<String, Value>: ValueShape::Map,
    BTreeMap<String, String>: ValueShape::Texts(TextFormat::Any, TextFormat::Any),
}

/// The value is plain data, so this never fails.
pub fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The member of a value with that key.
pub fn member(value: &impl Serialize, key: &str) -> Value {
    to_json(value).get_mut(key).map(Value::take).unwrap_or_default()
}
