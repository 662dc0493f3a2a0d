//! The fields in which two objects differ, and differences that a test case does not expect.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::report::field_match::text;
use crate::report::field_path::FieldPath;

/// A field that differs, with both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldDifference {
    path: FieldPath,
    plain: Option<Value>,
    ours: Option<Value>,
}

/// A field that differs unexpectedly, or that is equal although a difference is expected.
#[derive(Debug)]
pub enum UnexpectedDifference<'a> {
    /// The field differs.
    Differs(&'a FieldDifference),
    /// The field does not differ.
    Same(FieldPath),
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} became {}", self.path, text(self.plain.as_ref()), text(self.ours.as_ref()))
    }
}

impl fmt::Display for UnexpectedDifference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs(difference) => write!(f, "{difference}, which `changes` does not name"),
            Self::Same(path) => {
                write!(f, "{path}: expected to differ from what is stored without Mullion, and does not")
            }
        }
    }
}

impl FieldDifference {
    /// The path of `expected` that it belongs to, or its own.
    pub fn named(&self, expected: &[String]) -> String {
        let named = expected.iter().find(|path| self.path.starts_with(&FieldPath::parse(path)));
        named.map_or_else(|| self.path.to_string(), String::clone)
    }
}

impl UnexpectedDifference<'_> {
    /// Whether it is about `field`, in its path or below on either side.
    pub fn concerns(&self, field: &str) -> bool {
        let field = FieldPath::parse(field);
        match self {
            Self::Differs(FieldDifference { path, plain, ours }) => {
                [plain, ours].into_iter().flatten().any(|side| path.reaches(&field, side))
            }
            Self::Same(path) => path.contains(&field),
        }
    }
}

/// Every field in which the objects differ.
pub fn differences(plain: &Value, ours: &Value) -> Vec<FieldDifference> {
    let mut all = Vec::new();
    compare(Some(plain), Some(ours), &FieldPath::default(), &mut all);
    all
}

fn compare(plain: Option<&Value>, ours: Option<&Value>, path: &FieldPath, all: &mut Vec<FieldDifference>) {
    let nothing = Value::Object(Map::new());
    // A map that only one of them has is also compared key by key, so that `metadata.annotations[…]` can be listed.
    let full = |side: &Value| side.as_object().is_some_and(|map| !map.is_empty());
    let (plain, ours) = match (plain, ours) {
        (None, Some(map)) if full(map) => (Some(&nothing), Some(map)),
        (Some(map), None) if full(map) => (Some(map), Some(&nothing)),
        both => both,
    };
    match (plain, ours) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                compare(left.get(key), right.get(key), &path.key(key), all);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(Some(left), Some(right), &path.index(index), all);
            }
        }
        _ if plain == ours => {}
        _ => all.push(FieldDifference { path: path.clone(), plain: plain.cloned(), ours: ours.cloned() }),
    }
}

/// What is wrong if exactly these fields must differ. A difference below a field counts as a difference of that field.
pub fn unexpected<'d>(differences: &'d [FieldDifference], expected: &[String]) -> Vec<UnexpectedDifference<'d>> {
    let expected: Vec<FieldPath> = expected.iter().map(|path| FieldPath::parse(path)).collect();
    let unnamed = |difference: &&FieldDifference| !expected.iter().any(|path| difference.path.starts_with(path));
    let same = |path: &&FieldPath| !differences.iter().any(|difference| difference.path.starts_with(path));
    let differs = differences.iter().filter(unnamed).map(UnexpectedDifference::Differs);
    differs.chain(expected.iter().filter(same).cloned().map(UnexpectedDifference::Same)).collect()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    /// Objects stored without and with Mullion, expected changes, and the messages about others.
    #[test]
    fn changes_are_exactly_the_expected_ones() {
        let plain = json!({"spec": {"containers": [{"image": "a", "env": []}], "b": 1}});
        let ours = json!({"spec": {"containers": [{"image": "a"}], "b": 1, "nodeSelector": {"kubernetes.io/os": "linux"}},
            "metadata": {"annotations": {"mullion.dev/decision": "x"}}});
        let all = ["metadata.annotations[mullion.dev/decision]", "spec.containers[0].env", "spec.nodeSelector"];
        let cases: [(&[&str], &[&str]); 6] = [
            (&all, &[]),
            (&["metadata", "spec"], &[]),
            (&["metadata", "spec.containers", "spec.nodeSelector[kubernetes.io/os]"], &[]),
            (
                &all[..2],
                &["spec.nodeSelector[kubernetes.io/os]: nothing became \"linux\", which `changes` does not name"],
            ),
            (
                &["metadata", "spec", "spec.b"],
                &["spec.b: expected to differ from what is stored without Mullion, and does not"],
            ),
            (
                &["metadata", "spec.nodeSelector", "spec.containers[1]"],
                &[
                    "spec.containers[0].env: [] became nothing, which `changes` does not name",
                    "spec.containers[1]: expected to differ from what is stored without Mullion, and does not",
                ],
            ),
        ];
        for (expected, wrong) in cases {
            let expected: Vec<String> = expected.iter().map(|path| (*path).to_owned()).collect();
            let differences = differences(&plain, &ours);
            let found: Vec<String> = unexpected(&differences, &expected).iter().map(ToString::to_string).collect();
            assert_eq!(found, wrong, "{expected:?}: {found:?}");
        }
    }
}
