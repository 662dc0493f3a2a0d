//! The memory that the objects of a request take as trees, computed before the trees are built.
//!
//! A tree takes far more memory than its text: `{"a":1}` takes 640 bytes. [`estimate`] counts four characters and is at
//! least the size, for every body in less than a microsecond per 4 KB. [`TreeSize`] reads the body as the parser does,
//! without the members that no review reads, but stores only the size.

use std::borrow::Cow;

use memchr::memchr_iter;
use serde_json::Number;

use crate::webhook::envelope::object::JsonTree;

/// A map with entries, in bytes: one leaf of a `BTreeMap` has room for 11 keys of 24 bytes and 11 values of 32, and is allocated
/// as 640 bytes by glibc and mimalloc.
const MAP: usize = 640;
/// The maximum number of entries of a map that is one leaf.
const LEAF_ENTRIES: usize = 11;
/// Each entry of a larger map beyond the first, in bytes. Insertions in the worst order leave 5 entries in each node, so that 6
/// entries have a leaf of 640 bytes, and 36 a parent of up to 768. Measured: 110 to 125.
const MAP_ENTRY: usize = 136;
/// A list with one to four items, in bytes: a `Vec` begins with room for 4 values of 32 bytes; 160 bytes in mimalloc's classes.
const LIST: usize = 160;
/// Each item of a longer list, in bytes: its capacity is doubled, so that half of it can be empty, and while it is
/// doubled, the former half exists too.
const LIST_ITEM: usize = 96;
/// What a text takes beyond its bytes: glibc's smallest allocation.
const TEXT: usize = 32;

/// A text of `length` bytes. Mimalloc rounds a size up by a quarter at most.
const fn text_bytes(length: usize) -> usize {
    if length == 0 { 0 } else { TEXT + length + length / 4 }
}

/// At least the [size](TreeSize) of all objects in the body. Characters inside texts count too, so the real size can be
/// far smaller.
pub(crate) fn estimate(body: &[u8]) -> TreeSize {
    let count = |byte| memchr_iter(byte, body).count();
    // A comma adds an item, or an entry with its value; each key has a colon.
    let values = count(b',') * (MAP_ENTRY + TEXT);
    let containers = count(b'{') * (MAP + TEXT) + count(b'[') * (LIST + TEXT);
    let bytes = containers + values + count(b':') * TEXT + text_bytes(body.len());
    TreeSize { bytes, items: count(b',') + count(b'['), longest_text: body.len() }
}

/// The memory of a tree in the worst case.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeSize {
    /// The tree, in bytes.
    pub(crate) bytes: usize,
    /// The items of all lists.
    pub(crate) items: usize,
    /// The longest text in it, in bytes. The parser copies a text with escapes while it reads it.
    pub(crate) longest_text: usize,
}

impl TreeSize {
    /// The sum of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            items: self.items + other.items,
            longest_text: self.longest_text.max(other.longest_text),
        }
    }

    fn of_key(length: usize) -> Self {
        Self { bytes: text_bytes(length), items: 0, longest_text: length }
    }
}

/// The number and the sizes of items or entries.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    number: usize,
    sizes: TreeSize,
}

impl JsonTree for TreeSize {
    type List = Elements;
    type Map = Elements;

    fn of_bool(_: bool) -> Self {
        Self::default()
    }

    fn of_number(_: Number) -> Self {
        Self::default()
    }

    fn of_text(value: &str) -> Self {
        Self::of_key(value.len())
    }

    fn of_list(Elements { number, sizes }: Elements) -> Self {
        let own = match number {
            0 => 0,
            1..=4 => LIST,
            _ => number * LIST_ITEM,
        };
        Self { bytes: own + sizes.bytes, items: number + sizes.items, ..sizes }
    }

    fn of_map(Elements { number, sizes }: Elements) -> Self {
        let own = match number {
            0 => 0,
            1..=LEAF_ENTRIES => MAP,
            _ => MAP + (number - 1) * MAP_ENTRY,
        };
        Self { bytes: own + sizes.bytes, ..sizes }
    }

    fn push(list: &mut Elements, item: Self) {
        list.number += 1;
        list.sizes = list.sizes.and(item);
    }

    fn insert(map: &mut Elements, name: Cow<'_, str>, value: Self) {
        map.number += 1;
        map.sizes = map.sizes.and(Self::of_key(name.len())).and(value);
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use serde::de::DeserializeSeed as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::webhook::envelope::AdmissionRequest;
    use crate::webhook::envelope::object::{Extent, Part};

    fn size(text: &str) -> TreeSize {
        Part::whole(Extent::Whole, None).deserialize(&mut serde_json::Deserializer::from_str(text)).unwrap()
    }

    /// What the tree has allocated, at least: lists and texts by their capacity, maps by the entries of full nodes.
    fn allocated(value: &Value) -> usize {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.capacity(),
            Value::Array(items) => items.capacity() * size_of::<Value>() + items.iter().map(allocated).sum::<usize>(),
            Value::Object(map) => {
                let entry = size_of::<String>() + size_of::<Value>();
                let nodes = map.len().div_ceil(LEAF_ENTRIES + 1);
                let own = nodes * (LEAF_ENTRIES * entry + 16);
                own + map.iter().map(|(name, value)| name.capacity() + allocated(value)).sum::<usize>()
            }
        }
    }

    #[test]
    fn costs_are_those_of_the_types() {
        assert_eq!((size_of::<Value>(), size_of::<String>()), (32, 24), "the costs are derived from these");
        assert_eq!(size(r#"{"a":1}"#).bytes, MAP + text_bytes(1));
        assert_eq!(size("[1,2,3,4]").bytes, LIST);
        assert_eq!(size("[[],{},null,\"\"]").bytes, LIST, "empty ones allocate nothing");
        assert_eq!(size(r#"["abc","ab\u00e9"]"#).longest_text, 4);
    }

    #[test]
    fn members_that_no_review_reads_cost_nothing() {
        let env: Vec<_> = (0..1000).map(|at| json!({"name": format!("N{at}"), "value": "v"})).collect();
        // In the order of the API server: kind and operation come before the object.
        let review = |env: &Value, operation: &str| {
            format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u",
                "kind":{{"group":"","version":"v1","kind":"Pod"}},"operation":"{operation}",
                "object":{{"spec":{{"containers":[{{"name":"c","env":{env}}}]}},"status":{{"phase":"Pending"}}}}}}}}"#
            )
        };
        let size = |text: &str| AdmissionRequest::<TreeSize>::parse(text.as_bytes()).unwrap().object.bytes;
        let (many, none) = (json!(env), json!([]));
        assert_eq!(size(&review(&many, "CREATE")), size(&review(&none, "CREATE")));
        assert!(size(&review(&many, "UPDATE")) > 1000 * MAP, "an update compares them");
        assert_eq!(size(&review(&many, "DELETE")), 0);
        // The parser reads an object completely if kind and operation come after it.
        let request = json!({"object": {"status": {"a": 1}}, "uid": "u"}).to_string();
        let late = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{},"kind":{{"group":"","kind":"Pod"}},"operation":"CREATE"}}}}"#,
            request.strip_suffix('}').unwrap()
        );
        assert!(size(&late) >= 2 * MAP, "the status, too");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 400, 40, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..40)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn size_and_estimate_are_upper_bounds(object in any_json()) {
            let text = object.to_string();
            let parsed: Value = serde_json::from_str(&text).unwrap();
            let size = size(&text);
            prop_assert!(allocated(&parsed) <= size.bytes, "{} > {}", allocated(&parsed), size.bytes);
            let estimate = estimate(text.as_bytes());
            prop_assert!(size.bytes <= estimate.bytes && size.longest_text <= estimate.longest_text);
        }
    }
}
