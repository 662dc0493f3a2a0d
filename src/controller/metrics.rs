//! The controller's metrics. Their names are only in this file. No label contains the name of a node, and a few contain
//! the name of a workload.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use mullion_engine::admission::Endpoint;
use mullion_engine::model::Os;
use mullion_engine::node::TaintBlocker;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::policy_files::PolicyReporter;
use crate::telemetry::{CertificateTimes, MetricLabels, label_values, metric_set, metrics_text, registry};

/// Every metric of one controller. Clones share the numbers.
#[derive(Clone)]
pub struct ControllerMetrics {
    own: OwnMetrics,
    /// The labels of `taint_waits_for` that exist now.
    named: Arc<Mutex<BTreeSet<BlockerLabels>>>,
    registry: Arc<Registry>,
}

metric_set! {
    /// The controller's own metrics.
    struct OwnMetrics {
        node_patches: Family<WriteOutcome, Counter> = "Patches of nodes, by outcome",
        runtime_class_writes: Family<WriteOutcome, Counter> = "Writes of RuntimeClasses, by outcome",
        pod_patches: Family<WriteOutcome, Counter> = "Patches of pods that lacked tolerations, by outcome",
        missed_pods: Gauge = "Pods created without Mullion that must be created again",
        stuck_pods: Family<MetricLabels<1>, Gauge> =
            "Pods that never started on a node of the wrong system or build, by the operating system of the node",
        windows_nodes: Gauge = "Windows nodes, virtual ones included",
        nodes_waiting: Gauge = "Nodes whose taint waits for pods that do not tolerate it",
        taint_waits_for: Family<BlockerLabels, Gauge> =
            "Nodes whose taint waits for this DaemonSet or pod; the 20 that taints have waited for longest",
        daemonset_nodes_left_out: Family<DaemonSetLabels, Gauge> =
            "Windows nodes that cannot run the images of this DaemonSet; the 20 DaemonSets with most such nodes",
        nodes_contested: Gauge = "Nodes on which someone undoes a change repeatedly",
        nodes_withheld: Gauge = "Nodes that mode Enforce in the NodePolicy would change, and mode Audit does not",
        leader: Gauge = "1 while this process holds the lease and leads, otherwise 0",
        webhook_reachable: Family<MetricLabels<1>, Gauge> =
            "Whether the API server reached the webhook in the last probe: 1 or 0",
        webhook_last_reached_timestamp: Family<MetricLabels<1>, Gauge> =
            "When the API server last reached the webhook in a probe, in seconds since 1970",
        webhook_probes: Family<MetricLabels<1>, Counter> = "Probes of the webhook, by outcome",
        state_writes: Family<WriteOutcome, Counter> = "Updates of ConfigMap mullion-state, by outcome",
        withdrawn: Gauge = "1 while mullion withdraw keeps the controller from changing the cluster",
        certificate_writes: Family<(CertificateObject, WriteOutcome), Counter> =
            "Writes of certificates and of CA bundles, by outcome",
    } with {
        certificates: CertificateTimes,
    }
}

/// Kind, namespace and name of a workload for which taints wait, and the toleration that is missing in it.
type BlockerLabels = [(&'static str, String); 4];

/// Namespace and name of a DaemonSet.
type DaemonSetLabels = [(&'static str, String); 2];

label_values! {
    /// The result of one write.
    pub enum WriteOutcome: "outcome" {
        /// The write succeeded.
        Done = "done",
        /// Another client wrote first (409); the write is computed again.
        Conflict = "conflict",
        /// The object does not exist (404).
        Gone = "gone",
        /// The write was rejected, or got no response; it is retried later.
        Failed = "failed",
    }

    /// The object of a write for the webhook's certificates.
    pub enum CertificateObject: "object" {
        /// Secret `mullion-ca`.
        Ca = "ca",
        /// Secret `mullion-tls`.
        Serving = "serving",
        /// The bundles of one webhook configuration.
        Bundle = "bundle",
    }
}

impl WriteOutcome {
    /// The outcome of a write with this response.
    pub(crate) fn of<T>(response: &kube::Result<T>) -> Self {
        match response {
            Ok(_) => Self::Done,
            Err(kube::Error::Api(status)) if status.code == 409 => Self::Conflict,
            Err(kube::Error::Api(status)) if status.code == 404 => Self::Gone,
            Err(_) => Self::Failed,
        }
    }
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl ControllerMetrics {
    /// Metrics of a process without policy files.
    pub fn new() -> Self {
        Self::about(&PolicyReporter::default())
    }

    /// Metrics of a process with these policy files.
    pub fn about(policies: &PolicyReporter) -> Self {
        let own = OwnMetrics::default();
        let registry = registry(|registry| {
            own.register(registry);
            registry.register_collector(Box::new(policies.clone()));
        });
        Self { own, named: Arc::default(), registry: Arc::new(registry) }
    }

    /// The text of `/metrics`.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        metrics_text(&self.registry)
    }

    /// A patch of a node ended.
    pub fn node_patched(&self, outcome: WriteOutcome) {
        self.own.node_patches.get_or_create(&outcome).inc();
    }

    /// A write of a RuntimeClass ended.
    pub fn class_written(&self, outcome: WriteOutcome) {
        self.own.runtime_class_writes.get_or_create(&outcome).inc();
    }

    /// A patch of a pod's tolerations ended.
    pub fn pod_patched(&self, outcome: WriteOutcome) {
        self.own.pod_patches.get_or_create(&outcome).inc();
    }

    /// Sets the number of pods that were created without Mullion and can no longer be repaired.
    pub fn set_missed_pods(&self, pods: usize) {
        set(&self.own.missed_pods, pods);
    }

    /// Sets the numbers of pods that can never start on nodes of each operating system; `None` while they are not counted.
    pub fn set_stuck_pods(&self, pods: Option<[(Os, usize); 2]>) {
        self.own.stuck_pods.clear();
        for (os, pods) in pods.into_iter().flatten() {
            set(&self.own.stuck_pods.get_or_create(&[("node_os", os.name())]), pods);
        }
    }

    /// Sets the number of Windows nodes, and of those that wait for their taint, on which someone undoes changes, and
    /// for which `mode: Audit` withholds a change.
    pub fn set_nodes(&self, windows: usize, waiting: usize, contested: usize, withheld: usize) {
        set(&self.own.windows_nodes, windows);
        set(&self.own.nodes_waiting, waiting);
        set(&self.own.nodes_contested, contested);
        set(&self.own.nodes_withheld, withheld);
    }

    /// Sets the workloads for which taints wait, each with the number of nodes, and the toleration that ends the wait.
    pub fn set_taint_blockers(&self, toleration: &str, blockers: &[(TaintBlocker, usize)]) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *named);
        for (blocker, nodes) in blockers {
            let Some((kind, namespace, name)) = blocker.object() else { continue };
            let labels = [("kind", kind), ("namespace", namespace), ("name", name), ("toleration", toleration)];
            let labels = labels.map(|(label, value)| (label, value.to_owned()));
            set(&self.own.taint_waits_for.get_or_create(&labels), *nodes);
            named.insert(labels);
        }
        for labels in before.difference(&named) {
            self.own.taint_waits_for.remove(labels);
        }
    }

    /// Sets how many nodes each of these DaemonSets (`namespace/name`) leaves out.
    pub fn set_left_out(&self, counts: &[(String, usize)]) {
        self.own.daemonset_nodes_left_out.clear();
        for (name, nodes) in counts {
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            let labels = [("namespace", namespace.to_owned()), ("name", name.to_owned())];
            set(&self.own.daemonset_nodes_left_out.get_or_create(&labels), *nodes);
        }
    }

    /// Sets whether this process leads. Values that only a leader has are cleared when it stops leading, because old
    /// values would look current.
    pub fn set_leading(&self, leads: bool) {
        self.own.leader.set(leads.into());
        if !leads {
            self.clear_cluster();
            self.set_withdrawn(false);
            self.own.certificates.clear();
        }
    }

    /// Clears what this process reads from the cluster.
    fn clear_cluster(&self) {
        self.set_nodes(0, 0, 0, 0);
        self.set_taint_blockers("", &[]);
        self.set_left_out(&[]);
        self.set_missed_pods(0);
        self.set_stuck_pods(None);
        self.clear_probes();
    }

    /// The API server reached an endpoint, at `now` in seconds since 1970.
    pub fn endpoint_reached(&self, endpoint: Endpoint, now: i64) {
        let labels = [("endpoint", endpoint.name())];
        self.own.webhook_reachable.get_or_create(&labels).set(1);
        self.own.webhook_last_reached_timestamp.get_or_create(&labels).set(now);
    }

    /// The API server did not reach an endpoint.
    pub fn endpoint_missed(&self, endpoint: Endpoint) {
        self.own.webhook_reachable.get_or_create(&[("endpoint", endpoint.name())]).set(0);
    }

    /// A probe of the webhook ended with `outcome`.
    pub fn probed(&self, outcome: &'static str) {
        self.own.webhook_probes.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Clears the results of probes when this process stops probing, because old results would look current.
    pub fn clear_probes(&self) {
        self.own.webhook_reachable.clear();
        self.own.webhook_last_reached_timestamp.clear();
    }

    /// An update of the ConfigMap ended.
    pub fn state_written(&self, outcome: WriteOutcome) {
        self.own.state_writes.get_or_create(&outcome).inc();
    }

    /// Sets whether `mullion withdraw` prevents the controller from changing and reading the cluster.
    pub fn set_withdrawn(&self, withdrawn: bool) {
        self.own.withdrawn.set(i64::from(withdrawn));
        if withdrawn {
            self.clear_cluster();
        }
    }

    /// A write for certificates ended.
    pub fn certificate_written(&self, object: CertificateObject, outcome: WriteOutcome) {
        self.own.certificate_writes.get_or_create(&(object, outcome)).inc();
    }

    /// Sets the validity of CA and serving certificate, in seconds since 1970.
    pub fn certificates_valid(&self, ca: Option<&Range<i64>>, serving: Option<&Range<i64>>) {
        self.own.certificates.set("ca", ca);
        self.own.certificates.set("serving", serving);
    }
}

fn set(gauge: &Gauge, number: usize) {
    gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn metrics_are_cleared_when_leading_ends() {
        let metrics = ControllerMetrics::new();
        // Without the metrics of the process, which change all the time.
        let own = || -> Vec<String> {
            metrics.encode().unwrap().lines().filter(|line| line.starts_with("mullion_")).map(str::to_owned).collect()
        };
        metrics.set_leading(false);
        let before = own();
        metrics.set_leading(true);
        metrics.set_withdrawn(true);
        metrics.set_nodes(3, 2, 1, 4);
        metrics.set_taint_blockers("t", &[(TaintBlocker::DaemonSet("shop/agent".to_owned()), 2)]);
        metrics.set_left_out(&[("shop/agent".to_owned(), 7)]);
        metrics.set_missed_pods(4);
        metrics.set_stuck_pods(Some([(Os::Linux, 0), (Os::Windows, 3)]));
        metrics.endpoint_reached(Endpoint::Mutate, 5);
        metrics.endpoint_missed(Endpoint::Validate);
        metrics.certificates_valid(Some(&(4..6)), None);
        let leading = metrics.encode().unwrap();
        for shown in [
            "leader 1",
            "nodes_waiting 2",
            r#"stuck_pods{node_os="windows"} 3"#,
            r#"taint_waits_for{kind="DaemonSet",namespace="shop",name="agent",toleration="t"} 2"#,
            r#"daemonset_nodes_left_out{namespace="shop",name="agent"} 7"#,
            "certificate=\"ca\"} 6",
            "certificate=\"ca\"} 4",
            "certificate=\"serving\"} 0",
        ] {
            assert!(leading.contains(shown), "{shown}: {leading}");
        }
        metrics.set_leading(false);
        assert_eq!(own(), before);
    }

    #[test]
    fn only_present_blockers_are_named() {
        let (metrics, all) = (ControllerMetrics::new(), |names: &[&str]| {
            names.iter().map(|name| (TaintBlocker::Pod(format!("shop/{name}")), 1)).collect::<Vec<_>>()
        });
        let named = || {
            let text = metrics.encode().unwrap();
            text.lines().filter(|line| line.starts_with("mullion_taint_waits_for{")).count()
        };
        metrics.set_taint_blockers("t", &all(&["a", "b"]));
        assert_eq!(named(), 2);
        metrics.set_taint_blockers("t", &all(&["b", "c", "d"]));
        metrics.set_taint_blockers("t", &[(TaintBlocker::Unknown("the list of pods"), 1)]);
        assert_eq!(named(), 0);
    }

    #[test]
    fn metrics_are_cleared_when_mullion_is_withdrawn() {
        let metrics = ControllerMetrics::new();
        metrics.set_leading(true);
        metrics.set_nodes(3, 2, 1, 4);
        metrics.set_missed_pods(4);
        metrics.endpoint_missed(Endpoint::Validate);
        metrics.set_withdrawn(true);
        let text = metrics.encode().unwrap();
        for shown in ["leader 1", "withdrawn 1", "nodes_waiting 0", "nodes_contested 0", "missed_pods 0"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
        assert!(!text.contains("webhook_reachable{"), "{text}");
    }
}
