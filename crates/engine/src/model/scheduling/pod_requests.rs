//! What a pod requests, as the scheduler counts it.
//!
//! Source: `PodRequests` in kubernetes/kubernetes `staging/src/k8s.io/component-helpers/resource/helpers.go`, and the defaults of
//! the API server (`pkg/apis/core/v1/defaults.go`): a limit stands for an absent request.

use serde_json::Value;

use crate::model::quantity::Quantity;

/// Requests of a pod or container.
#[derive(Debug, Clone, Copy, Default)]
pub struct PodRequests {
    /// In thousandths of a processor; `None` if none is requested.
    pub cpu_millis: Option<u64>,
    /// In bytes; `None` if none is requested.
    pub memory_bytes: Option<u64>,
}

/// The requests of a pod with this spec, without its overhead, and whether a container requests nothing.
pub fn pod_requests(spec: &Value) -> (PodRequests, bool) {
    let list = |name: &str| spec.get(name).and_then(Value::as_array).into_iter().flatten();
    let (mut sum, mut highest_init, mut sidecars) =
        (PodRequests::default(), PodRequests::default(), PodRequests::default());
    let mut without_requests = false;
    for container in list("containers") {
        let requests = PodRequests::of_resources(container.get("resources"));
        without_requests |= requests.is_empty();
        sum = sum.plus(requests);
    }
    for container in list("initContainers") {
        let requests = PodRequests::of_resources(container.get("resources"));
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
    let requested = PodRequests::of_list(pod_level.and_then(|all| all.get("requests")), |_| None);
    let limits = PodRequests::of_list(pod_level.and_then(|all| all.get("limits")), |_| None);
    // A pod-level limit is the request only if no container has one.
    let requests = requested.or(containers).or(limits);
    (requests, without_requests && requested.is_empty() && limits.is_empty())
}

impl PodRequests {
    fn of_resources(resources: Option<&Value>) -> Self {
        let list = |name: &str| Self::of_list(resources.and_then(|all| all.get(name)), |_| None);
        list("requests").or(list("limits"))
    }

    /// A list of resources. `otherwise`: what counts for one that it does not have.
    pub fn of_list(list: Option<&Value>, otherwise: impl Fn(&str) -> Option<Quantity>) -> Self {
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

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
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

    use serde_json::json;

    use super::*;

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
}
