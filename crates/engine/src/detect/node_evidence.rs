//! Evidence from nodes: the operating system of the node that a pod is bound to.

use crate::detect::input::DetectionInput;
use crate::model::cluster::{ClusterSnapshot, Nodes};
use crate::model::pod_view::Pod;
use crate::model::scheduling::node_constraints;
use crate::model::{Basis, Evidence, EvidenceOs, EvidenceSource, Os, OsDecision};

/// The evidence of the node that the pod is bound to by name, if the node is known.
pub(crate) fn bound_node(pod: &Pod<'_>, snapshot: &ClusterSnapshot) -> Option<Evidence> {
    let name = pod.text("/spec/nodeName")?;
    let os = snapshot.nodes.as_ref().and_then(|nodes| nodes.get(name)).and_then(|node| node.os)?;
    Some(Evidence { os: EvidenceOs::Os(os), source: EvidenceSource::Node(name.to_owned()) })
}

pub(crate) fn decide_by_node(input: &DetectionInput<'_>) -> Option<OsDecision> {
    let evidence = bound_node(&input.pod, input.snapshot).or_else(|| {
        let name = node_constraints::affinity_node_name(&input.pod)?;
        let os = node_os(input.snapshot.nodes.as_ref(), name)?;
        Some(Evidence { os: EvidenceOs::Os(os), source: EvidenceSource::Node(name.to_owned()) })
    })?;
    let EvidenceOs::Os(os) = evidence.os else { return None };
    Some(OsDecision::os(os, Basis::Place, vec![evidence]))
}

fn node_os(nodes: Option<&Nodes>, name: &str) -> Option<Os> {
    nodes.and_then(|nodes| nodes.get(name)).and_then(|node| node.os)
}

/// The OS of the node a pod is bound to, by `nodeName` or by a DaemonSet's affinity, regardless of other evidence.
pub(crate) fn place_of(pod: &Pod<'_>, snapshot: &ClusterSnapshot) -> Option<Os> {
    let name = pod.text("/spec/nodeName").or_else(|| node_constraints::affinity_node_name(pod))?;
    node_os(snapshot.nodes.as_ref(), name)
}
