//! Explicitly Linux workloads: the author selects Linux, and nothing else concerns Mullion. By default the API server does
//! not call Mullion for them; `charts/mullion/templates/_conditions.tpl` has the same definition in CEL.

use serde_json::Value;

use crate::model::json_pointer::member;
use crate::model::names::{OS_LABEL, RUNTIME_CLASS_PREFIX};
use crate::model::pod_view::Pod;
use crate::model::scheduling::{OsWanted, node_constraints, selector_os};
use crate::model::{Os, WorkloadObject};

/// How the keys of Mullion's annotations begin.
const OWN_ANNOTATIONS: &str = "mullion.dev/";
/// Pointer of the options below a container, and below the spec of a pod.
const OPTIONS: &str = "/securityContext/windowsOptions";

/// Whether the workload is explicitly Linux.
pub fn is_explicitly_linux(workload: &WorkloadObject<'_>) -> bool {
    let Some(pod) = Pod::of(workload.kind, workload.object) else { return false };
    let annotations = |place: &str| member(workload.object, place)?.get("metadata")?.get("annotations")?.as_object();
    let has_own = |place| annotations(place).is_some_and(|all| all.keys().any(|key| key.starts_with(OWN_ANNOTATIONS)));
    // Empty options count too, because the API server rejects them beside `spec.os.name: linux`.
    let options = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    let names_linux =
        pod.strings("/spec/nodeSelector").any(|(key, value)| key == OS_LABEL && value == Os::Linux.name());
    names_linux
        && selector_os(&pod).0 == OsWanted::Only(Os::Linux)
        && !node_constraints::affinity_names_windows(&pod)
        && pod.text("/spec/os/name") != Some(Os::Windows.name())
        && !pod.text("/spec/runtimeClassName").is_some_and(|name| name.starts_with(RUNTIME_CLASS_PREFIX))
        && !options(pod.get(&format!("/spec{OPTIONS}")))
        && !pod.containers().any(|container| options(container.get(OPTIONS)))
        && !has_own(pod.pointer)
        && !has_own("")
}
