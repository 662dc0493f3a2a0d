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
#[derive(Debug, PartialEq, Eq)]
pub enum ListPart<'k, T> {
    /// A list begins. Its items follow.
    List {
        /// The kind of its items; empty for `kind: List`.
        of: &'k str,
    },
    /// An object that is no list, or one below [`MAX_LISTS`] lists.
    Object {
        /// The object.
        value: T,
        /// Its kind, or that of the list around it; empty without either.
        kind: &'k str,
    },
}

/// Calls `visit` for `value`, or for each object in it if it is a list, in order. `kind` is that of the list around it,
/// else empty. Stops at the first error.
pub fn expand<T: JsonValue, E>(
    value: T,
    kind: &str,
    visit: &mut dyn FnMut(ListPart<'_, T>) -> Result<(), E>,
) -> Result<(), E> {
    expand_to(value, kind, MAX_LISTS, visit)
}

fn expand_to<T: JsonValue, E>(
    value: T,
    kind: &str,
    lists: usize,
    visit: &mut dyn FnMut(ListPart<'_, T>) -> Result<(), E>,
) -> Result<(), E> {
    let own = value.kind();
    let kind = own.as_deref().unwrap_or(kind);
    let Some(of) = kind.strip_suffix("List").filter(|_| lists > 0) else {
        return visit(ListPart::Object { value, kind });
    };
    match value.into_items() {
        Ok(items) => {
            visit(ListPart::List { of })?;
            items.into_iter().try_for_each(|item| expand_to(item, of, lists - 1, visit))
        }
        Err(value) => visit(ListPart::Object { value, kind }),
    }
}

impl JsonValue for Value {
    fn kind(&self) -> Option<String> {
        self.get("kind").and_then(Self::as_str).map(str::to_owned)
    }

    fn into_items(mut self) -> Result<Vec<Self>, Self> {
        match self.get_mut("items").map(Self::take) {
            Some(Self::Array(items)) => Ok(items),
            Some(Self::Null) => Ok(Vec::new()),
            // An object whose member has this name, too.
            Some(other) => {
                self.as_object_mut().map(|object| object.insert("items".to_owned(), other));
                Err(self)
            }
            None => Err(self),
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

    /// The parts of a document, as `List of KIND` and `KIND NAME`.
    fn parts<T: JsonValue>(document: T, name: impl Fn(&T) -> String) -> Vec<String> {
        let mut found = Vec::new();
        expand(document, "", &mut |part| {
            found.push(match part {
                ListPart::List { of } => format!("List of {of}"),
                ListPart::Object { value, kind } => format!("{kind} {}", name(&value)),
            });
            Ok::<_, ()>(())
        })
        .unwrap();
        found
    }

    fn name(value: &Value) -> String {
        value["name"].as_str().unwrap_or("-").to_owned()
    }

    #[test]
    fn a_list_stands_for_its_items() {
        let nested = |depth| (0..depth).fold(json!({"kind": "A"}), |item, _| json!({"kind": "List", "items": [item]}));
        let lists = |count| vec!["List of "; count];
        for (document, expected) in [
            (json!({"kind": "Pod", "name": "a"}), vec!["Pod a"]),
            (
                json!({"kind": "List", "items": [{"kind": "A", "name": "a"}, {"kind": "B"}]}),
                vec!["List of ", "A a", "B -"],
            ),
            (json!({"kind": "PodList", "items": [{"name": "a"}, {"kind": "B"}]}), vec!["List of Pod", "Pod a", "B -"]),
            (json!({"kind": "PodList", "items": []}), vec!["List of Pod"]),
            (json!({"kind": "PodList", "items": null}), vec!["List of Pod"]),
            // Kinds whose names end in List.
            (json!({"kind": "AllowList", "name": "a"}), vec!["AllowList a"]),
            (json!({"kind": "AllowList", "name": "a", "items": {"b": 1}}), vec!["AllowList a"]),
            (json!({"kind": "Pod", "items": [{"kind": "A"}]}), vec!["Pod -"]),
            (json!({"kind": 3, "items": [{"kind": "A"}]}), vec![" -"]),
            (
                json!({"kind": "List", "items": [7, "x", null, [{"kind": "A"}]]}),
                vec!["List of ", " -", " -", " -", " -"],
            ),
            (json!([{"kind": "A"}]), vec![" -"]),
            (nested(MAX_LISTS), [lists(MAX_LISTS), vec!["A -"]].concat()),
            (nested(MAX_LISTS + 1), [lists(MAX_LISTS), vec!["List -"]].concat()),
            (nested(20), [lists(MAX_LISTS), vec!["List -"]].concat()),
        ] {
            let text = document.to_string();
            let raw: &RawValue = serde_json::from_str(&text).unwrap();
            let of_text = parts(raw, |raw| name(&serde_json::from_str(raw.get()).unwrap()));
            assert_eq!(of_text, expected, "{text}");
            assert_eq!(parts(document, name), expected, "{text}");
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        let mut visited = 0;
        let list = json!({"kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]});
        let result = expand(list, "", &mut |part| {
            visited += 1;
            if matches!(part, ListPart::Object { .. }) { Err("no") } else { Ok(()) }
        });
        assert_eq!((result, visited), (Err("no"), 2));
    }
}
