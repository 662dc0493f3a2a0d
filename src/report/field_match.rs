//! Comparison of an object with the fields that a test case expects.
//!
//! Every expected key of a map must match; `null` requires that it is absent. A list must match entry by entry; `key+:
//! [...]` requires that the list contains these entries among others, `key-: [...]` that it contains none of them.

use std::fmt;

use mullion_engine::model::text::{counted, shorten};
use serde_json::{Map, Value};

use crate::report::field_path::{FieldPath, list_name};

/// One place where an object differs from the expectation.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    path: FieldPath,
    /// The expected value; null if none is expected.
    expected: Value,
    /// Set if `expected` is an entry of a list: whether the list must contain it.
    entry: Option<bool>,
    actual: Option<Value>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected, entry, actual } = self;
        let (expected_length, actual_length, entry) = match (entry, expected, actual) {
            (Some(true), ..) => (String::new(), String::new(), "an entry "),
            (Some(false), ..) => (String::new(), String::new(), "no entry "),
            (None, Value::Array(expected), Some(Value::Array(actual))) => {
                let entries = |list: &Vec<Value>| format!("{} ", counted(list.len(), "entry"));
                (entries(expected), entries(actual), "")
            }
            (None, ..) => (String::new(), String::new(), ""),
        };
        let path = if path.is_root() { "the whole".to_owned() } else { path.to_string() };
        let expected = text(Some(expected).filter(|expected| self.entry.is_some() || !expected.is_null()));
        write!(f, "{path}: expected {expected_length}{entry}{expected}, found {actual_length}{}", text(actual.as_ref()))
    }
}

impl Mismatch {
    /// Whether it is about `field`, in its path or below on either side.
    pub fn concerns(&self, field: &str) -> bool {
        let field = FieldPath::parse(field);
        [Some(&self.expected), self.actual.as_ref()].iter().flatten().any(|side| self.path.reaches(&field, side))
    }
}

/// Every place where `actual` does not match `expected`.
pub fn mismatches(expected: &Value, actual: Option<&Value>) -> Vec<Mismatch> {
    let mut all = Vec::new();
    compare(expected, actual, &FieldPath::default(), &mut all);
    all
}

fn compare(expected: &Value, actual: Option<&Value>, path: &FieldPath, all: &mut Vec<Mismatch>) {
    match (expected, actual) {
        (Value::Null, None) => {}
        (Value::Object(wanted), Some(Value::Object(there))) => members(wanted, there, path, all),
        (Value::Object(wanted), None) if only_absences(wanted) => {}
        (Value::Array(wanted), Some(Value::Array(there))) if wanted.len() == there.len() => {
            for (index, (wanted, there)) in wanted.iter().zip(there).enumerate() {
                compare(wanted, Some(there), &path.index(index), all);
            }
        }
        (wanted, Some(there)) if wanted == there => {}
        _ => {
            let (expected, actual) = (expected.clone(), actual.cloned());
            all.push(Mismatch { path: path.clone(), expected, entry: None, actual });
        }
    }
}

/// A map that only contains absent keys matches a missing map.
fn only_absences(wanted: &Map<String, Value>) -> bool {
    !wanted.is_empty()
        && wanted.iter().all(|(key, value)| match value {
            Value::Null => true,
            Value::Object(inner) => only_absences(inner),
            _ => key.ends_with('-'),
        })
}

fn members(wanted: &Map<String, Value>, there: &Map<String, Value>, path: &FieldPath, all: &mut Vec<Mismatch>) {
    for (key, wanted) in wanted {
        let (key, entry) = list_name(key, wanted);
        let (path, actual) = (path.key(key), there.get(key));
        if entry.is_none() {
            compare(wanted, actual, &path, all);
            continue;
        }
        let items = actual.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for expected in wanted.as_array().into_iter().flatten() {
            let is_there = items.iter().any(|item| mismatches(expected, Some(item)).is_empty());
            if entry != Some(is_there) {
                let (path, actual) = (path.clone(), actual.cloned());
                all.push(Mismatch { path, expected: expected.clone(), entry, actual });
            }
        }
    }
}

/// A value, or `nothing`, shortened for people.
pub(crate) fn text(value: Option<&Value>) -> String {
    const MOST: usize = 600;
    let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    shorten(&text, MOST)
}

/// The part of `actual` that `expected` covers, in the same form: it equals `expected` if nothing is wrong.
pub(crate) fn likeness(expected: &Value, actual: &Value) -> Value {
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(there)) => {
            let member = |(key, wanted): (&String, &Value)| {
                let alone = Value::Object(Map::from_iter([(key.clone(), wanted.clone())]));
                let (name, entry) = list_name(key, wanted);
                match there.get(name) {
                    _ if mismatches(&alone, Some(actual)).is_empty() => Some((key.clone(), wanted.clone())),
                    Some(found) if entry.is_none() => Some((key.clone(), likeness(wanted, found))),
                    Some(found) => Some((key.clone(), found.clone())),
                    None => None,
                }
            };
            Value::Object(wanted.iter().filter_map(member).collect())
        }
        (Value::Array(wanted), Value::Array(there)) if wanted.len() == there.len() => {
            Value::Array(wanted.iter().zip(there).map(|(wanted, there)| likeness(wanted, there)).collect())
        }
        _ => actual.clone(),
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    /// Objects, the expectations for them, and the mismatches.
    #[test]
    fn expected_fields_must_be_there() {
        let tolerations = json!({"tolerations": [{"key": "os", "value": "windows"}, {"key": "team"}]});
        let cases: Vec<(Value, Value, &[&str])> = vec![
            (json!({"a": 1, "b": 2}), json!({"a": 1}), &[]),
            (json!({"a": 1}), json!({"a": 2}), &["a: expected 2, found 1"]),
            (json!({"a": 1}), json!({"a": "1"}), &["a: expected \"1\", found 1"]),
            (json!({}), json!({"a": {"b": 1}}), &["a: expected {\"b\":1}, found nothing"]),
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 2, "c": 3}}),
                &["a.b: expected 2, found 1", "a.c: expected 3, found nothing"],
            ),
            (json!({"a": null}), json!({"a": null, "b": null}), &[]),
            (json!({}), json!({"a": {"b": null, "c-": [1]}}), &[]),
            (json!({}), json!({"a": {"b": null, "c": 1}}), &["a: expected {\"b\":null,\"c\":1}, found nothing"]),
            (json!({}), json!({"a": {}}), &["a: expected {}, found nothing"]),
            (json!({"a": {"b": 1}}), json!({"a": {"b": null}}), &["a.b: expected nothing, found 1"]),
            (json!({"x/y.z": 1}), json!({"x/y.z": 2}), &["[x/y.z]: expected 2, found 1"]),
            (json!([{"a": 1, "b": 2}]), json!([{"a": 1}]), &[]),
            (json!({"l": [1, 2]}), json!({"l": [1]}), &["l: expected 1 entry [1], found 2 entries [1,2]"]),
            (json!({"l": [1, 2]}), json!({"l": [2, 1]}), &["l[0]: expected 2, found 1", "l[1]: expected 1, found 2"]),
            (tolerations.clone(), json!({"tolerations+": [{"key": "os"}]}), &[]),
            (
                tolerations.clone(),
                json!({"tolerations+": [{"key": "os", "value": "Windows"}]}),
                &[
                    "tolerations: expected an entry {\"key\":\"os\",\"value\":\"Windows\"}, found [{\"key\":\"os\",\"value\":\"windows\"},{\"key\":\"team\"}]",
                ],
            ),
            (
                json!({}),
                json!({"tolerations+": [{"key": "os"}]}),
                &["tolerations: expected an entry {\"key\":\"os\"}, found nothing"],
            ),
            (tolerations.clone(), json!({"tolerations-": [{"key": "gpu"}]}), &[]),
            (
                tolerations,
                json!({"tolerations-": [{"key": "team"}]}),
                &[
                    "tolerations: expected no entry {\"key\":\"team\"}, found [{\"key\":\"os\",\"value\":\"windows\"},{\"key\":\"team\"}]",
                ],
            ),
            (json!({}), json!({"tolerations-": [{"key": "os"}]}), &[]),
            (json!("text"), json!({"a": 1}), &["the whole: expected {\"a\":1}, found \"text\""]),
        ];
        for (actual, expected, wrong) in cases {
            let found: Vec<String> = mismatches(&expected, Some(&actual)).iter().map(ToString::to_string).collect();
            assert_eq!(found, wrong, "{expected} of {actual}: {found:?}");
        }
        assert!(mismatches(&Value::Null, None).is_empty(), "nothing is nothing");
        assert!(!mismatches(&json!({}), None).is_empty(), "nothing is no map");
    }

    #[test]
    fn a_likeness_is_the_same_where_nothing_is_wrong_and_shows_what_is() {
        let there = json!({"a": {"b": 1, "c": 2}, "l": [{"x": 1, "y": 2}], "t": [1, 2], "more": true});
        for (expected, like) in [
            (json!({"a": {"b": 1}, "t+": [2], "t-": [3], "none": null}), None),
            (json!({"l": [{"x": 1}]}), None),
            (json!({"a": {"b": 7, "d": null}}), Some(json!({"a": {"b": 1, "d": null}}))),
            (json!({"a": {"d": 1}}), Some(json!({"a": {}}))),
            (json!({"a": null}), Some(json!({"a": {"b": 1, "c": 2}}))),
            (json!({"l": [{"x": 2}]}), Some(json!({"l": [{"x": 1}]}))),
            (json!({"l": []}), Some(json!({"l": [{"x": 1, "y": 2}]}))),
            (json!({"t+": [3]}), Some(json!({"t+": [1, 2]}))),
            (json!({"t-": [1]}), Some(json!({"t-": [1, 2]}))),
            (json!({"gone+": [1]}), Some(json!({}))),
        ] {
            assert_eq!(mismatches(&expected, Some(&there)).is_empty(), like.is_none(), "{expected}");
            assert_eq!(likeness(&expected, &there), like.unwrap_or_else(|| expected.clone()), "{expected}");
        }
    }
}
