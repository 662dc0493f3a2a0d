//! What the pods of a workload request, as the scheduler counts it.

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::quantity::Quantity;
use mullion_engine::model::scheduling::{PodRequests, pod_requests};
use serde_json::Value;

use mullion_survey::analysis::{OwnedPods, WorkloadView};
use mullion_survey::inventory::{Inventory, ObjectKey};

/// What the pods of a workload request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The number of pods that may run at once: replicas, or the maximum of its autoscaler. For a DaemonSet, 1: that on each
    /// node.
    pub(crate) pods: usize,
    /// Of one pod, in thousandths of a processor.
    pub(crate) cpu_millis: u64,
    /// Of one pod, in bytes.
    pub(crate) memory_bytes: u64,
    /// Whether a container of it requests nothing.
    pub(crate) without_requests: bool,
    /// Whether the number of pods is the maximum of its autoscaler, which is more than its replicas.
    pub(crate) is_scaled: bool,
}

/// The requests of a workload. `live`: the object as it is in the cluster.
///
/// A pod in the cluster has what webhooks and LimitRanges added: of template and pods, the one that requests most counts.
pub(crate) fn demand(live: &Value, owned: &OwnedPods<'_>, view: &WorkloadView<'_>, inventory: &Inventory) -> Demand {
    let template = match view.kind.pod_pointer() {
        "" => live.pointer("/spec"),
        pointer => live.pointer(pointer).and_then(|template| template.get("spec")),
    };
    let pods = || owned.pods.iter().filter_map(|at| Some((inventory.pods.get(*at)?, inventory.samples.get(at)?)));
    let running = pods().filter(|(pod, _)| !pod.ended);
    let samples: Vec<Value> = running.filter_map(|(_, sample)| serde_json::from_str(sample).ok()).collect();
    let specs = template.into_iter().chain(samples.iter().filter_map(|sample| sample.get("spec")));
    let (pods, is_scaled) = pod_count(live, view, inventory);
    let mut demand = Demand { pods, is_scaled, ..Demand::default() };
    for spec in specs {
        let overhead = PodRequests::of_list(spec.get("overhead"), |name| {
            Quantity::parse(inventory.runtime_class(spec.get("runtimeClassName")?.as_str())?.overhead.get(name)?)
        });
        let (requests, without_requests) = pod_requests(spec);
        let requests = requests.plus(overhead);
        demand.cpu_millis = demand.cpu_millis.max(requests.cpu_millis.unwrap_or_default());
        demand.memory_bytes = demand.memory_bytes.max(requests.memory_bytes.unwrap_or_default());
        demand.without_requests |= without_requests;
    }
    demand
}

/// The number of pods that may run at once, and whether that is the maximum of an autoscaler.
fn pod_count(live: &Value, view: &WorkloadView<'_>, inventory: &Inventory) -> (usize, bool) {
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_u64);
    let key = ObjectKey {
        namespace: view.object.namespace.as_str().into(),
        kind: view.object.kind.as_str().into(),
        name: view.object.name.as_str().into(),
    };
    let running = view.pods.iter().filter(|pod| !pod.ended).count();
    let jobs = |spec: &str| {
        let at_once = number(&format!("{spec}/parallelism")).unwrap_or(1);
        number(&format!("{spec}/completions")).map_or(at_once, |all| all.min(at_once))
    };
    let wanted = match view.kind {
        // The object that has the pods was not read, or it is of a kind that Mullion does not know.
        kind if kind.name() != view.object.kind => {
            return at_most(running, scaled_to(inventory, &key));
        }
        // It has ended, and its pods do not come back.
        WorkloadKind::Job | WorkloadKind::Pod if running == 0 && !view.pods.is_empty() => 0,
        WorkloadKind::Pod | WorkloadKind::PodTemplate | WorkloadKind::DaemonSet => 1,
        WorkloadKind::Job => jobs("/spec"),
        WorkloadKind::CronJob => jobs("/spec/jobTemplate/spec"),
        WorkloadKind::ReplicationController
        | WorkloadKind::ReplicaSet
        | WorkloadKind::Deployment
        | WorkloadKind::StatefulSet => match number("/spec/replicas").unwrap_or(1) {
            // An autoscaler leaves an object with 0 replicas alone.
            0 => 0,
            replicas => return at_most(to_usize(replicas), scaled_to(inventory, &key)),
        },
    };
    (to_usize(wanted), false)
}

fn at_most(now: usize, scaled: usize) -> (usize, bool) {
    (now.max(scaled), scaled > now)
}

fn scaled_to(inventory: &Inventory, key: &ObjectKey) -> usize {
    to_usize(inventory.scaled_to.get(key).copied().unwrap_or_default())
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::test_fleet::{TestPlan, node, workload};

    fn demands(objects: Vec<Value>) -> Vec<(String, Demand)> {
        let (_, moves) = TestPlan::new(objects).steps();
        moves.into_iter().map(|one| (one.report.object.name, one.demand)).collect()
    }

    #[test]
    fn numbers_of_pods() {
        let nodes = || vec![node("w1", 20348, json!({}))];
        let cases = [
            ("Deployment", json!({"replicas": 4}), 4),
            ("Deployment", json!({"replicas": null}), 1),
            ("Job", json!({"parallelism": 5, "completions": 3}), 3),
            ("Job", json!({"parallelism": 5}), 5),
            ("DaemonSet", json!({}), 1),
            ("StatefulSet", json!({"replicas": 0}), 0),
            // The object was not read: its pods are.
            ("Rollout", json!({}), 1),
        ];
        for (kind, changed, expected) in cases {
            let mut objects = workload(kind, "web", 1, "w1");
            if let (Some(spec), Value::Object(changed)) = (objects[0]["spec"].as_object_mut(), changed.clone()) {
                spec.extend(changed);
                spec.retain(|_, value| !value.is_null());
            }
            if kind == "Rollout" {
                objects.remove(0);
            }
            let found = demands(nodes().into_iter().chain(objects).collect());
            assert_eq!(found.first().map(|(_, demand)| demand.pods), Some(expected), "{kind} {changed}");
        }
        let mut ended = workload("Job", "web", 1, "w1");
        ended[1]["status"]["phase"] = "Succeeded".into();
        assert_eq!(demands(nodes().into_iter().chain(ended).collect())[0].1.pods, 0);
    }

    /// A webhook adds a container and a RuntimeClass adds an overhead.
    #[test]
    fn pods_request_more_than_their_template() {
        let mut objects = workload("Deployment", "web", 2, "w1");
        let sidecar =
            json!({"name": "mesh", "image": "m:1", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}});
        objects[1]["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
        objects[0]["spec"]["template"]["spec"]["runtimeClassName"] = "vm".into();
        objects.push(json!({"kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "runhcs-wcow-hypervisor",
            "overhead": {"podFixed": {"cpu": "2"}}}));
        objects.push(node("w1", 20348, json!({})));
        let expected =
            Demand { pods: 2, cpu_millis: 3000, memory_bytes: 3 << 30, without_requests: false, is_scaled: false };
        assert_eq!(demands(objects), [("web".to_owned(), expected)]);
    }
}
