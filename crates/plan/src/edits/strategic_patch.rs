//! Strategic merge patches between two specs of pods, by the merge rules of `k8s.io/api/core/v1` (`PodSpec`): `nodeSelector` and
//! `affinity` are merged as maps, containers and volumes by name; tolerations and node selector terms are replaced as a whole.

use serde_json::{Map, Value, json};

use crate::edits::pod_spec::{REQUIRED, RUNTIME_CLASS, SELECTOR, TERMS, TOLERATIONS};

/// The patch that turns the spec `before` into `after`. An empty map changes nothing. `held`: whether terms may have been added
/// in between, which go too.
pub(super) fn spec_patch(before: &Value, after: &Value, held: bool) -> Map<String, Value> {
    let mut patch = Map::new();
    let selector = changed_members(before.pointer(SELECTOR), after.pointer(SELECTOR));
    if !selector.is_empty() {
        patch.insert("nodeSelector".to_owned(), selector.into());
    }
    let same = |pointer: &str| present(before.pointer(pointer)) == present(after.pointer(pointer));
    if !same(TOLERATIONS) {
        patch.insert("tolerations".to_owned(), after.pointer(TOLERATIONS).cloned().unwrap_or_default());
    }
    if held || !same(TERMS) {
        patch.insert("affinity".to_owned(), affinity_patch(after));
    }
    if !same(RUNTIME_CLASS) {
        patch.insert("runtimeClassName".to_owned(), after.pointer(RUNTIME_CLASS).cloned().unwrap_or_default());
    }
    for list in ["initContainers", "containers", "volumes"] {
        let images = changed_images(before.get(list), after.get(list));
        if !images.is_empty() {
            patch.insert(list.to_owned(), images.into());
        }
    }
    patch
}

/// The patch of an object with the patch of its pods' spec. `pod_pointer`: to the pod in the object.
pub(super) fn object_patch(pod_pointer: &str, spec: Map<String, Value>) -> Value {
    let keys = pod_pointer.split('/').skip(1).filter(|key| !key.is_empty());
    let keys: Vec<&str> = keys.chain(["spec"]).collect();
    keys.into_iter().rev().fold(Value::Object(spec), |value, key| json!({ key: value }))
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn changed_members(before: Option<&Value>, after: Option<&Value>) -> Map<String, Value> {
    let map = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let (before, after) = (map(before), map(after));
    let removed = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let set = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    removed.chain(set.map(|(key, value)| (key.clone(), value.clone()))).collect()
}

/// Removes what is not in `after`, and no more: the maps around it may not be in the object.
fn affinity_patch(after: &Value) -> Value {
    match present(after.pointer(REQUIRED)) {
        Some(required) => {
            let terms = required.get("nodeSelectorTerms").cloned().unwrap_or_default();
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
        }
        None if present(after.pointer("/affinity/nodeAffinity")).is_some() => {
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": null}})
        }
        None if present(after.get("affinity")).is_some() => json!({"nodeAffinity": null}),
        None => Value::Null,
    }
}

/// The images of a list with their names. That of a volume is an object: what it has besides the reference stays.
fn changed_images(before: Option<&Value>, after: Option<&Value>) -> Vec<Value> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let (before, after) = (list(before), list(after));
    let pairs = before.iter().zip(&after).filter(|(before, after)| before.get("image") != after.get("image"));
    let image = |item: &Value| match item.pointer("/image/reference") {
        Some(reference) => json!({ "reference": reference }),
        None => item.get("image").cloned().unwrap_or_default(),
    };
    pairs.map(|(_, after)| json!({"name": after.get("name"), "image": image(after)})).collect()
}
