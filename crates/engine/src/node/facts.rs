//! The facts that a plan reads from a node: labels, operating system, build, and whether it is a virtual node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::Os;
use crate::model::cluster::Taint;
use crate::model::names::{OS_LABELS, VIRTUAL_TAINTS, WINDOWS_BUILD_LABEL};
use crate::model::windows::Build;
use crate::node::managed::is_managed_label;

/// Labels that only virtual-kubelet nodes have, with their value. Their pods run in another system (a serverless
/// service, another cluster), so the taints and builds of such a node reveal nothing about the machines of this
/// cluster.
const VIRTUAL_LABELS: [(&str, &str); 2] = [
    // Set by virtual-kubelet itself, for every provider (ACI, ECI, tensile-kube).
    ("type", "virtual-kubelet"),
    // liqo sets its own label instead.
    ("liqo.io/type", "virtual-node"),
];

/// The facts of a node that a plan reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`; for a plan, only those for which [`plan_reads_label`] is true.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`; only `OWNED_ANNOTATION` is read.
    pub annotations: BTreeMap<String, String>,
    /// `spec.taints`, raw and in order: members unknown here (`timeAdded`) must survive.
    pub taints: Vec<Value>,
    /// `status.nodeInfo.kernelVersion`.
    pub kernel_version: String,
}

/// Whether a plan depends on the label with that key. Other labels need not be stored twice in memory.
pub fn plan_reads_label(label: &str) -> bool {
    OS_LABELS.contains(&label) || is_managed_label(label) || VIRTUAL_LABELS.iter().any(|(key, _)| *key == label)
}

/// The OS in a node's labels.
pub fn os(labels: &BTreeMap<String, String>) -> Option<Os> {
    OS_LABELS.iter().find_map(|key| labels.get(*key)).and_then(|name| Os::from_name(name))
}

/// The build of a Windows node: from the label, else from the kernel version.
pub fn build(labels: &BTreeMap<String, String>, kernel_version: &str) -> Option<Build> {
    let label = labels.get(WINDOWS_BUILD_LABEL).and_then(|label| Build::from_label(label));
    let kernel = || Build::from_kernel_version(kernel_version).map(|(build, _)| build);
    label.or_else(kernel).filter(|_| os(labels) == Some(Os::Windows))
}

/// Whether pods of this node run elsewhere: the node is a virtual kubelet.
pub fn is_virtual(labels: &BTreeMap<String, String>, taints: &[Value]) -> bool {
    let key = |taint: &Value| taint.get("key").and_then(Value::as_str).is_some_and(|key| VIRTUAL_TAINTS.contains(&key));
    VIRTUAL_LABELS.iter().any(|(key, value)| labels.get(*key).is_some_and(|have| have == value))
        || taints.iter().any(key)
}

impl NodeFacts {
    /// Whether the node has that taint.
    pub(crate) fn has_taint(&self, taint: &Taint) -> bool {
        self.taints.iter().any(|raw| Taint::from_json(raw).as_ref() == Some(taint))
    }
}

/// Whether plans may change the node: it runs Windows, and is no virtual kubelet.
pub fn is_windows_node(node: &NodeFacts) -> bool {
    os(&node.labels) == Some(Os::Windows) && !is_virtual(&node.labels, &node.taints)
}
