//! Expands lists of objects: `kind: List`, and typed lists such as `PodList`, whose items may omit their own kind.

use mullion_manifest::object::MAX_LISTS;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON value that may be a list of objects.
pub trait JsonValue: Sized {
    /// Its `kind`.
    fn kind(&self) -> Option<String>;

    /// Its `items`; the value itself if it has no list of items. `items: null` is an empty list, as the API server prints
    /// it.
    fn into_items(self) -> Result<Vec<Self>, Self>;
}

/// What a value contains.
#[derive(Debug)]
pub struct Expanded<T> {
    /// The kind of the items of each list; empty for `kind: List`.
    pub lists: Vec<String>,
    /// Objects that are no lists, and what is below [`MAX_LISTS`] lists, in order. Each with its kind, or that of the list
    /// around it; empty without either.
    pub objects: Vec<(T, String)>,
}

/// Expands `value`. `kind` is that of the list around it, else empty.
pub fn expand<T: JsonValue>(value: T, kind: &str) -> Expanded<T> {
    let mut expanded = Expanded { lists: Vec::new(), objects: Vec::new() };
    expanded.add(value, kind, MAX_LISTS);
    expanded
}

impl<T: JsonValue> Expanded<T> {
    fn add(&mut self, value: T, list_kind: &str, lists: usize) {
        let kind = value.kind().unwrap_or_else(|| list_kind.to_owned());
        let Some(item_kind) = kind.strip_suffix("List").filter(|_| lists > 0) else {
            return self.objects.push((value, kind));
        };
        match value.into_items() {
            Ok(items) => {
                self.lists.push(item_kind.to_owned());
                for item in items {
                    self.add(item, item_kind, lists - 1);
                }
            }
            Err(value) => self.objects.push((value, kind)),
        }
    }
}

impl JsonValue for Value {
    fn kind(&self) -> Option<String> {
        self.get("kind").and_then(Self::as_str).map(str::to_owned)
    }

    fn into_items(mut self) -> Result<Vec<Self>, Self> {
        match self.get_mut("items") {
            Some(Self::Array(items)) => Ok(std::mem::take(items)),
            Some(Self::Null) => Ok(Vec::new()),
            _ => Err(self),
        }
    }
}

/// Text: its items are text, too, so only one object at a time is in memory as a value. The values of 20,000 nodes take
/// ten times the memory of their snapshot.
impl JsonValue for &RawValue {
    fn kind(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Head {
            kind: Value,
        }
        let head: Head = serde_json::from_str(self.get()).ok()?;
        head.kind.as_str().map(str::to_owned)
    }

    fn into_items(self) -> Result<Vec<Self>, Self> {
        #[derive(Deserialize)]
        struct List<'t> {
            #[serde(borrow)]
            items: &'t RawValue,
        }
        let items = serde_json::from_str(self.get()).and_then(|List { items }| serde_json::from_str(items.get()));
        items.map(Option::unwrap_or_default).map_err(|_| self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use serde_json::json;

    use super::*;

    /// The lists of a document, and its objects as `KIND NAME`.
    fn parts<T: JsonValue>(document: T, name: impl Fn(&T) -> String) -> (Vec<String>, Vec<String>) {
        let Expanded { lists, objects } = expand(document, "");
        (lists, objects.iter().map(|(value, kind)| format!("{kind} {}", name(value))).collect())
    }

    fn name(value: &Value) -> String {
        value["name"].as_str().unwrap_or("-").to_owned()
    }

    #[test]
    fn a_list_stands_for_its_items() {
        let nested = |depth| (0..depth).fold(json!({"kind": "A"}), |item, _| json!({"kind": "List", "items": [item]}));
        let lists = vec![""; MAX_LISTS];
        for (document, expected_lists, expected) in [
            (json!({"kind": "Pod", "name": "a"}), vec![], vec!["Pod a"]),
            (
                json!({"kind": "List", "items": [{"kind": "A", "name": "a"}, {"kind": "B"}]}),
                vec![""],
                vec!["A a", "B -"],
            ),
            (json!({"kind": "PodList", "items": [{"name": "a"}, {"kind": "B"}]}), vec!["Pod"], vec!["Pod a", "B -"]),
            (json!({"kind": "PodList", "items": []}), vec!["Pod"], vec![]),
            (json!({"kind": "PodList", "items": null}), vec!["Pod"], vec![]),
            // Kinds whose names end in List.
            (json!({"kind": "AllowList", "name": "a"}), vec![], vec!["AllowList a"]),
            (json!({"kind": "AllowList", "name": "a", "items": {"b": 1}}), vec![], vec!["AllowList a"]),
            (json!({"kind": "Pod", "items": [{"kind": "A"}]}), vec![], vec!["Pod -"]),
            (json!({"kind": 3, "items": [{"kind": "A"}]}), vec![], vec![" -"]),
            (json!({"kind": "List", "items": [7, "x", null, [{"kind": "A"}]]}), vec![""], vec![" -"; 4]),
            (json!([{"kind": "A"}]), vec![], vec![" -"]),
            (nested(MAX_LISTS), lists.clone(), vec!["A -"]),
            (nested(MAX_LISTS + 1), lists.clone(), vec!["List -"]),
            (nested(20), lists, vec!["List -"]),
        ] {
            let text = document.to_string();
            let raw: &RawValue = serde_json::from_str(&text).unwrap();
            let of_text = parts(raw, |raw| name(&serde_json::from_str(raw.get()).unwrap()));
            let expected = (
                expected_lists.into_iter().map(str::to_owned).collect(),
                expected.into_iter().map(str::to_owned).collect(),
            );
            assert_eq!(of_text, expected, "{text}");
            assert_eq!(parts(document, name), expected, "{text}");
        }
    }
}
