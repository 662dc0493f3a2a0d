//! Nodes that two policies treat differently, from what they are now.

use crate::engine::node::{self, NodeFacts, Trust, plan_node};
use crate::engine::world::Os;
use crate::policy::NodePolicy;

/// One node that would be labelled or tainted differently.
pub(super) struct NodeDifference {
    pub(super) name: String,
    /// `- taint os=windows:NoSchedule`, `+ label …`: as it would stay under the one, and under the other.
    pub(super) lines: Vec<String>,
}

/// What differs on `node` once the controller has been there under each, and nobody stands in the way of the taint.
pub(super) fn compare(node: &NodeFacts, old: &NodePolicy, new: &NodePolicy) -> Option<NodeDifference> {
    if node::os(&node.labels) != Some(Os::Windows) {
        return None;
    }
    // What one set has put there, the other takes off.
    let trust = Trust { policies: vec![old.clone(), new.clone()], ..Trust::default() };
    let after = |policy| {
        let patch = plan_node(node, policy, &trust, &[], 0).patch;
        lines(&patch.map_or_else(|| node.clone(), |patch| patch.apply(node)))
    };
    let (old, new) = (after(old), after(new));
    let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("- {line}"));
    let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {line}"));
    let lines: Vec<String> = gone.chain(come).collect();
    (!lines.is_empty()).then(|| NodeDifference { name: node.name.clone(), lines })
}

fn lines(node: &NodeFacts) -> Vec<String> {
    let labels = node.labels.iter().map(|(key, value)| format!("label {key}={value}"));
    let taints = node.taints.iter().filter_map(node::taint).map(|taint| format!("taint {taint}"));
    labels.chain(taints).collect()
}
