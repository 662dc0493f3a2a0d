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

/// The length up to which the conditions loop over labels of the nodeSelector, containers or annotations: the processor
/// time of a loop grows with the square of its length.
const LONGEST: usize = 100;
/// The same for the terms of the required node affinity, the expressions of a term, and the values of an expression.
const LONGEST_IN_LISTS: usize = 10;

/// Whether the workload is explicitly Linux. One with a longer list than the conditions loop over is not: Mullion reviews
/// it.
pub fn is_explicitly_linux(workload: &WorkloadObject<'_>) -> bool {
    let Some(pod) = Pod::of(workload.kind, workload.object) else { return false };
    let annotations = |place: &str| member(workload.object, place)?.get("metadata")?.get("annotations")?.as_object();
    let concern_mullion = |place| {
        annotations(place)
            .is_some_and(|all| all.len() > LONGEST || all.keys().any(|key| key.starts_with(OWN_ANNOTATIONS)))
    };
    // Empty options count too, because the API server rejects them beside `spec.os.name: linux`.
    let options = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    let names_linux =
        pod.strings("/spec/nodeSelector").any(|(key, value)| key == OS_LABEL && value == Os::Linux.name());
    names_linux
        && has_short_lists(&pod)
        && selector_os(&pod).0 == OsWanted::Only(Os::Linux)
        && !node_constraints::affinity_names_windows(&pod)
        && pod.text("/spec/os/name") != Some(Os::Windows.name())
        && !pod.text("/spec/runtimeClassName").is_some_and(|name| name.starts_with(RUNTIME_CLASS_PREFIX))
        && !options(pod.get(&format!("/spec{OPTIONS}")))
        && !pod.containers().any(|container| options(container.get(OPTIONS)))
        && !concern_mullion(pod.pointer)
        && !concern_mullion("")
}

/// Whether no list of the spec is longer than the conditions loop over.
fn has_short_lists(pod: &Pod<'_>) -> bool {
    let labels = pod.get("/spec/nodeSelector").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    labels <= LONGEST && pod.containers().count() <= LONGEST && node_constraints::has_short_terms(pod, LONGEST_IN_LISTS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::model::WorkloadKind;

    #[test]
    fn a_workload_with_a_long_list_is_reviewed() {
        let map = |count: usize| Value::Object((0..count).map(|at| (format!("k{at}"), json!(""))).collect());
        let terms = |terms: usize, expressions: usize, key: &str, values: usize| {
            let expression = json!({"key": key, "operator": "In", "values": vec!["v"; values]});
            let terms = vec![json!({"matchExpressions": vec![expression; expressions]}); terms];
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
        };
        let os_sku = "kubernetes.azure.com/os-sku";
        // The pod has one container, and one label in its nodeSelector.
        for (place, value, is_short) in [
            ("/spec/nodeSelector", map(99), true),
            ("/spec/nodeSelector", map(100), false),
            ("/spec/initContainers", json!(vec![json!({}); 99]), true),
            ("/spec/initContainers", json!(vec![json!({}); 100]), false),
            ("/metadata/annotations", map(100), true),
            ("/metadata/annotations", map(101), false),
            ("/spec/affinity", terms(10, 10, os_sku, 10), true),
            ("/spec/affinity", terms(11, 1, os_sku, 1), false),
            ("/spec/affinity", terms(1, 11, os_sku, 1), false),
            ("/spec/affinity", terms(1, 1, os_sku, 11), false),
            ("/spec/affinity", terms(1, 1, "node.kubernetes.io/instance-type", 1_000), true),
        ] {
            let mut object = json!({"metadata": {}, "spec": {"containers": [{}], "nodeSelector": {}}});
            let (parent, last) = place.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[last] = value;
            object["spec"]["nodeSelector"][OS_LABEL] = json!("linux");
            let workload = WorkloadObject { kind: WorkloadKind::Pod, namespace: "n", object: &object };
            assert_eq!(is_explicitly_linux(&workload), is_short, "{place}: {object}");
        }
    }
}
