//! What the pods of a workload request, as the scheduler counts it.
//!
//! Source: `PodRequests` in kubernetes/kubernetes `staging/src/k8s.io/component-helpers/resource/helpers.go`, and the defaults of
//! the API server (`pkg/apis/core/v1/defaults.go`): a limit stands for an absent request.

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::quantity::Quantity;
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

/// Requests of a pod or container.
#[derive(Debug, Clone, Copy, Default)]
struct Requests {
    cpu_millis: Option<u64>,
    memory_bytes: Option<u64>,
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
        let overhead = Requests::of_list(spec.get("overhead"), |name| {
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

/// The requests of one pod without its overhead, and whether a container requests nothing.
fn pod_requests(spec: &Value) -> (Requests, bool) {
    let list = |name: &str| spec.get(name).and_then(Value::as_array).into_iter().flatten();
    let (mut sum, mut highest_init, mut sidecars) = (Requests::default(), Requests::default(), Requests::default());
    let mut without_requests = false;
    for container in list("containers") {
        let requests = Requests::of_resources(container.get("resources"));
        without_requests |= requests.is_empty();
        sum = sum.plus(requests);
    }
    for container in list("initContainers") {
        let requests = Requests::of_resources(container.get("resources"));
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            without_requests |= requests.is_empty();
            sum = sum.plus(requests);
            sidecars = sidecars.plus(requests);
            highest_init = highest_init.max(sidecars);
        } else {
            highest_init = highest_init.max(requests.plus(sidecars));
        }
    }
    let containers = sum.max(highest_init);
    let pod_level = spec.get("resources");
    let requested = Requests::of_list(pod_level.and_then(|all| all.get("requests")), |_| None);
    let limits = Requests::of_list(pod_level.and_then(|all| all.get("limits")), |_| None);
    // A pod-level limit is the request only if no container has one.
    let requests = requested.or(containers).or(limits);
    (requests, without_requests && requested.is_empty() && limits.is_empty())
}

impl Requests {
    fn of_resources(resources: Option<&Value>) -> Self {
        let list = |name: &str| Self::of_list(resources.and_then(|all| all.get(name)), |_| None);
        list("requests").or(list("limits"))
    }

    /// A list of resources. `otherwise`: what counts for one that it does not have.
    fn of_list(list: Option<&Value>, otherwise: impl Fn(&str) -> Option<Quantity>) -> Self {
        let quantity = |name: &str| list.and_then(|list| Quantity::of(list.get(name)?)).or_else(|| otherwise(name));
        Self {
            cpu_millis: quantity("cpu").map(Quantity::thousandths),
            memory_bytes: quantity("memory").map(Quantity::units),
        }
    }

    fn is_empty(self) -> bool {
        self.cpu_millis.is_none() && self.memory_bytes.is_none()
    }

    fn or(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.or(other.cpu_millis),
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
        }
    }

    fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Self {
            cpu_millis: sum(self.cpu_millis, other.cpu_millis),
            memory_bytes: sum(self.memory_bytes, other.memory_bytes),
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.max(other.cpu_millis),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::test_fleet::{TestPlan, node, workload};

    const MI: u64 = 1 << 20;

    /// Kubernetes' own sums: `TestPodRequestsAndLimits` in component-helpers/resource/helpers_test.go.
    #[test]
    fn requests_of_a_pod() {
        let of = |cpu: &str, memory: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}});
        let sidecar = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        let init = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let cases = [
            ("sum", json!({"containers": [of("1", "100Mi"), of("500m", "28Mi")]}), (1500, 128 * MI, false)),
            (
                "init",
                json!({"containers": [of("1", "1Mi")], "initContainers": [init("3"), init("2")]}),
                (3000, MI, false),
            ),
            ("sidecar", json!({"containers": [of("1", "1Mi")], "initContainers": [sidecar("2")]}), (3000, MI, false)),
            (
                "an init container after a sidecar",
                json!({"containers": [of("1", "1Mi")], "initContainers": [sidecar("2"), init("5")]}),
                (7000, MI, false),
            ),
            (
                "an init container before a sidecar",
                json!({"containers": [of("1", "1Mi")], "initContainers": [init("5"), sidecar("2")]}),
                (5000, MI, false),
            ),
            (
                "limits stand for absent requests",
                json!({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Mi"}, "requests": {"cpu": "1"}}}]}),
                (1000, MI, false),
            ),
            ("nothing", json!({"containers": [of("1", "1Mi"), {"name": "a"}]}), (1000, MI, true)),
            ("no init request", json!({"containers": [of("1", "1Mi")], "initContainers": [{}]}), (1000, MI, false)),
            (
                "pod level",
                json!({"containers": [of("1", "1Mi"), {}], "resources": {"requests": {"cpu": "4"}}}),
                (4000, MI, false),
            ),
            (
                "pod-level limits",
                json!({"containers": [{}], "resources": {"limits": {"cpu": "4", "memory": "2Mi"}}}),
                (4000, 2 * MI, false),
            ),
            (
                "pod-level limits and a request of a container",
                json!({"containers": [init("1")], "resources": {"limits": {"cpu": "4"}}}),
                (1000, 0, false),
            ),
            ("malformed", json!({"containers": [{"resources": {"requests": {"cpu": "a"}}}, 7]}), (0, 0, true)),
            ("huge", json!({"containers": [of("100E", "1"), of("100E", "1")]}), (u64::MAX, 2, false)),
        ];
        for (name, spec, expected) in cases {
            let (requests, without) = pod_requests(&spec);
            let found = (requests.cpu_millis.unwrap_or(0), requests.memory_bytes.unwrap_or(0), without);
            assert_eq!(found, expected, "{name}");
        }
    }

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
