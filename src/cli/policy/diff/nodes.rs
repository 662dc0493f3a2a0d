//! Nodes that two policies treat differently, from what they are now.

use mullion_engine::model::cluster::taint::Taint;
use mullion_engine::model::operating_system::Os;
use mullion_engine::model::settings::node_settings::NodeSettings;
use mullion_engine::node::facts;
use mullion_engine::node::facts::NodeFacts;
use mullion_engine::node::node_patch::Trust;
use mullion_engine::node::plan::plan_node;

/// One node that would be labelled or tainted differently.
pub(crate) struct NodeDifference {
    pub(crate) name: String,
    /// `- taint os=windows:NoSchedule`, `+ label …`: as it would stay under the one, and under the other.
    pub(crate) lines: Vec<String>,
}

/// What differs on `node` once the controller has been there under each, and nobody stands in the way of the taint.
pub(crate) fn compare(node: &NodeFacts, old: &NodeSettings, new: &NodeSettings) -> Option<NodeDifference> {
    if facts::os(&node.labels) != Some(Os::Windows) {
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
    let taints = node.taints.iter().filter_map(Taint::from_json).map(|taint| format!("taint {taint}"));
    labels.chain(taints).collect()
}
