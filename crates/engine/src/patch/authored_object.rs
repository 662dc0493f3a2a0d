//! The authored object: a live object without what the API server and Mullion added to it. What other admission plugins
//! add (a service account's volume, default tolerations) stays, because they run before Mullion, and Mullion receives
//! it at a CREATE too.

use serde_json::{Map, Value};

use crate::model::cluster::ClusterSnapshot;
use crate::model::names::{OS_LABEL, OWN_POD_METADATA, WINDOWS_BUILD_LABEL};
use crate::model::scheduling::{
    REQUIRED_TERMS, is_build_exclusion, is_build_presence, is_empty_term, requires_known_build,
};
use crate::model::{BUILD, DecisionAnnotation, WorkloadKind};

/// The annotation in which `kubectl apply` stores the applied manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Turns `object`, a live workload of that kind, into what its author wrote.
///
/// A pod that `kubectl apply` created contains the author's manifest, which is used, because little of a pod can be
/// changed later. In any other pod, fields that Mullion repaired are lost.
pub fn restore_authored(kind: WorkloadKind, object: &mut Value, snapshot: &ClusterSnapshot) {
    if kind == WorkloadKind::Pod {
        if let Some(applied) = applied(object) {
            *object = applied;
            return;
        }
        if let Some(spec) = members(object, "/spec") {
            // The scheduler and `kubectl debug` set these fields.
            spec.remove("nodeName");
            spec.remove("ephemeralContainers");
        }
    }
    if let Some(annotation) =
        DecisionAnnotation::of(object).filter(|_| matches!(kind, WorkloadKind::Pod | WorkloadKind::DaemonSet))
    {
        let at = format!("{}/spec", kind.pod_pointer());
        undo(&annotation, object, &at, snapshot);
    }
    for (parent, key) in OWN_POD_METADATA {
        if let Some(members) = members(object, &format!("/metadata/{parent}")) {
            members.remove(key);
        }
    }
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
}

/// The manifest that was passed to `kubectl apply`, if it is of the same pod.
fn applied(object: &Value) -> Option<Value> {
    let text = object.pointer("/metadata/annotations")?.get(LAST_APPLIED)?.as_str()?;
    let applied: Value = serde_json::from_str(text).ok()?;
    let same_name = applied.pointer("/metadata/name") == object.pointer("/metadata/name");
    let is_pod = applied.get("kind").and_then(Value::as_str) == Some(WorkloadKind::Pod.name());
    (is_pod && same_name && applied.pointer("/spec/containers").is_some()).then_some(applied)
}

/// Removes what Mullion placed according to the annotation.
fn undo(annotation: &DecisionAnnotation, object: &mut Value, spec: &str, snapshot: &ClusterSnapshot) {
    let build = annotation.has_placed(BUILD);
    let class = annotation.has_placed("runtimeClassName").then(|| {
        let members = members(object, spec)?;
        // The API server adds this field for a RuntimeClass.
        members.remove("overhead");
        let name = members.remove("runtimeClassName")?;
        snapshot.runtime_class(name.as_str()?)
    });
    let class = class.flatten();
    if let Some(members) = members(object, spec).filter(|_| annotation.has_placed("os")) {
        members.remove("os");
    }
    if let Some(selector) = members(object, &format!("{spec}/nodeSelector")) {
        if annotation.placed_selector() && selector.get(OS_LABEL).and_then(Value::as_str) == Some(&annotation.os) {
            selector.remove(OS_LABEL);
        }
        selector.retain(|key, value| {
            let of_class = class.and_then(|class| class.node_selector.get(key)).is_some_and(|of| value == of.as_str());
            !(of_class || build && key == WINDOWS_BUILD_LABEL)
        });
    }
    if let Some(Value::Array(tolerations)) = object.pointer_mut(&format!("{spec}/tolerations")) {
        let of_class =
            |one: &Value| class.and_then(|class| class.tolerations.parsed()).is_some_and(|all| all.contains(one));
        tolerations.retain(|one| !annotation.placed_toleration(one) && !of_class(one));
    }
    if build {
        undo_build(object, spec);
    }
}

/// Removes the node affinity that excludes builds, and the alternatives for pools without nodes.
fn undo_build(object: &mut Value, spec: &str) {
    let pod = spec.strip_suffix("/spec").unwrap_or(spec);
    let terms = format!("{pod}{REQUIRED_TERMS}");
    let Some(Value::Array(list)) = object.pointer_mut(&terms) else { return };
    let alternatives = list.iter().any(requires_known_build);
    if alternatives {
        list.retain(requires_known_build);
    }
    for term in list.iter_mut() {
        if let Some(Value::Array(all)) = term.get_mut("matchExpressions") {
            all.retain(|one| !(is_build_exclusion(one) || alternatives && is_build_presence(one)));
        }
    }
    list.retain(|term| !is_empty_term(term));
    if !list.is_empty() {
        return;
    }
    // Only Mullion's terms remain: an empty list would match no node.
    if let Some(affinity) = members(object, &format!("{spec}/affinity/nodeAffinity")) {
        affinity.remove("requiredDuringSchedulingIgnoredDuringExecution");
    }
}

fn members<'o>(object: &'o mut Value, pointer: &str) -> Option<&'o mut Map<String, Value>> {
    object.pointer_mut(pointer)?.as_object_mut()
}
