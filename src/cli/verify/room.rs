//! The room of a node for one more pod, by the requests of its pods: so that no pod is created that waits for a node, which a
//! cluster autoscaler would add.

use mullion_engine::model::scheduling::{PodRequests, pod_requests};
use serde_json::Value;

/// Pods and resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub(super) pods: u64,
    pub(super) milli_cpu: u64,
    /// In bytes.
    pub(super) memory: u64,
}

impl Amounts {
    /// What the scheduler counts for a pod.
    pub(super) fn of_pod(pod: &Value) -> Self {
        let spec = pod.pointer("/spec").unwrap_or(&Value::Null);
        let (requests, _) = pod_requests(spec);
        let PodRequests { cpu_millis, memory_bytes } =
            requests.plus(PodRequests::of_list(spec.get("overhead"), |_| None));
        Self { pods: 1, milli_cpu: cpu_millis.unwrap_or_default(), memory: memory_bytes.unwrap_or_default() }
    }

    /// The sum.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            pods: self.pods.saturating_add(other.pods),
            milli_cpu: self.milli_cpu.saturating_add(other.milli_cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// Whether these amounts are within `most`.
    pub(super) fn fits_within(self, most: Self) -> bool {
        self.pods <= most.pods && self.milli_cpu <= most.milli_cpu && self.memory <= most.memory
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_counted_as_the_scheduler_does() {
        let container = |cpu: &str, memory: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}});
        let mut sidecar = container("10m", "1Mi");
        sidecar["restartPolicy"] = json!("Always");
        let pod = json!({"spec": {"containers": [container("100m", "1Mi"), container("1", "1Mi"), {}],
            "initContainers": [container("500m", "8Mi"), sidecar], "overhead": {"memory": "2Mi"}}});
        assert_eq!(Amounts::of_pod(&pod), Amounts { pods: 1, milli_cpu: 1_110, memory: 10 << 20 });
        assert_eq!(Amounts::of_pod(&json!({})), Amounts { pods: 1, ..Amounts::default() });
        let huge =
            json!({"spec": {"containers": [container("9E", "9E"), container("9E", "9E"), container("x", "-1")]}});
        assert!(!Amounts::of_pod(&huge).fits_within(Amounts { pods: 1, milli_cpu: 1 << 60, memory: 1 << 60 }));
    }
}
