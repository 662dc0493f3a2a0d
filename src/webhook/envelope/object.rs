//! Objects without the members that no review reads, which are most of the bytes of a pod.
//!
//! Every value of a tree is allocated and freed, which takes several times as long as skipping its text.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use mullion_engine::model::Operation;
use mullion_engine::model::pod_view::is_unread;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How much of an object is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Nothing: null replaces it.
    Nothing,
    /// The members that reviews of that operation read.
    Reviewed(Operation),
    /// Everything.
    Whole,
}

/// The result of reading an object: a tree of values, or the [size](crate::webhook::envelope::tree_size::TreeSize) of
/// that tree.
pub trait JsonTree: Default {
    /// The items of a list so far.
    type List: Default;
    /// The members of an object so far.
    type Map: Default;

    /// A boolean.
    fn of_bool(value: bool) -> Self;
    /// A number.
    fn of_number(value: Number) -> Self;
    /// A string.
    fn of_text(value: &str) -> Self;
    /// A list.
    fn of_list(list: Self::List) -> Self;
    /// An object.
    fn of_map(map: Self::Map) -> Self;
    /// Adds an item.
    fn push(list: &mut Self::List, item: Self);
    /// Adds a member.
    fn insert(map: &mut Self::Map, name: Cow<'_, str>, value: Self);
}

impl JsonTree for Value {
    type List = Vec<Self>;
    type Map = Map<String, Self>;

    fn of_bool(value: bool) -> Self {
        Self::Bool(value)
    }

    fn of_number(value: Number) -> Self {
        Self::Number(value)
    }

    fn of_text(value: &str) -> Self {
        value.into()
    }

    fn of_list(list: Self::List) -> Self {
        Self::Array(list)
    }

    fn of_map(map: Self::Map) -> Self {
        Self::Object(map)
    }

    fn push(list: &mut Self::List, item: Self) {
        list.push(item);
    }

    fn insert(map: &mut Self::Map, name: Cow<'_, str>, value: Self) {
        map.insert(name.into_owned(), value);
    }
}

/// A string that is borrowed from the text, unless it contains escapes. A `Cow` alone is never borrowed inside another type.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// A value of an object, and the member that contains it; for an item of a list, the member that contains the list.
pub(crate) struct Part<'k, T> {
    inside: &'k str,
    extent: Extent,
    tree: PhantomData<T>,
}

impl<T> Clone for Part<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Part<'_, T> {}

impl<T> Part<'static, T> {
    /// The object itself.
    pub(crate) fn whole(extent: Extent) -> Self {
        Self { inside: "", extent, tree: PhantomData }
    }
}

impl<'de, T: JsonTree> DeserializeSeed<'de> for Part<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        match self.extent {
            Extent::Nothing => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| T::default()),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de, T: JsonTree> Visitor<'de> for Part<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E>(self, value: bool) -> Result<T, E> {
        Ok(T::of_bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<T, E> {
        Ok(T::of_number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<T, E> {
        Ok(T::of_number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<T, E> {
        Ok(Number::from_f64(value).map_or_else(T::default, T::of_number))
    }

    fn visit_str<E>(self, value: &str) -> Result<T, E> {
        Ok(T::of_text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<T, A::Error> {
        let mut list = T::List::default();
        while let Some(item) = items.next_element_seed(self)? {
            T::push(&mut list, item);
        }
        Ok(T::of_list(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<T, A::Error> {
        let mut map = T::Map::default();
        while let Some(BorrowedText(name)) = members.next_key()? {
            if matches!(self.extent, Extent::Reviewed(operation) if is_unread(operation, self.inside, &name)) {
                members.next_value::<IgnoredAny>()?;
            } else {
                let value = members.next_value_seed(Part { inside: &name, ..self })?;
                T::insert(&mut map, name, value);
            }
        }
        Ok(T::of_map(map))
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const CREATE: Extent = Extent::Reviewed(Operation::Create);

    fn read_text(text: &str, extent: Extent) -> serde_json::Result<Value> {
        Part::whole(extent).deserialize(&mut serde_json::Deserializer::from_str(text))
    }

    fn read(object: &Value, extent: Extent) -> Value {
        read_text(&object.to_string(), extent).unwrap()
    }

    #[test]
    fn unread_members_are_skipped() {
        let container = json!({"name": "c", "image": "app", "env": [{"name": "A", "value": "b"}], "envFrom": []});
        let labels = json!({"env": "prod", "status": "x", "f:spec": "y"});
        let claims = json!({"f:metadata": {"f:annotations": {"f:a": {}}}, "f:spec": {"f:x": {}}, "f:status": {}});
        let pod = json!({
            "metadata": {"labels": labels, "managedFields": [{"manager": "m", "fieldsV1": claims}]},
            "spec": {"containers": [container], "nodeSelector": labels, "replicas": 1, "weight": -1, "part": 0.5},
            "status": {"phase": "Running"},
        });
        let mut expected = pod.clone();
        let claims = expected["metadata"]["managedFields"][0]["fieldsV1"].as_object_mut().unwrap();
        claims.retain(|name, _| name == "f:metadata");
        assert_eq!(read(&pod, Extent::Reviewed(Operation::Update)), expected);
        expected.as_object_mut().unwrap().remove("status");
        expected["spec"]["containers"] = json!([{"name": "c", "image": "app"}]);
        assert_eq!(read(&pod, CREATE), expected);
        assert_eq!(read(&pod, Extent::Whole), pod);
        assert_eq!(read(&pod, Extent::Nothing), Value::Null);
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(read_text(&deep, CREATE).is_err());
    }

    fn strip(value: &mut Value, operation: Operation, parent: &str) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| strip(item, operation, parent)),
            Value::Object(members) => {
                members.retain(|name, _| !is_unread(operation, parent, name));
                members.iter_mut().for_each(|(name, value)| strip(value, operation, name));
            }
            _ => {}
        }
    }

    fn any_json(names: &'static str) -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, move |inner| {
            let members = prop::collection::btree_map(names, inner.clone(), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn other_members_are_read_unchanged(object in any_json("[a-z\"\\\\é]{0,3}")) {
            prop_assert_eq!(read(&object, CREATE), object);
        }

        #[test]
        fn members_that_the_engine_declares_are_skipped(
            object in any_json("status|containers|initContainers|env|envFrom|fieldsV1|f:spec|name"),
            operation in prop::sample::select(vec![Operation::Create, Operation::Update]),
        ) {
            let mut expected = object.clone();
            strip(&mut expected, operation, "");
            prop_assert_eq!(read(&object, Extent::Reviewed(operation)), expected);
        }
    }
}
