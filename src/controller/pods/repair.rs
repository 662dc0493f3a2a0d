//! The patch of a pod that appends missing tolerations, the only write to pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// A JSON merge patch that appends `missing` to the tolerations of the pod `object`, as it was read. Every existing
/// item stays unchanged and in its place. The patch conflicts if the pod has changed since, or if another pod has its
/// name. `None` if there is nothing to append, or if the tolerations are not a list.
pub(crate) fn toleration_patch(object: &Value, missing: &[Value]) -> Option<Value> {
    let existing = match object.pointer("/spec/tolerations") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(items)) => items.as_slice(),
        Some(_) => return None,
    };
    let mut all = existing.to_vec();
    for toleration in missing {
        if !all.contains(toleration) {
            all.push(toleration.clone());
        }
    }
    let metadata = object.get("metadata")?;
    let (uid, version) = (metadata.get("uid")?, metadata.get("resourceVersion")?);
    (all.len() > existing.len()).then(|| {
        json!({
            "metadata": { "uid": uid, "resourceVersion": version },
            "spec": { "tolerations": all },
        })
    })
}

/// The patches that append the tolerations of one effect each, for a pod to which they cannot all be appended: the chart's
/// fence allows some effects only. Empty if there is one effect.
pub(crate) fn patches_by_effect(object: &Value, missing: &[Value]) -> Vec<Value> {
    let effect = |toleration: &Value| toleration.get("effect").and_then(Value::as_str).unwrap_or_default().to_owned();
    let effects: BTreeSet<String> = missing.iter().map(effect).collect();
    if effects.len() < 2 {
        return Vec::new();
    }
    let of = |wanted: &String| -> Vec<Value> { missing.iter().filter(|one| effect(one) == *wanted).cloned().collect() };
    effects.iter().filter_map(|effect| toleration_patch(object, &of(effect))).collect()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_effect_has_its_own_patch() {
        let of = |key: &str, effect: &str| json!({"key": key, "operator": "Exists", "effect": effect});
        let object =
            json!({"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {"tolerations": [of("a", "NoExecute")]}});
        let (first, second, evicts) = (of("b", "NoSchedule"), of("c", "NoSchedule"), of("b", "NoExecute"));
        let patches = patches_by_effect(&object, &[first.clone(), evicts.clone(), second.clone()]);
        let all: Vec<&Value> = patches.iter().map(|patch| &patch["spec"]["tolerations"]).collect();
        assert_eq!(all, [&json!([of("a", "NoExecute"), evicts]), &json!([of("a", "NoExecute"), first, second])]);
        assert!(patches_by_effect(&object, &[of("b", "NoSchedule"), of("c", "NoSchedule")]).is_empty());
    }

    fn toleration() -> impl Strategy<Value = Value> {
        let text = || prop::option::of("[a-c]{0,2}");
        (text(), text(), text(), prop::option::of(any::<u8>()), any::<bool>()).prop_map(
            |(key, value, effect, seconds, with_unknown_field)| {
                let mut toleration = json!({});
                let fields = [("key", key), ("value", value), ("effect", effect)];
                for (name, text) in fields.into_iter().filter_map(|(name, text)| Some((name, text?))) {
                    toleration[name] = json!(text);
                }
                if let Some(seconds) = seconds {
                    toleration["tolerationSeconds"] = json!(seconds);
                }
                if with_unknown_field {
                    toleration["fromTheFuture"] = json!({"a": [null, 1.5]});
                }
                toleration
            },
        )
    }

    fn pod(tolerations: &Value) -> Value {
        json!({
            "metadata": {"name": "p", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {"tolerations": tolerations, "containers": [{"name": "c", "fromTheFuture": [1]}], "os": null},
        })
    }

    proptest! {
        #[test]
        fn existing_items_stay_and_nothing_else_changes(
            existing in prop::option::of(prop::collection::vec(toleration(), 0..5)),
            missing in prop::collection::vec(toleration(), 0..4),
        ) {
            let before = pod(&json!(existing));
            let existing = existing.unwrap_or_default();
            let Some(patch) = toleration_patch(&before, &missing) else {
                prop_assert!(missing.iter().all(|one| existing.contains(one)));
                return Ok(());
            };
            let mut after = before.clone();
            json_patch::merge(&mut after, &patch);
            let list = after["spec"]["tolerations"].as_array().unwrap().clone();
            prop_assert_eq!(&list[..existing.len()], &existing[..]);
            prop_assert!(missing.iter().all(|one| list.contains(one)));
            prop_assert!(list[existing.len()..].iter().all(|one| missing.contains(one)));
            prop_assert_eq!(toleration_patch(&after, &missing), None);
            after["spec"]["tolerations"] = before["spec"]["tolerations"].clone();
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn malformed_pods_get_no_patch() {
        let missing = [json!({"key": "os", "operator": "Exists"})];
        for object in [
            json!(null),
            json!({"spec": {}}),
            json!({"metadata": {"uid": "u"}, "spec": {}}),
            json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"tolerations": {"key": "os"}}}),
        ] {
            assert_eq!(toleration_patch(&object, &missing), None, "{object}");
        }
        let spec_is_missing = json!({"metadata": {"uid": "u", "resourceVersion": "7"}});
        assert!(toleration_patch(&spec_is_missing, &missing).is_some());
    }
}
