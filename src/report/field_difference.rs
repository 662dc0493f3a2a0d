//! Which fields of two objects differ, and whether exactly those do that may, as test cases write that.

use std::fmt;

use serde_json::{Value, json};

use crate::report::field_match::{below, short};

/// A field that differs: its place in keys and indices, and both sides.
#[derive(Debug)]
pub struct Difference {
    place: Vec<String>,
    path: String,
    what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

impl Difference {
    /// Its path, or the one of `expected` that it counts as.
    pub fn named(&self, expected: &[String]) -> String {
        let named = expected.iter().find(|path| self.place.starts_with(&place(path)));
        named.unwrap_or(&self.path).clone()
    }
}

/// Every field in which they differ.
pub fn differences(plain: &Value, ours: &Value) -> Vec<Difference> {
    let mut all = Vec::new();
    walk(Some(plain), Some(ours), &mut Vec::new(), "", &mut all);
    all
}

fn walk(plain: Option<&Value>, ours: Option<&Value>, place: &mut Vec<String>, path: &str, all: &mut Vec<Difference>) {
    let nothing = json!({});
    // A map that only one of them has differs key by key, too: so `metadata.annotations[…]` can be named.
    let full = |side: &Value| side.as_object().is_some_and(|map| !map.is_empty());
    let (plain, ours) = match (plain, ours) {
        (None, Some(map)) if full(map) => (Some(&nothing), Some(map)),
        (Some(map), None) if full(map) => (Some(map), Some(&nothing)),
        both => both,
    };
    match (plain, ours) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                place.push(key.clone());
                walk(left.get(key), right.get(key), place, &below(path, key), all);
                place.pop();
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                place.push(index.to_string());
                walk(Some(left), Some(right), place, &format!("{path}[{index}]"), all);
                place.pop();
            }
        }
        _ if plain == ours => {}
        _ => {
            let text = |side: Option<&Value>| side.map_or_else(|| "nothing".to_owned(), short);
            let what = format!("{} became {}", text(plain), text(ours));
            all.push(Difference { place: place.clone(), path: path.to_owned(), what });
        }
    }
}

/// What is wrong if exactly these fields may and must differ; whatever is below one counts as that.
pub fn unexpected(differences: &[Difference], expected: &[String]) -> Vec<String> {
    let places: Vec<Vec<String>> = expected.iter().map(|path| place(path)).collect();
    let mut wrong = Vec::new();
    for difference in differences {
        if !places.iter().any(|place| difference.place.starts_with(place)) {
            wrong.push(format!("{difference}, which `changes` does not name"));
        }
    }
    for (place, path) in places.iter().zip(expected) {
        if !differences.iter().any(|difference| difference.place.starts_with(place)) {
            wrong.push(format!("{path}: expected to differ from what is stored without Mullion, and does not"));
        }
    }
    wrong
}

/// `spec.containers[0].image` and `metadata.annotations[mullion.dev/decision]` as keys and indices.
fn place(path: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some((key, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            keys.push(key.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let end = rest.find(['.', '[']).unwrap_or(rest.len()).max(first);
            let (key, after) = rest.split_at(end);
            keys.push(key.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
        }
    }
    keys
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    /// What is stored without and with Mullion, what may differ, and what is said if that is wrong.
    #[test]
    fn changes_are_exactly_those() {
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
            let found = unexpected(&differences(&plain, &ours), &expected);
            assert_eq!(found, wrong, "{expected:?}: {found:?}");
        }
    }
}
