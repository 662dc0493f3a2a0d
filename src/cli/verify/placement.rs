//! Where a stored pod can land: its selector, affinity and tolerations compared with all nodes. Pure, so that one dry run
//! says something about every node of a large cluster.

use mullion_engine::model::cluster::Taint;
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::settings::NodeSettings;
use mullion_engine::model::settings::node_settings::marks_windows;
use mullion_engine::model::text::{list_first, shorten};
use serde::Deserialize;
use serde_json::Value;

use crate::cli::verify::fleet::FleetNode;

/// The most names in a sentence.
const NAMES: usize = 5;
/// The longest name of a node in a sentence, in characters. A name has at most 253.
const MAX_NAME: usize = 63;

/// Where a pod can land.
#[derive(Debug, Default)]
pub(super) struct PossibleNodes<'f> {
    /// Nodes that run the pod, and get it.
    pub(super) candidates: Vec<&'f FleetNode>,
    /// Nodes that cannot run the pod, and could get it.
    pub(super) wrong: Vec<&'f FleetNode>,
    /// Nodes that run the pod, and which its selector, its affinity or a taint of an operating system excludes.
    pub(super) excluded: Vec<(&'f FleetNode, String)>,
    /// Nodes that run the pod and take no new one now, for a reason that has nothing to do with operating systems.
    pub(super) closed: Vec<(&'f FleetNode, String)>,
}

/// Compares a pod spec with nodes. `runs`: whether a node runs the pod.
pub(super) fn possible_nodes<'f>(
    spec: &Value,
    nodes: &'f [FleetNode],
    policy: &NodeSettings,
    runs: impl Fn(&FleetNode) -> bool,
) -> PossibleNodes<'f> {
    let mut found = PossibleNodes::default();
    let Ok(constraints) = SchedulingConstraints::deserialize(spec) else { return found };
    for node in nodes {
        let fits = constraints.fits(&node.name, |key| node.labels.get(key).map(String::as_str));
        let taint = repelling(&constraints, node);
        match (runs(node), fits, taint) {
            (false, true, None) => found.wrong.push(node),
            (false, _, _) => {}
            (true, false, _) => {
                found.excluded.push((node, "its labels do not match selector and affinity of the pod".to_owned()));
            }
            (true, true, Some(taint)) => {
                let why = format!("the pod does not tolerate taint {}", shorten(&taint.to_string(), 2 * MAX_NAME));
                // A taint for a team or for hardware does not concern Mullion.
                let of_system =
                    marks_windows(&taint, policy) || policy.linux_taints.iter().any(|one| one.matches(&taint));
                if of_system { found.excluded.push((node, why)) } else { found.closed.push((node, why)) }
            }
            (true, true, None) if node.cordoned => found.closed.push((node, "cordoned".to_owned())),
            (true, true, None) if !node.ready => found.closed.push((node, "not ready".to_owned())),
            (true, true, None) => found.candidates.push(node),
        }
    }
    found
}

/// The first taint that keeps the pod off the node. A node with taints that are too large to use keeps nothing off that is
/// known.
fn repelling(constraints: &SchedulingConstraints, node: &FleetNode) -> Option<Taint> {
    let mut taints = node.taints.iter().flatten();
    taints.find(|taint| taint.effect != "PreferNoSchedule" && !constraints.tolerates(taint)).cloned()
}

/// `node w1, w2 and 3 more`.
pub(super) fn node_names<'n>(nodes: impl IntoIterator<Item = &'n FleetNode>) -> String {
    let names: Vec<String> = nodes.into_iter().map(|node| shorten(&node.name, MAX_NAME)).collect();
    let word = if names.len() == 1 { "node" } else { "nodes" };
    format!("{word} {}", list_first(&names, NAMES))
}

/// `node w1: cordoned`, for each node.
pub(super) fn reasons(nodes: &[(&FleetNode, String)]) -> Vec<String> {
    nodes.iter().map(|(node, why)| format!("node {}: {why}", shorten(&node.name, MAX_NAME))).collect()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use mullion_engine::model::Os;
    use serde_json::json;

    use super::*;
    use crate::cli::verify::fleet::tests::node;

    fn names<'n>(nodes: impl IntoIterator<Item = &'n FleetNode>) -> Vec<&'n str> {
        nodes.into_iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn each_node_is_possible_wrong_excluded_or_closed() {
        let mut nodes = vec![
            node("linux", None, &[]),
            node("good", Some("10.0.20348.1"), &["os=windows:NoSchedule"]),
            node("team", Some("10.0.20348.1"), &["os=windows:NoSchedule", "team=a:NoExecute"]),
            node("strange", Some("10.0.20348.1"), &["sku=Windows:NoSchedule"]),
            node("soft", Some("10.0.20348.1"), &["team=a:PreferNoSchedule"]),
            node("cordoned", Some("10.0.20348.1"), &[]),
            node("away", Some("10.0.20348.1"), &[]),
            node("old", Some("10.0.17763.1"), &[]),
            node("unlabelled", Some("10.0.20348.1"), &[]),
        ];
        nodes[5].cordoned = true;
        nodes[6].ready = false;
        nodes[8].labels.clear();
        let runs = |node: &FleetNode| node.build.is_some_and(|build| build.number() == 20_348);
        let mut spec = json!({"nodeSelector": {"kubernetes.io/os": "windows"},
            "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]});
        let policy = NodeSettings::default();
        let found = possible_nodes(&spec, &nodes, &policy, runs);
        assert_eq!(names(found.candidates.iter().copied()), ["good", "soft"]);
        assert_eq!(names(found.wrong.iter().copied()), ["old"]);
        assert_eq!(names(found.excluded.iter().map(|(node, _)| *node)), ["strange", "unlabelled"]);
        assert_eq!(names(found.closed.iter().map(|(node, _)| *node)), ["team", "cordoned", "away"]);
        assert_eq!(reasons(&found.closed)[0], "node team: the pod does not tolerate taint team=a:NoExecute");

        spec["nodeSelector"]["node.kubernetes.io/windows-build"] = json!("10.0.20348");
        assert!(possible_nodes(&spec, &nodes, &policy, runs).wrong.is_empty());
        // Without a selector, only taints keep a Linux pod off.
        let linux = possible_nodes(&json!({}), &nodes, &policy, |node| node.os == Some(Os::Linux));
        assert_eq!(names(linux.wrong.iter().copied()), ["soft", "cordoned", "away", "old", "unlabelled"]);
        assert!(possible_nodes(&json!("odd"), &nodes, &policy, runs).candidates.is_empty());
    }

    #[test]
    fn long_names_are_shortened() {
        let nodes: Vec<FleetNode> = (0..7).map(|n| node(&format!("{n}{}", "x".repeat(252)), None, &[])).collect();
        let text = node_names(&nodes);
        assert!(text.ends_with(" and 2 more") && text.chars().count() < 360, "{text}");
        assert_eq!(node_names(&[node("a", None, &[])]), "node a");
    }
}
