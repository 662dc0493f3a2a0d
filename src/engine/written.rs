//! A live object as its author wrote it, as far as that can be told: without what the API server and Mullion have put
//! there since. What other admission plugins add (a service account's volume, default tolerations) stays: they run before
//! Mullion is asked, and so it sees the same at a CREATE.

use serde_json::{Map, Value};

use super::answer::FINDINGS_LABEL;
use super::constraint::{OS_LABELS, REQUIRED_TERMS, WINDOWS_BUILD_LABEL, is_empty_term};
use super::note::{DECISION, Note};
use super::placement::BUILD_LABEL;
use super::request::Kind;
use super::world::World;

/// Where `kubectl apply` keeps what it was given.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Makes `object`, a subject of that kind as a cluster has it, what its author wrote.
///
/// A pod that `kubectl apply` made carries the author's own text, which is taken: little of a pod can be changed later. Of
/// any other, fields that Mullion repaired are gone for good.
pub fn as_written(kind: Kind, object: &mut Value, world: &World) {
    if kind == Kind::Pod {
        if let Some(applied) = applied(object) {
            *object = applied;
            return;
        }
        if let Some(spec) = members(object, "/spec") {
            // Bound by the scheduler, and debugged by somebody.
            spec.remove("nodeName");
            spec.remove("ephemeralContainers");
        }
    }
    if let Some(note) = Note::of(object).filter(|_| matches!(kind, Kind::Pod | Kind::DaemonSet)) {
        let at = format!("{}/spec", kind.pod_pointer());
        undo(&note, object, &at, world);
    }
    for (parent, key) in
        [("/metadata/annotations", DECISION), ("/metadata/labels", FINDINGS_LABEL), ("/metadata/labels", BUILD_LABEL)]
    {
        if let Some(members) = members(object, parent) {
            members.remove(key);
        }
    }
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
}

/// What `kubectl apply` was given, if that is the same pod.
fn applied(object: &Value) -> Option<Value> {
    let text = object.pointer("/metadata/annotations")?.get(LAST_APPLIED)?.as_str()?;
    let applied: Value = serde_json::from_str(text).ok()?;
    let same = |pointer| applied.pointer(pointer) == object.pointer(pointer);
    let is_pod = applied.get("kind").and_then(Value::as_str) == Some(Kind::Pod.name());
    (is_pod && same("/metadata/name") && applied.pointer("/spec/containers").is_some()).then_some(applied)
}

/// Takes away what the note says that Mullion placed.
fn undo(note: &Note, object: &mut Value, spec: &str, world: &World) {
    let [os_label, _] = OS_LABELS;
    let build = note.has_placed("build");
    let class = note.has_placed("runtimeClassName").then(|| {
        let members = members(object, spec)?;
        // What the server adds for a class.
        members.remove("overhead");
        let name = members.remove("runtimeClassName")?;
        world.runtime_class(name.as_str()?)
    });
    let class = class.flatten();
    if let Some(members) = members(object, spec).filter(|_| note.has_placed("os")) {
        members.remove("os");
    }
    if let Some(selector) = members(object, &format!("{spec}/nodeSelector")) {
        if note.placed_selector() && selector.get(os_label).and_then(Value::as_str) == Some(&note.os) {
            selector.remove(os_label);
        }
        selector.retain(|key, value| {
            let of_class = class.and_then(|class| class.node_selector.get(key)).is_some_and(|of| value == of.as_str());
            !(of_class || build && key == WINDOWS_BUILD_LABEL)
        });
    }
    if let Some(Value::Array(tolerations)) = object.pointer_mut(&format!("{spec}/tolerations")) {
        let of_class = |one: &Value| class.is_some_and(|class| class.tolerations.contains(one));
        tolerations.retain(|one| !note.placed_toleration(one) && !of_class(one));
    }
    if build {
        undo_build(object, spec);
    }
}

/// Takes away the affinity that keeps a pod off builds.
fn undo_build(object: &mut Value, spec: &str) {
    let pod = spec.strip_suffix("/spec").unwrap_or(spec);
    let terms = format!("{pod}{REQUIRED_TERMS}");
    let Some(Value::Array(list)) = object.pointer_mut(&terms) else { return };
    for term in list.iter_mut() {
        if let Some(Value::Array(all)) = term.get_mut("matchExpressions") {
            let ours = |one: &Value| {
                let is = |name, value| one.get(name).and_then(Value::as_str) == Some(value);
                is("key", WINDOWS_BUILD_LABEL) && is("operator", "NotIn")
            };
            all.retain(|one| !ours(one));
        }
    }
    list.retain(|term| !is_empty_term(term));
    if !list.is_empty() {
        return;
    }
    // Ours alone: without terms it would let the pod run nowhere.
    if let Some(affinity) = members(object, &format!("{spec}/affinity/nodeAffinity")) {
        affinity.remove("requiredDuringSchedulingIgnoredDuringExecution");
    }
}

fn members<'o>(object: &'o mut Value, pointer: &str) -> Option<&'o mut Map<String, Value>> {
    object.pointer_mut(pointer)?.as_object_mut()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::engine::{Door, Request, Subject, answer, review};
    use crate::policy::PolicySet;

    fn written(kind: &str, mut object: Value, world: &World) -> Value {
        as_written(Kind::from_name(kind).unwrap(), &mut object, world);
        object
    }

    /// What Mullion adds at CREATE, and a cluster afterwards, goes again.
    #[test]
    fn what_mullion_placed_goes_again() {
        let classes = [("win".to_owned(), crate::engine::world::RuntimeClass::default())];
        let world = World { runtime_classes: Some(classes.into()), ..World::default() };
        for (kind, spec) in [
            ("Pod", json!({"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2022"}]})),
            (
                "Pod",
                json!({"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2022"}],
                "tolerations": [{"key": "team", "operator": "Exists"}], "nodeSelector": {"pool": "a"},
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}}),
            ),
            ("Pod", json!({"containers": [{"name": "c", "image": "nginx:1-alpine"}]})),
            (
                "DaemonSet",
                json!({"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/servercore:ltsc2022"}]}),
            ),
        ] {
            let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
            let object = match kind {
                "Pod" => {
                    json!({"kind": kind, "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": spec})
                }
                _ => {
                    json!({"kind": kind, "metadata": {"name": "n", "annotations": {"x": "y"}}, "spec": {"template": template}})
                }
            };
            let request =
                Request::creation(Subject { kind: Kind::from_name(kind).unwrap(), namespace: "a", object: &object });
            let patch = answer(&review(&request, &world, &PolicySet::built_in()), &object, Door::Mutate).patch;
            assert!(!patch.is_empty());
            let mut live = object.clone();
            json_patch::patch(&mut live, &patch).unwrap();
            live["status"] = json!({"phase": "Running"});
            if kind == "Pod" {
                live["spec"]["nodeName"] = json!("w1");
            }
            let back = written(kind, live, &world);
            // Lists and maps that stay behind are empty.
            let review_of = |object: &Value| {
                let request =
                    Request::creation(Subject { kind: Kind::from_name(kind).unwrap(), namespace: "a", object });
                let review = review(&request, &world, &PolicySet::built_in());
                (review.decision, review.changes)
            };
            assert_eq!(review_of(&back), review_of(&object), "{back}");
            assert_eq!(back["metadata"], object["metadata"]);
        }
    }

    #[test]
    fn a_pod_that_was_applied_is_what_was_applied() {
        let author = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"},
            "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"runAsGroup": 1}}]}});
        let live = |text: String| {
            json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "a",
            "annotations": {LAST_APPLIED: text}}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}})
        };
        let world = World::default();
        assert_eq!(written("Pod", live(author.to_string()), &world), author);
        for no in
            ["", "{", "[]", "null", r#"{"kind": "Pod", "metadata": {"name": "other"}, "spec": {"containers": []}}"#]
        {
            let back = written("Pod", live(no.to_owned()), &world);
            assert_eq!(back["spec"], json!({"containers": [{"name": "c", "image": "i"}]}), "{no}");
        }
    }

    #[test]
    fn strange_objects_are_left() {
        for strange in [json!(null), json!([]), json!({"spec": 7, "metadata": []}), json!({"spec": {"template": null}})]
        {
            assert_eq!(written("DaemonSet", strange.clone(), &World::default()), strange);
        }
    }
}
