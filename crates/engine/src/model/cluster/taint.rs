//! A taint of a node.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::cluster::fact::Unusable;

/// The most taints of a node that are used. EKS accepts 50 for a node group, the highest number of a provider's API, and
/// controllers add a few.
const NODE_TAINTS: usize = 128;
/// Their size, in bytes: so many of the longest that the API server accepts, with 317 bytes of key, 63 of value and 16 of
/// effect.
const NODE_TAINTS_SIZE: usize = NODE_TAINTS * (317 + 63 + 16);

/// Prefixes of the keys of taints that come and go with a node's state. A DaemonSet that does not tolerate them belongs
/// on the node anyway.
const PASSING: [&str; 9] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cluster.x-k8s.io/",
    // cluster-autoscaler/utils/taints/taints.go of kubernetes/autoscaler
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    // `unregistered`, `disrupted`: pkg/apis/v1/taints.go of kubernetes-sigs/karpenter
    "karpenter.sh/",
];

/// Suffix of the keys of taints that network and storage drivers remove once they run:
/// `node.cilium.io/agent-not-ready`, `ebs.csi.aws.com/agent-not-ready`.
const STARTING: &str = "/agent-not-ready";

/// A node's taint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the Kubernetes fields of these names")]
pub struct Taint {
    pub key: String,
    #[serde(default)]
    pub value: String,
    pub effect: String,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect)
    }
}

impl Taint {
    /// Whether the taint describes the node's state and not its purpose.
    pub fn describes_state(&self) -> bool {
        let passing = PASSING.iter().any(|passing| self.key.starts_with(passing)) || self.key.ends_with(STARTING);
        passing && self.key != "node.kubernetes.io/os"
    }

    /// Reads a taint of a node spec: the three members that scheduling reads. `None` without a key.
    pub fn from_json(raw: &Value) -> Option<Self> {
        let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let taint = Self { key: text("key"), value: text("value"), effect: text("effect") };
        (!taint.key.is_empty()).then_some(taint)
    }

    /// The bytes of its texts.
    pub(crate) fn size(&self) -> usize {
        self.key.len() + self.value.len() + self.effect.len()
    }

    /// Reads all taints of a node spec; those without a key are skipped.
    pub fn all_from_json(raw: &[Value]) -> Result<Vec<Self>, Unusable> {
        Unusable::check(raw.len(), NODE_TAINTS, "taint")?;
        let texts = |raw: &Value| -> usize {
            ["key", "value", "effect"].iter().filter_map(|key| raw.get(key)?.as_str()).map(str::len).sum()
        };
        Unusable::check(raw.iter().map(texts).sum(), NODE_TAINTS_SIZE, "byte")?;
        Ok(raw.iter().filter_map(Self::from_json).collect())
    }

    /// Reads `key=value:Effect`, `key:Effect`; `None` without an effect Kubernetes knows.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, effect) = text.rsplit_once(':')?;
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let known = matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute");
        (known && !key.is_empty()).then(|| Self {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        })
    }
}
