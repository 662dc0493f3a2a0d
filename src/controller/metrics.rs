//! The controller's metrics. Names stand here and nowhere else; no label carries the name of a node.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Every metric of one controller. Clones share the numbers.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    node_patches: Family<OutcomeLabels, Counter>,
    class_writes: Family<OutcomeLabels, Counter>,
    windows_nodes: Gauge,
    waiting: Gauge,
    policy_errors: Gauge,
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: Outcome,
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
    /// All at zero.
    pub fn new() -> Self {
        let mut inner = Inner {
            registry: Registry::with_prefix("mullion"),
            node_patches: Family::default(),
            class_writes: Family::default(),
            windows_nodes: Gauge::default(),
            waiting: Gauge::default(),
            policy_errors: Gauge::default(),
        };
        let r = &mut inner.registry;
        r.register("node_patches", "Patches of nodes, by how they ended", inner.node_patches.clone());
        r.register("runtime_class_writes", "Writes of RuntimeClasses, by how they ended", inner.class_writes.clone());
        r.register("windows_nodes", "Windows nodes, virtual ones included", inner.windows_nodes.clone());
        r.register("nodes_waiting", "Nodes whose taint waits for pods that do not tolerate it", inner.waiting.clone());
        r.register("policy_load_errors", "Problems in the policy files as they are now", inner.policy_errors.clone());
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

    /// How many Windows nodes there are, and how many of them wait for their taint.
    pub fn nodes(&self, windows: usize, waiting: usize) {
        self.0.windows_nodes.set(i64::try_from(windows).unwrap_or(i64::MAX));
        self.0.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// How many problems the policy files have now.
    pub fn policy_errors(&self, problems: usize) {
        self.0.policy_errors.set(i64::try_from(problems).unwrap_or(i64::MAX));
    }
}
