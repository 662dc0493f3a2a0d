//! The controller's metrics. Names stand here and nowhere else; no label carries the name of a node.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use mullion_engine::admission::response::Endpoint;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::policy_files::report::PolicyReporter;
use crate::telemetry::certificate_validity::CertificateTimes;
use crate::telemetry::process::registry;
use crate::telemetry::watch_health;

/// Every metric of one controller. Clones share the numbers.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    node_patches: Family<OutcomeLabels, Counter>,
    class_writes: Family<OutcomeLabels, Counter>,
    pod_patches: Family<OutcomeLabels, Counter>,
    missed_pods: Gauge,
    windows_nodes: Gauge,
    waiting: Gauge,
    contested: Gauge,
    withheld: Gauge,
    leader: Gauge,
    webhook_reachable: Family<EndpointLabels, Gauge>,
    webhook_reached: Family<EndpointLabels, Gauge>,
    probes: Family<ProbeLabels, Counter>,
    state_writes: Family<OutcomeLabels, Counter>,
    withdrawn: Gauge,
    certificate_writes: Family<CertificateWriteLabels, Counter>,
    certificates: CertificateTimes,
}

/// How one write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Written.
    Done,
    /// Somebody was faster (409); computed again.
    Conflict,
    /// The object is gone (404).
    Gone,
    /// Refused, or no answer; tried again later.
    Failed,
}

/// What was written for the webhook's certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CertificateObject {
    /// Secret `mullion-ca`.
    Ca,
    /// Secret `mullion-tls`.
    Serving,
    /// The bundles of one webhook configuration.
    Bundle,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateWriteLabels {
    object: &'static str,
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    endpoint: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProbeLabels {
    outcome: &'static str,
}

impl Outcome {
    /// Of a write that was answered so.
    pub(crate) fn of<T>(answer: &kube::Result<T>) -> Self {
        match answer {
            Ok(_) => Self::Done,
            Err(kube::Error::Api(status)) if status.code == 409 => Self::Conflict,
            Err(kube::Error::Api(status)) if status.code == 404 => Self::Gone,
            Err(_) => Self::Failed,
        }
    }
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let name = match self {
            Self::Done => "done",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Failed => "failed",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero, of a process without policy files.
    pub fn new() -> Self {
        Self::about(&PolicyReporter::default())
    }

    /// All at zero, with those of the policy files.
    pub fn about(policies: &PolicyReporter) -> Self {
        let mut inner = Inner {
            registry: Registry::default(),
            node_patches: Family::default(),
            class_writes: Family::default(),
            pod_patches: Family::default(),
            missed_pods: Gauge::default(),
            windows_nodes: Gauge::default(),
            waiting: Gauge::default(),
            contested: Gauge::default(),
            withheld: Gauge::default(),
            leader: Gauge::default(),
            webhook_reachable: Family::default(),
            webhook_reached: Family::default(),
            probes: Family::default(),
            state_writes: Family::default(),
            withdrawn: Gauge::default(),
            certificate_writes: Family::default(),
            certificates: CertificateTimes::default(),
        };
        inner.registry = registry(|own| {
            inner.register(own);
            own.register_collector(Box::new(policies.clone()));
        });
        Self(Arc::new(inner))
    }

    /// The text of `/metrics`.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0.registry)?;
        Ok(text)
    }

    /// A patch of a node ended.
    pub fn node_patched(&self, outcome: Outcome) {
        self.0.node_patches.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// A write of a RuntimeClass ended.
    pub fn class_written(&self, outcome: Outcome) {
        self.0.class_writes.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// A patch of a pod's tolerations ended.
    pub fn pod_patched(&self, outcome: Outcome) {
        self.0.pod_patches.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// How many pods Mullion did not see in time and cannot help any more.
    pub fn missed_pods(&self, pods: usize) {
        self.0.missed_pods.set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    /// How many Windows nodes there are, how many of them wait for their taint, on how many somebody undoes things, and
    /// how many are only told what they would get.
    pub fn nodes(&self, windows: usize, waiting: usize, contested: usize, withheld: usize) {
        self.0.windows_nodes.set(i64::try_from(windows).unwrap_or(i64::MAX));
        self.0.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.0.contested.set(i64::try_from(contested).unwrap_or(i64::MAX));
        self.0.withheld.set(i64::try_from(withheld).unwrap_or(i64::MAX));
    }

    /// Whether this process leads. What only a leader knows is taken away from one that does not: it would only look new.
    pub fn leading(&self, leads: bool) {
        self.0.leader.set(leads.into());
        if !leads {
            self.nobody_looks();
            self.withdrawn(false);
            self.0.certificates.clear();
        }
    }

    /// Nobody here looks after the cluster any more: what was seen last would only look new.
    fn nobody_looks(&self) {
        self.nodes(0, 0, 0, 0);
        self.missed_pods(0);
        self.no_more_probes();
    }

    /// The API server reached a endpoint, at `now` in seconds since 1970.
    pub fn endpoint_reached(&self, endpoint: Endpoint, now: i64) {
        let labels = EndpointLabels { endpoint: endpoint.name() };
        self.0.webhook_reachable.get_or_create(&labels).set(1);
        self.0.webhook_reached.get_or_create(&labels).set(now);
    }

    /// The API server did not reach a endpoint.
    pub fn endpoint_missed(&self, endpoint: Endpoint) {
        self.0.webhook_reachable.get_or_create(&EndpointLabels { endpoint: endpoint.name() }).set(0);
    }

    /// A probe of the webhook showed `outcome`.
    pub fn probed(&self, outcome: &'static str) {
        self.0.probes.get_or_create(&ProbeLabels { outcome }).inc();
    }

    /// Nobody probes here any more: what was seen would only look new.
    pub fn no_more_probes(&self) {
        self.0.webhook_reachable.clear();
        self.0.webhook_reached.clear();
    }

    /// An update of the ConfigMap ended.
    pub fn state_written(&self, outcome: Outcome) {
        self.0.state_writes.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Whether `mullion withdraw` keeps the controller from changing anything, and from looking at anything.
    pub fn withdrawn(&self, withdrawn: bool) {
        self.0.withdrawn.set(i64::from(withdrawn));
        if withdrawn {
            self.nobody_looks();
        }
    }

    /// A write for certificates ended.
    pub fn certificate_written(&self, object: CertificateObject, outcome: Outcome) {
        let object = match object {
            CertificateObject::Ca => "ca",
            CertificateObject::Serving => "serving",
            CertificateObject::Bundle => "bundle",
        };
        self.0.certificate_writes.get_or_create(&CertificateWriteLabels { object, outcome }).inc();
    }

    /// From when to when CA and serving certificate are valid, in seconds since 1970.
    pub fn certificates_valid(&self, ca: Option<&Range<i64>>, serving: Option<&Range<i64>>) {
        self.0.certificates.set("ca", ca);
        self.0.certificates.set("serving", serving);
    }
}

impl Inner {
    fn register(&self, r: &mut Registry) {
        r.register("node_patches", "Patches of nodes, by how they ended", self.node_patches.clone());
        r.register("runtime_class_writes", "Writes of RuntimeClasses, by how they ended", self.class_writes.clone());
        r.register(
            "pod_patches",
            "Patches of pods that lacked tolerations, by how they ended",
            self.pod_patches.clone(),
        );
        r.register(
            "missed_pods",
            "Pods created without Mullion that cannot be helped any more",
            self.missed_pods.clone(),
        );
        r.register("windows_nodes", "Windows nodes, virtual ones included", self.windows_nodes.clone());
        r.register("nodes_waiting", "Nodes whose taint waits for pods that do not tolerate it", self.waiting.clone());
        let help = "Nodes of which something is left alone because somebody undoes it";
        r.register("nodes_contested", help, self.contested.clone());
        let help = "Nodes that would be changed, were it not for mode Audit in the NodePolicy";
        r.register("nodes_withheld", help, self.withheld.clone());
        r.register(
            "leader",
            "1 while this process holds the lease and works, 0 while it stands by",
            self.leader.clone(),
        );
        let help = "Whether the API server reached the webhook when it was last seen: 1 or 0";
        r.register("webhook_reachable", help, self.webhook_reachable.clone());
        let help = "When the API server was last seen to reach the webhook, in seconds since 1970";
        r.register("webhook_last_reached_timestamp", help, self.webhook_reached.clone());
        r.register("webhook_probes", "Probes of the webhook, by what they showed", self.probes.clone());
        r.register("state_writes", "Updates of ConfigMap mullion-state, by how they ended", self.state_writes.clone());
        r.register("withdrawn", "1 while mullion withdraw keeps it from changing anything", self.withdrawn.clone());
        let help = "Writes of certificates and of what trusts them, by how they ended";
        r.register("certificate_writes", help, self.certificate_writes.clone());
        self.certificates.register(r);
        watch_health::register(r);
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn who_leads_no_more_shows_nothing_that_grows_old() {
        let metrics = Metrics::new();
        // Without what the process takes, which never stands still.
        let own = || -> Vec<String> {
            metrics.encode().unwrap().lines().filter(|line| line.starts_with("mullion_")).map(str::to_owned).collect()
        };
        metrics.leading(false);
        let standing_by = own();
        metrics.leading(true);
        metrics.withdrawn(true);
        metrics.nodes(3, 2, 1, 4);
        metrics.missed_pods(4);
        metrics.endpoint_reached(Endpoint::Mutate, 5);
        metrics.endpoint_missed(Endpoint::Validate);
        metrics.certificates_valid(Some(&(4..6)), None);
        let leading = metrics.encode().unwrap();
        for shown in [
            "leader 1",
            "nodes_waiting 2",
            "certificate=\"ca\"} 6",
            "certificate=\"ca\"} 4",
            "certificate=\"serving\"} 0",
        ] {
            assert!(leading.contains(shown), "{shown}: {leading}");
        }
        metrics.leading(false);
        assert_eq!(own(), standing_by);
    }

    #[test]
    fn who_is_withdrawn_shows_nothing_that_grows_old() {
        let metrics = Metrics::new();
        metrics.leading(true);
        metrics.nodes(3, 2, 1, 4);
        metrics.missed_pods(4);
        metrics.endpoint_missed(Endpoint::Validate);
        metrics.withdrawn(true);
        let text = metrics.encode().unwrap();
        for shown in ["leader 1", "withdrawn 1", "nodes_waiting 0", "nodes_contested 0", "missed_pods 0"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
        assert!(!text.contains("webhook_reachable{"), "{text}");
    }
}
