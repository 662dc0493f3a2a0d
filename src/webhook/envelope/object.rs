//! Objects without the members that no review reads, which are most of the bytes of a pod.
//!
//! Every value of a tree is allocated and freed, which takes several times as long as skipping its text. What is skipped
//! can have any depth: the parser limits the depth of what it reads to 127, and skips without recursion.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use mullion_engine::model::Operation;
use mullion_engine::model::pod_view::{UnreadMembers, is_unread_list, unread_members};
use mullion_engine::model::scheduling::names_deciding_label;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::webhook::envelope::reading_limits::{LimitedReading, is_set};

/// How much of an object is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Nothing: null replaces it.
    Nothing,
    /// The members that reviews of that operation read.
    Reviewed(Operation),
    /// Everything but the owners of fields.
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
    limits: Option<&'k LimitedReading>,
    /// Whether it is in an item of a set, which is parsed a second time. The second parser has a limit of depth of its own,
    /// so that there must not be a third.
    in_set: bool,
    tree: PhantomData<T>,
}

impl<T> Clone for Part<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Part<'_, T> {}

impl<'k, T> Part<'k, T> {
    /// The object itself.
    pub(super) fn whole(extent: Extent, limits: Option<&'k LimitedReading>) -> Self {
        Self { inside: "", extent, limits, in_set: false, tree: PhantomData }
    }

    /// The members of this value that are skipped, if there are any.
    fn unread_members(&self) -> Option<&'static UnreadMembers> {
        match self.extent {
            Extent::Reviewed(operation) => unread_members(operation, self.inside),
            // A value of which nothing is read has no members.
            Extent::Whole | Extent::Nothing => unread_members(Operation::Update, self.inside),
        }
    }
}

impl<T: JsonTree> Part<'_, T> {
    /// Reads a list up to its limit.
    fn read_list<'de, A: SeqAccess<'de>>(self, items: &mut A, limits: &LimitedReading) -> Result<T::List, A::Error> {
        let mut list = T::List::default();
        for _ in 0..limits.items(self.inside) {
            let Some(item) = items.next_element_seed(self)? else { return Ok(list) };
            T::push(&mut list, item);
        }
        if skip_items(items)? {
            limits.cut(self.inside);
        }
        Ok(list)
    }

    /// Reads a list in which a repeated item changes nothing: each item once, and beyond the limit as many again of those
    /// that decide the operating system.
    fn read_set<'de, A: SeqAccess<'de>>(self, items: &mut A, limits: &LimitedReading) -> Result<T::List, A::Error> {
        let most = limits.items(self.inside);
        let mut list = T::List::default();
        let mut known = HashSet::new();
        while let Some(item) = items.next_element::<&RawValue>()? {
            let text = item.get();
            if known.contains(text) {
                limits.shorten(self.inside);
            } else if known.len() < most || (known.len() < 2 * most && names_deciding_label(text)) {
                known.insert(text);
                let mut parser = serde_json::Deserializer::from_str(text);
                let item = Part { in_set: true, ..self }.deserialize(&mut parser).map_err(A::Error::custom)?;
                T::push(&mut list, item);
            } else {
                limits.cut(self.inside);
                // Positions after this item differ from those in the whole list.
                limits.shorten(self.inside);
            }
        }
        Ok(list)
    }
}

/// Skips the rest of a list; returns whether there was one.
fn skip_items<'de, A: SeqAccess<'de>>(items: &mut A) -> Result<bool, A::Error> {
    let mut any = false;
    while items.next_element::<IgnoredAny>()?.is_some() {
        any = true;
    }
    Ok(any)
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
        if is_unread_list(self.inside) {
            skip_items(&mut items)?;
            return Ok(T::default());
        }
        if let Some(limits) = self.limits {
            let is_set = is_set(self.inside) && !self.in_set;
            let list = if is_set { self.read_set(&mut items, limits) } else { self.read_list(&mut items, limits) };
            return list.map(T::of_list);
        }
        let mut list = T::List::default();
        while let Some(item) = items.next_element_seed(self)? {
            T::push(&mut list, item);
        }
        Ok(T::of_list(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<T, A::Error> {
        let most = self.limits.map_or(usize::MAX, LimitedReading::entries);
        let unread = self.unread_members();
        let (mut map, mut number) = (T::Map::default(), 0);
        while let Some(BorrowedText(name)) = members.next_key()? {
            let is_beyond = number >= most && (number >= 2 * most || !names_deciding_label(&name));
            if is_beyond || unread.is_some_and(|unread| unread.have(&name)) {
                members.next_value::<IgnoredAny>()?;
                if let Some(limits) = self.limits.filter(|_| is_beyond) {
                    limits.cut(self.inside);
                }
            } else {
                number += 1;
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

    use mullion_engine::model::pod_view::is_unread;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::webhook::envelope::reading_limits::{CutMembers, ReadingLimits, STEPS};

    const CREATE: Extent = Extent::Reviewed(Operation::Create);

    fn read_text(text: &str, extent: Extent) -> serde_json::Result<Value> {
        Part::whole(extent, None).deserialize(&mut serde_json::Deserializer::from_str(text))
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
        claims["f:metadata"]["f:annotations"].as_object_mut().unwrap().clear();
        assert_eq!(read(&pod, Extent::Reviewed(Operation::Update)), expected);
        expected.as_object_mut().unwrap().remove("status");
        expected["spec"]["containers"] = json!([{"name": "c", "image": "app"}]);
        assert_eq!(read(&pod, CREATE), expected);
        let mut whole = pod.clone();
        whole["metadata"]["managedFields"] = expected["metadata"]["managedFields"].clone();
        assert_eq!(read(&pod, Extent::Whole), whole);
        assert_eq!(read(&pod, Extent::Nothing), Value::Null);
    }

    #[test]
    fn the_depth_of_skipped_members_has_no_limit() {
        let deep = |open: &str, close: &str| format!("{}{}", open.repeat(10_000), close.repeat(10_000));
        let maps = deep(r#"{"f:a":["#, "]}");
        for owners in [
            maps.clone(),
            deep("[", "]"),
            format!(r#"{{"f:metadata":{maps}}}"#),
            format!(r#"{{"f:metadata":{{"f:annotations":{maps}}}}}"#),
            format!(r#"{{"f:metadata":{{"f:annotations":{{"f:mullion.dev/decision":{maps}}}}}}}"#),
        ] {
            let text = format!(r#"{{"metadata":{{"name":"a","managedFields":[{{"fieldsV1":{owners}}}]}}}}"#);
            for extent in [CREATE, Extent::Reviewed(Operation::Update), Extent::Whole, Extent::Nothing] {
                assert!(read_text(&text, extent).is_ok(), "{extent:?} of {} bytes", text.len());
            }
        }
    }

    /// The object that is read within limits, and the members that are not read to their end.
    fn read_within(object: &Value, limits: ReadingLimits) -> (Value, CutMembers) {
        let (text, limited) = (object.to_string(), LimitedReading::new(limits));
        let parser = &mut serde_json::Deserializer::from_str(&text);
        let read: Value = Part::whole(CREATE, Some(&limited)).deserialize(parser).unwrap();
        (read, limited.into_cut())
    }

    #[test]
    fn lists_and_maps_are_read_up_to_their_limits() {
        let limits = STEPS[4];
        let names = |number: usize| (0..number).map(|at| json!({"name": at})).collect::<Vec<_>>();
        let [one, os] = ["a", "kubernetes.io/os"].map(|key| json!({"key": key, "operator": "Exists"}));
        let labels = |number: usize| (0..number).map(|at| (format!("k{at:03}"), at.into())).collect::<Map<_, _>>();
        let mut many = labels(100);
        many.insert("mullion.dev/os".to_owned(), json!("windows"));
        let mut few = labels(64);
        few.insert("mullion.dev/os".to_owned(), json!("windows"));
        let pod = |labels: Map<String, Value>, containers: usize, volumes: usize, expressions: Value| {
            let containers = names(containers);
            json!({"metadata": {"labels": labels},
                "spec": {"containers": containers, "volumes": names(volumes), "term": {"matchExpressions": expressions}}})
        };
        let whole = pod(many, 600, 3, json!([one, one, {"key": "b"}, one, os, os]));
        let (read, cut) = read_within(&whole, limits);
        assert_eq!(read, pod(few, 512, 1, json!([one, os])));
        let unread: Vec<&str> = cut.unread().iter().map(|name| &**name).collect();
        assert_eq!(unread, ["labels", "containers", "matchExpressions", "volumes"]);
        // What fits is read to its end; a repeated requirement is read once.
        let small = pod(labels(64), 512, 1, json!([one, one]));
        let (read, cut) = read_within(&small, limits);
        assert_eq!(read, pod(labels(64), 512, 1, json!([one])));
        assert!(cut.unread().is_empty() && !cut.shortened().is_empty(), "{cut:?}");
    }

    #[test]
    fn a_set_in_a_set_is_not_parsed_again() {
        let deep = |levels: usize| format!("{}1{}", r#"{"matchExpressions":["#.repeat(levels), "]}".repeat(levels));
        for (levels, is_read) in [(50, true), (100_000, false)] {
            let limited = LimitedReading::new(STEPS[0]);
            let text = deep(levels);
            let parser = &mut serde_json::Deserializer::from_str(&text);
            let read: serde_json::Result<Value> = Part::whole(CREATE, Some(&limited)).deserialize(parser);
            assert_eq!(read.is_ok(), is_read, "{levels} levels");
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(read_text(&deep, CREATE).is_err());
    }

    fn strip(value: &mut Value, operation: Operation, parent: &str) {
        match value {
            Value::Array(_) if is_unread_list(parent) => *value = Value::Null,
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
            object in any_json("status|containers|initContainers|env|fieldsV1|f:spec|f:metadata|f:annotations|f:mullion.dev/decision|name"),
            operation in prop::sample::select(vec![Operation::Create, Operation::Update]),
        ) {
            let mut expected = object.clone();
            strip(&mut expected, operation, "");
            prop_assert_eq!(read(&object, Extent::Reviewed(operation)), expected);
        }
    }
}
