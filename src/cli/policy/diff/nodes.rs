//! Differences between the labels and taints of a node under the old and the new policies.

use std::collections::BTreeSet;

use mullion_engine::model::Os;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::settings::{NodeSettings, policy_taint};
use mullion_engine::node::{NodeFacts, facts, plan_node};

use crate::report::policy_diff::NodeDifference;

/// The differences on `node` after the controller has handled it under each policy, if nothing blocks the taint.
pub(crate) fn compare(node: &NodeFacts, old: &NodeSettings, new: &NodeSettings) -> Option<NodeDifference> {
    if facts::os(&node.labels) != Some(Os::Windows) {
        return None;
    }
    // Each policy removes what the other one has set.
    let own_taints = BTreeSet::from([old, new].map(policy_taint));
    let after = |policy| {
        let patch = plan_node(node, policy, &own_taints, &[], 0).patch;
        lines(&patch.map_or_else(|| node.clone(), |patch| patch.apply(node)))
    };
    let (old, new) = (after(old), after(new));
    let removed = old.iter().filter(|line| !new.contains(line)).map(|line| format!("- {line}"));
    let added = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {line}"));
    let lines: Vec<String> = removed.chain(added).collect();
    (!lines.is_empty()).then(|| NodeDifference { name: node.name.clone(), lines })
}

fn lines(node: &NodeFacts) -> Vec<String> {
    let labels = node.labels.iter().map(|(key, value)| format!("label {key}={value}"));
    let taints = node.taints.iter().filter_map(Taint::from_json).map(|taint| format!("taint {taint}"));
    labels.chain(taints).collect()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_engine::model::settings::NODE_KEYS;
    use mullion_policy::PolicySet;
    use mullion_snapshot::facts_from_json;
    use serde_json::json;

    use super::*;

    /// Another value for every key.
    const OTHER: &str = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec:\n  \
        mode: Disabled\n  labels: []\n  taint: {key: team}\n  windowsTaints: ['pool=win*']\n  linuxTaints: ['pool=lin*']\n  \
        runtimeClasses: {mode: Never}\n  expectedPools: [{build: 10.0.26100}]\n  \
        releases: [{build: 10.0.29000, name: ltsc2028, runsFrom: 10.0.26100}]\n";

    /// The report shows a differing key as a cause if its row decides a part of a node.
    #[test]
    fn rows_mark_the_keys_that_decide_labels_and_taint() {
        let node = facts_from_json(&json!({"kind": "Node",
            "metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows"}},
            "spec": {"taints": [{"key": "pool", "value": "win1", "effect": "NoSchedule"}]},
            "status": {"nodeInfo": {"kernelVersion": "10.0.29000.1"}}}))
        .unwrap();
        let old = NodeSettings::default();
        let new = PolicySet::from_files(&[("a.yaml", OTHER)]).unwrap().nodes;
        for key in NODE_KEYS {
            assert_ne!((key.value)(&old), (key.value)(&new), "{}", key.name);
            let mut only = old.clone();
            (key.take)(&mut only, &new);
            let differs = compare(&node, &old, &only).is_some();
            assert_eq!(differs, !key.row.decides.is_empty(), "{}", key.name);
        }
    }
}
