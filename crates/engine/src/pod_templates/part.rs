//! A value inside an object, with the place it comes from.

use std::collections::HashMap;

use serde_json::Value;

use crate::model::json_pointer::{escape, unescape};

/// A value inside an object, or inside a value that was merged from parts of one.
#[derive(Debug, Clone)]
pub(crate) struct PlacedValue<'a> {
    /// The value; never null, which counts as absent.
    pub(crate) value: &'a Value,
    /// Its JSON pointer.
    pub(crate) pointer: String,
    /// Where the parts of a merged value come from; `None` in the object itself.
    origins: Option<&'a Origins>,
}

/// Where the parts of a made value come from: the pointer in the made value, and the one in the object. `None`: the
/// controller adds the part.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Origins(HashMap<String, Option<String>>);

impl<'a> PlacedValue<'a> {
    /// The object itself.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, pointer: String::new(), origins: None }
    }

    /// A merged value.
    pub(crate) fn merged(value: &'a Value, origins: &'a Origins) -> Self {
        Self { value, pointer: String::new(), origins: Some(origins) }
    }

    /// The member of that name.
    pub(crate) fn member(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(self.below(value, &escape(key)))
    }

    /// The value at a pointer without list indices.
    pub(crate) fn at(&self, pointer: &str) -> Option<Self> {
        pointer.split('/').skip(1).try_fold(self.clone(), |part, token| part.member(&unescape(token)))
    }

    /// The items of a list; none of any other value.
    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let this = self.clone();
        let items = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        let items = items.iter().enumerate().filter(|(_, item)| !item.is_null());
        items.map(move |(index, item)| this.below(item, &index.to_string()))
    }

    /// The members of a map; none of any other value.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let this = self.clone();
        let members = self.value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        members.map(move |(key, value)| (key.as_str(), this.below(value, &escape(key))))
    }

    /// The member of that name, if it is a string that is not empty.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Whether the value has no items, no members or no characters.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        }
    }

    /// The place of the value in the object.
    pub(crate) fn origin(&self) -> Option<String> {
        match self.origins {
            None => Some(self.pointer.clone()),
            Some(origins) => origins.of(&self.pointer),
        }
    }

    fn below(&self, value: &'a Value, token: &str) -> Self {
        Self { value, pointer: format!("{}/{token}", self.pointer), origins: self.origins }
    }
}

impl Origins {
    /// Notes that the made value has `part` at the pointer `at`.
    pub(crate) fn note(&mut self, at: &str, part: &PlacedValue<'_>) {
        self.0.insert(at.to_owned(), part.origin());
        let Some(origins) = part.origins else { return };
        for (pointer, origin) in &origins.0 {
            if let Some(rest) = pointer.strip_prefix(part.pointer.as_str()).filter(|rest| rest.starts_with('/')) {
                self.0.insert(format!("{at}{rest}"), origin.clone());
            }
        }
    }

    /// Notes that what is at the pointer `at` of the made value would be at `origin` in the object.
    pub(crate) fn note_pointer(&mut self, at: &str, origin: String) {
        self.0.insert(at.to_owned(), Some(origin));
    }

    /// Notes that the controller adds what is at the pointer `at`.
    pub(crate) fn note_added(&mut self, at: &str) {
        self.0.insert(at.to_owned(), None);
    }

    /// The place in the object of what is at `pointer` in the made value; `None` if the controller adds it.
    pub(crate) fn of(&self, pointer: &str) -> Option<String> {
        let mut known = pointer;
        loop {
            if let Some(origin) = self.0.get(known) {
                let rest = pointer.get(known.len()..).unwrap_or_default();
                return origin.as_ref().map(|origin| format!("{origin}{rest}"));
            }
            known = known.get(..known.rfind('/')?)?;
        }
    }
}

/// The member that identifies the items of a list when lists are merged (`patchMergeKey` in the types of
/// k8s.io/api/core/v1, and in those of Argo, whose tolerations have one); other lists replace each other, also the
/// containers of a `containerSet`.
fn merge_key(list: &str) -> Option<&'static str> {
    Some(match list {
        "initContainers" | "sidecars" | "volumes" | "env" | "imagePullSecrets" => "name",
        "tolerations" => "key",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "ports" => "containerPort",
        "hostAliases" => "ip",
        _ => return None,
    })
}

/// Merges `over` into `base` as a strategic merge patch does: maps member by member, lists of named items item by item.
/// The result is at the pointer `at` of the made value.
pub(crate) fn merge(base: &PlacedValue<'_>, over: &PlacedValue<'_>, at: &str, origins: &mut Origins) -> Value {
    let list = at.rsplit('/').next().unwrap_or_default();
    match (base.value, over.value, merge_key(list)) {
        (Value::Object(_), Value::Object(_), _) => {
            let mut members = serde_json::Map::new();
            for (key, old) in base.members() {
                let place = format!("{at}/{}", escape(key));
                let value = match over.member(key) {
                    Some(new) => merge(&old, &new, &place, origins),
                    None => take(&old, &place, origins),
                };
                members.insert(key.to_owned(), value);
            }
            for (key, new) in over.members() {
                if !members.contains_key(key) {
                    members.insert(key.to_owned(), take(&new, &format!("{at}/{}", escape(key)), origins));
                }
            }
            Value::Object(members)
        }
        (Value::Array(_), Value::Array(_), Some(key)) => {
            let name = |part: &PlacedValue<'_>| part.value.get(key).map(ToString::to_string);
            let mut named: HashMap<String, PlacedValue<'_>> =
                over.items().filter_map(|item| Some((name(&item)?, item))).collect();
            let mut items = Vec::new();
            for old in base.items() {
                let place = format!("{at}/{}", items.len());
                items.push(match name(&old).and_then(|name| named.remove(&name)) {
                    Some(new) => merge(&old, &new, &place, origins),
                    None => take(&old, &place, origins),
                });
            }
            for new in over.items() {
                // Those that were merged are gone from the map.
                if name(&new).is_none_or(|name| named.contains_key(&name)) {
                    items.push(take(&new, &format!("{at}/{}", items.len()), origins));
                }
            }
            Value::Array(items)
        }
        _ => take(over, at, origins),
    }
}

fn take(part: &PlacedValue<'_>, at: &str, origins: &mut Origins) -> Value {
    origins.note(at, part);
    part.value.clone()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_merged_value_knows_where_its_parts_come_from() {
        let object = json!({
            "defaults": {"env": [{"name": "A", "value": "1"}, {"name": "B"}], "command": ["x"], "limits": {"cpu": 1}},
            "step": {"env": [{"name": "C"}, {"name": "A", "value": "2"}], "command": ["y", "z"], "limits": {"memory": 2}},
        });
        let root = PlacedValue::root(&object);
        let mut origins = Origins::default();
        let merged = merge(&root.member("defaults").unwrap(), &root.member("step").unwrap(), "", &mut origins);
        let expected = json!({"env": [{"name": "A", "value": "2"}, {"name": "B"}, {"name": "C"}], "command": ["y", "z"],
            "limits": {"cpu": 1, "memory": 2}});
        assert_eq!(merged, expected);
        for (pointer, origin) in [
            ("/env/0/value", Some("/step/env/1/value")),
            ("/env/1", Some("/defaults/env/1")),
            ("/env/2/name", Some("/step/env/0/name")),
            ("/command/1", Some("/step/command/1")),
            ("/limits/cpu", Some("/defaults/limits/cpu")),
            ("/limits/memory", Some("/step/limits/memory")),
            ("/nothing", None),
        ] {
            assert_eq!(origins.of(pointer).as_deref(), origin, "{pointer}");
        }
        let part = PlacedValue::merged(&merged, &origins).at("/limits").unwrap();
        let mut pod = Origins::default();
        pod.note("/spec/limits", &part);
        assert_eq!(pod.of("/spec/limits/cpu").as_deref(), Some("/defaults/limits/cpu"));
    }

    #[test]
    fn null_and_other_types_are_absent() {
        let object = json!({"a": null, "b": {"c": null}, "d": "x", "e": [null, 1]});
        let root = PlacedValue::root(&object);
        assert!(root.member("a").is_none() && root.at("/b/c").is_none() && root.at("/d/x").is_none());
        assert_eq!(root.member("d").unwrap().items().count() + root.member("d").unwrap().members().count(), 0);
        let items: Vec<String> = root.member("e").unwrap().items().map(|item| item.pointer).collect();
        assert_eq!(items, ["/e/1"]);
    }
}
