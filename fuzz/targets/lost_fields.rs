//! The fields that a patch removes from a pod, compared with the object that its author wrote.
//!
//! Everything in a pod counts as a security field, including fields of future versions, except what Mullion places. So
//! a removal is not detected only for fields in the short list of placement.

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::pod_view::Pod;
use serde_json::{Map, Value};

const OS_LABEL: &str = "kubernetes.io/os";

/// The pointer of the first field that is missing or different in `after`, if its pods may run on Linux; `None` if
/// there is no such field, or if no kubelet on Linux runs them: they have the OS field, or a literal Windows
/// nodeSelector.
pub fn lost_field(before: &Value, after: &Value) -> Option<String> {
    let kind = before.get("kind").and_then(Value::as_str).and_then(WorkloadKind::from_name)?;
    let [old, new] = [before, after].map(|object| object.pointer(kind.pod_pointer()).unwrap_or(&Value::Null));
    let stays_off_linux = Pod::of(kind, after).is_some_and(|pod| {
        pod.text("/spec/os/name") == Some("windows")
            || pod.strings("/spec/nodeSelector").any(|pair| pair == (OS_LABEL, "windows"))
    });
    if stays_off_linux { None } else { difference(old, new, String::new()) }
}

/// The first value of `old` that `new` does not have, at `pointer`, without what Mullion places.
fn difference(old: &Value, new: &Value, pointer: String) -> Option<String> {
    if is_placement(&pointer, old) {
        return None;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let lost = old.iter().find_map(|(name, value)| {
                difference(value, new.get(name).unwrap_or(&Value::Null), format!("{pointer}/{name}"))
            });
            lost.or_else(|| added(old, new, &pointer))
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new).enumerate().find_map(|(at, (old, new))| difference(old, new, format!("{pointer}/{at}")))
        }
        // The API server rejects it in a container that is not privileged, so no pod ever had it.
        _ if pointer.ends_with("/mountPropagation") && old == "Bidirectional" => None,
        _ => (old != new).then_some(pointer),
    }
}

/// A member of a security context that only `new` has: another user.
fn added(old: &Map<String, Value>, new: &Map<String, Value>, pointer: &str) -> Option<String> {
    let name = new.keys().find(|name| !old.contains_key(*name))?;
    pointer.contains("/securityContext").then(|| format!("{pointer}/{name}"))
}

fn is_placement(pointer: &str, old: &Value) -> bool {
    match pointer {
        "/spec/nodeSelector"
        | "/spec/tolerations"
        | "/spec/affinity"
        | "/metadata/annotations/mullion.dev/decision"
        | "/metadata/labels/mullion.dev/findings"
        | "/metadata/labels/mullion.dev/windows-build" => true,
        "/metadata" | "/metadata/annotations" | "/metadata/labels" => old.is_null(),
        _ => false,
    }
}
