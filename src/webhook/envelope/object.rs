//! Objects without the members that no review reads, which are most of the bytes of a pod.
//!
//! Every value of a tree is allocated and freed, which takes several times as long as to skip its text.

use std::fmt;

use mullion_engine::model::Operation;
use mullion_engine::model::pod_view::is_unread;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How much of an object is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Null replaces it.
    Nothing,
    /// The members that reviews of that operation read.
    Reviewed(Operation),
    /// Everything.
    Whole,
}

/// A value of an object, and the member that contains it; for an item of a list, the member that contains the list.
#[derive(Clone, Copy)]
pub(crate) struct Part<'k> {
    inside: &'k str,
    extent: Extent,
}

impl Part<'static> {
    /// The object itself.
    pub(crate) fn whole(extent: Extent) -> Self {
        Self { inside: "", extent }
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.extent {
            Extent::Nothing => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if matches!(self.extent, Extent::Reviewed(operation) if is_unread(operation, self.inside, &name)) {
                members.next_value::<IgnoredAny>()?;
            } else {
                let value = members.next_value_seed(Part { inside: &name, ..self })?;
                map.insert(name, value);
            }
        }
        Ok(Value::Object(map))
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
        expected.as_object_mut().unwrap().remove("status");
        let claims = expected["metadata"]["managedFields"][0]["fieldsV1"].as_object_mut().unwrap();
        claims.retain(|name, _| name == "f:metadata");
        assert_eq!(read(&pod, Extent::Reviewed(Operation::Update)), expected);
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
