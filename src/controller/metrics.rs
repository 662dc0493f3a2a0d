//! The controller's metrics. Their names are only in this file. No label contains the name of a node, and a few contain
//! the name of a workload.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use mullion_engine::admission::Endpoint;
use mullion_engine::node::TaintBlocker;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::policy_files::PolicyReporter;
use crate::telemetry::{
    CertificateTimes, MetricLabels, label_values, registered, registry, unreadable_objects, watch_health,
};

/// Every metric of one controller. Clones share the numbers.
#[derive(Clone)]
pub struct ControllerMetrics(Arc<Inner>, Arc<Registry>);

struct Inner {
    node_patches: Family<MetricLabels<1>, Counter>,
    class_writes: Family<MetricLabels<1>, Counter>,
    pod_patches: Family<MetricLabels<1>, Counter>,
    missed_pods: Gauge,
    windows_nodes: Gauge,
    waiting: Gauge,
    waits_for: Family<BlockerLabels, Gauge>,
    named: Mutex<BTreeSet<BlockerLabels>>,
    left_out: Family<DaemonSetLabels, Gauge>,
    contested: Gauge,
    withheld: Gauge,
    leader: Gauge,
    webhook_reachable: Family<MetricLabels<1>, Gauge>,
    webhook_reached: Family<MetricLabels<1>, Gauge>,
    probes: Family<MetricLabels<1>, Counter>,
    state_writes: Family<MetricLabels<1>, Counter>,
    withdrawn: Gauge,
    certificate_writes: Family<MetricLabels<2>, Counter>,
    certificates: CertificateTimes,
}

/// Kind, namespace and name of a workload for which taints wait, and the toleration that is missing in it.
type BlockerLabels = [(&'static str, String); 4];

/// Namespace and name of a DaemonSet.
type DaemonSetLabels = [(&'static str, String); 2];

label_values! {
    /// The result of one write.
    pub enum WriteOutcome {
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
    pub enum CertificateObject {
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

    fn label(self) -> (&'static str, &'static str) {
        ("outcome", self.name())
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
        let (registry, inner) = registry(|own| {
            let inner = Inner::register(own);
            own.register_collector(Box::new(policies.clone()));
            inner
        });
        Self(Arc::new(inner), Arc::new(registry))
    }

    /// The text of `/metrics`.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.1)?;
        Ok(text)
    }

    /// A patch of a node ended.
    pub fn node_patched(&self, outcome: WriteOutcome) {
        self.0.node_patches.get_or_create(&[outcome.label()]).inc();
    }

    /// A write of a RuntimeClass ended.
    pub fn class_written(&self, outcome: WriteOutcome) {
        self.0.class_writes.get_or_create(&[outcome.label()]).inc();
    }

    /// A patch of a pod's tolerations ended.
    pub fn pod_patched(&self, outcome: WriteOutcome) {
        self.0.pod_patches.get_or_create(&[outcome.label()]).inc();
    }

    /// Sets the number of pods that were created without Mullion and can no longer be repaired.
    pub fn set_missed_pods(&self, pods: usize) {
        set(&self.0.missed_pods, pods);
    }

    /// Sets the number of Windows nodes, and of those that wait for their taint, on which someone undoes changes, and
    /// for which `mode: Audit` withholds a change.
    pub fn set_nodes(&self, windows: usize, waiting: usize, contested: usize, withheld: usize) {
        set(&self.0.windows_nodes, windows);
        set(&self.0.waiting, waiting);
        set(&self.0.contested, contested);
        set(&self.0.withheld, withheld);
    }

    /// Sets the workloads for which taints wait, each with the number of nodes, and the toleration that ends the wait.
    pub fn set_taint_blockers(&self, toleration: &str, blockers: &[(TaintBlocker, usize)]) {
        let mut named = self.0.named.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *named);
        for (blocker, nodes) in blockers {
            let Some((kind, namespace, name)) = blocker.object() else { continue };
            let labels = [("kind", kind), ("namespace", namespace), ("name", name), ("toleration", toleration)];
            let labels = labels.map(|(label, value)| (label, value.to_owned()));
            set(&self.0.waits_for.get_or_create(&labels), *nodes);
            named.insert(labels);
        }
        for labels in before.difference(&named) {
            self.0.waits_for.remove(labels);
        }
    }

    /// Sets how many nodes each of these DaemonSets (`namespace/name`) leaves out.
    pub fn set_left_out(&self, counts: &[(String, usize)]) {
        self.0.left_out.clear();
        for (name, nodes) in counts {
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            let labels = [("namespace", namespace.to_owned()), ("name", name.to_owned())];
            set(&self.0.left_out.get_or_create(&labels), *nodes);
        }
    }

    /// Sets whether this process leads. Values that only a leader has are cleared when it stops leading, because old
    /// values would look current.
    pub fn set_leading(&self, leads: bool) {
        self.0.leader.set(leads.into());
        if !leads {
            self.clear_cluster();
            self.set_withdrawn(false);
            self.0.certificates.clear();
        }
    }

    /// Clears what this process reads from the cluster.
    fn clear_cluster(&self) {
        self.set_nodes(0, 0, 0, 0);
        self.set_taint_blockers("", &[]);
        self.set_left_out(&[]);
        self.set_missed_pods(0);
        self.clear_probes();
    }

    /// The API server reached an endpoint, at `now` in seconds since 1970.
    pub fn endpoint_reached(&self, endpoint: Endpoint, now: i64) {
        let labels = [("endpoint", endpoint.name())];
        self.0.webhook_reachable.get_or_create(&labels).set(1);
        self.0.webhook_reached.get_or_create(&labels).set(now);
    }

    /// The API server did not reach an endpoint.
    pub fn endpoint_missed(&self, endpoint: Endpoint) {
        self.0.webhook_reachable.get_or_create(&[("endpoint", endpoint.name())]).set(0);
    }

    /// A probe of the webhook ended with `outcome`.
    pub fn probed(&self, outcome: &'static str) {
        self.0.probes.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Clears the results of probes when this process stops probing, because old results would look current.
    pub fn clear_probes(&self) {
        self.0.webhook_reachable.clear();
        self.0.webhook_reached.clear();
    }

    /// An update of the ConfigMap ended.
    pub fn state_written(&self, outcome: WriteOutcome) {
        self.0.state_writes.get_or_create(&[outcome.label()]).inc();
    }

    /// Sets whether `mullion withdraw` prevents the controller from changing and reading the cluster.
    pub fn set_withdrawn(&self, withdrawn: bool) {
        self.0.withdrawn.set(i64::from(withdrawn));
        if withdrawn {
            self.clear_cluster();
        }
    }

    /// A write for certificates ended.
    pub fn certificate_written(&self, object: CertificateObject, outcome: WriteOutcome) {
        self.0.certificate_writes.get_or_create(&[("object", object.name()), outcome.label()]).inc();
    }

    /// Sets the validity of CA and serving certificate, in seconds since 1970.
    pub fn certificates_valid(&self, ca: Option<&Range<i64>>, serving: Option<&Range<i64>>) {
        self.0.certificates.set("ca", ca);
        self.0.certificates.set("serving", serving);
    }
}

fn set(gauge: &Gauge, number: usize) {
    gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
}

impl Inner {
    fn register(r: &mut Registry) -> Self {
        let inner = Self {
            node_patches: registered(r, "node_patches", "Patches of nodes, by outcome"),
            class_writes: registered(r, "runtime_class_writes", "Writes of RuntimeClasses, by outcome"),
            pod_patches: registered(r, "pod_patches", "Patches of pods that lacked tolerations, by outcome"),
            missed_pods: registered(r, "missed_pods", "Pods created without Mullion that must be created again"),
            windows_nodes: registered(r, "windows_nodes", "Windows nodes, virtual ones included"),
            waiting: registered(r, "nodes_waiting", "Nodes whose taint waits for pods that do not tolerate it"),
            waits_for: registered(
                r,
                "taint_waits_for",
                "Nodes whose taint waits for this DaemonSet or pod; the 20 that taints have waited for longest",
            ),
            named: Mutex::default(),
            left_out: registered(
                r,
                "daemonset_nodes_left_out",
                "Windows nodes that cannot run the images of this DaemonSet; the 20 DaemonSets with most such nodes",
            ),
            contested: registered(r, "nodes_contested", "Nodes on which someone undoes a change repeatedly"),
            withheld: registered(
                r,
                "nodes_withheld",
                "Nodes that mode Enforce in the NodePolicy would change, and mode Audit does not",
            ),
            leader: registered(r, "leader", "1 while this process holds the lease and leads, otherwise 0"),
            webhook_reachable: registered(
                r,
                "webhook_reachable",
                "Whether the API server reached the webhook in the last probe: 1 or 0",
            ),
            webhook_reached: registered(
                r,
                "webhook_last_reached_timestamp",
                "When the API server last reached the webhook in a probe, in seconds since 1970",
            ),
            probes: registered(r, "webhook_probes", "Probes of the webhook, by outcome"),
            state_writes: registered(r, "state_writes", "Updates of ConfigMap mullion-state, by outcome"),
            withdrawn: registered(
                r,
                "withdrawn",
                "1 while mullion withdraw keeps the controller from changing the cluster",
            ),
            certificate_writes: registered(
                r,
                "certificate_writes",
                "Writes of certificates and of CA bundles, by outcome",
            ),
            certificates: CertificateTimes::default(),
        };
        inner.certificates.register(r);
        watch_health::register(r);
        unreadable_objects::register(r);
        inner
    }
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
        metrics.endpoint_reached(Endpoint::Mutate, 5);
        metrics.endpoint_missed(Endpoint::Validate);
        metrics.certificates_valid(Some(&(4..6)), None);
        let leading = metrics.encode().unwrap();
        for shown in [
            "leader 1",
            "nodes_waiting 2",
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
