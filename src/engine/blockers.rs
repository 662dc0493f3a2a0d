//! Who would be worse off if a node got a taint.
//!
//! `NoSchedule` evicts nothing, but what goes away does not come back: the DaemonSet controller makes no pod for a
//! node whose taints the template does not tolerate, after a rollout, an eviction or a failure. So the taint waits
//! for every DaemonSet that belongs on the node and every pod that runs there, until they tolerate it.

use std::collections::{BTreeMap, BTreeSet};

use super::fit::{Placement, Tolerates};
use super::node::{self, NodeFacts};
use super::world::Taint;

/// A DaemonSet, as far as it matters to taints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Daemon {
    /// `namespace/name`.
    pub name: String,
    /// Its template's.
    pub placement: Placement,
}

/// A pod that is bound to the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundPod {
    /// `namespace/name`.
    pub name: String,
    /// `namespace/name` of the DaemonSet that owns it.
    pub daemon: Option<String>,
    /// Condition `Ready`.
    pub ready: bool,
    /// Its tolerations.
    pub tolerations: Vec<Tolerates>,
    /// Whether its successor will have the toleration: an enforcing policy covers it and adds tolerations.
    pub covered: bool,
    /// A mirror of a static pod: the kubelet runs it whatever the taints.
    pub mirror: bool,
}

/// Keys of taints that come and go with a node's state. What does not tolerate them belongs there all the same.
const PASSING: [&str; 4] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
];

/// Whether the taint says something of the node's state and not of what the node is for.
pub fn is_passing(taint: &Taint) -> bool {
    taint.key != "node.kubernetes.io/os" && PASSING.iter().any(|passing| taint.key.starts_with(passing))
}

/// What is known of a DaemonSet's claim to a node from its template alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is not for this node, or tolerates the taint.
    None,
    /// It asks for Windows nodes.
    Certain,
    /// It asks for no OS: Linux DaemonSets that were written for clusters of one OS look like this, and so do
    /// Windows ones that select a pool. A Ready pod on the node tells.
    Doubtful,
}

/// What the template alone says about the DaemonSet on this node once it has `taint`.
pub fn claim(daemon: &Daemon, node: &NodeFacts, taint: &Taint) -> Claim {
    let placement = &daemon.placement;
    let fits =
        |labels: &BTreeMap<String, String>| placement.fits(&node.name, |key| labels.get(key).map(String::as_str));
    let at_home = || {
        let taints = node.taints.iter().filter_map(node::taint);
        taints
            .filter(|taint| taint.effect != "PreferNoSchedule" && !is_passing(taint))
            .all(|taint| placement.tolerates(&taint))
    };
    if placement.tolerates(taint) || !fits(&node.labels) || !at_home() {
        return Claim::None;
    }
    // Would the same machine do if it ran Linux? Then the template asks for no OS.
    if fits(&as_linux(&node.labels)) { Claim::Doubtful } else { Claim::Certain }
}

/// The names of all that would be worse off, DaemonSets first, for people to read: `DaemonSet ns/name`, `Pod ns/name`.
///
/// With a `NoExecute` taint every pod that does not tolerate it counts, covered or not: it would be evicted at once.
pub fn blockers(node: &NodeFacts, taint: &Taint, daemons: &[Daemon], pods: &[BoundPod]) -> Vec<String> {
    let present: BTreeSet<&str> = pods.iter().filter(|pod| pod.ready).filter_map(|pod| pod.daemon.as_deref()).collect();
    let waits = |daemon: &&Daemon| match claim(daemon, node, taint) {
        Claim::None => false,
        Claim::Certain => true,
        Claim::Doubtful => present.contains(daemon.name.as_str()),
    };
    let daemons = daemons.iter().filter(waits).map(|daemon| format!("DaemonSet {}", daemon.name));
    let evicts = taint.effect == "NoExecute";
    let suffers = |pod: &&BoundPod| {
        pod.ready
            && !pod.mirror
            && (evicts || (pod.daemon.is_none() && !pod.covered))
            && !pod.tolerations.iter().any(|toleration| toleration.covers(taint))
    };
    let pods = pods.iter().filter(suffers).map(|pod| format!("Pod {}", pod.name));
    daemons.chain(pods).collect()
}

fn as_linux(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut labels = labels.clone();
    for key in ["kubernetes.io/os", "beta.kubernetes.io/os"] {
        labels.entry(key.to_owned()).and_modify(|os| "linux".clone_into(os));
    }
    for key in [node::BUILD_LABEL, node::RELEASE_LABEL, node::REVISION_LABEL] {
        labels.remove(key);
    }
    labels
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use serde::Deserialize as _;
    use serde_json::{Value, json};

    use super::*;

    fn windows_node(taints: Value) -> NodeFacts {
        NodeFacts {
            name: "w".to_owned(),
            labels: BTreeMap::from(
                [("kubernetes.io/os", "windows"), ("agentpool", "npwin"), (node::BUILD_LABEL, "10.0.20348")]
                    .map(|(key, value)| (key.to_owned(), value.to_owned())),
            ),
            taints: serde_json::from_value(taints).unwrap(),
            ..NodeFacts::default()
        }
    }

    fn daemon(spec: &Value) -> Daemon {
        Daemon { name: "kube-system/d".to_owned(), placement: Placement::deserialize(spec).unwrap() }
    }

    fn taint(text: &str) -> Taint {
        Taint::parse(text).unwrap()
    }

    fn affinity(expressions: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": expressions}]}}}})
    }

    #[test]
    fn claims() {
        let os = taint("os=windows:NoSchedule");
        let plain = windows_node(json!([]));
        let spot = windows_node(json!([{"key": "spot", "value": "true", "effect": "NoSchedule"}]));
        let starting = windows_node(json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
        let preferring = windows_node(json!([{"key": "spot", "effect": "PreferNoSchedule"}]));
        let windows = json!({"nodeSelector": {"kubernetes.io/os": "windows"}});
        let cases = [
            (&plain, windows.clone(), Claim::Certain),
            (&plain, json!({"nodeSelector": {node::BUILD_LABEL: "10.0.20348"}}), Claim::Certain),
            (
                &plain,
                affinity(&json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}])),
                Claim::Certain,
            ),
            (
                &plain,
                affinity(&json!([{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["linux"]}])),
                Claim::Certain,
            ),
            (&plain, json!({}), Claim::Doubtful),
            (&plain, json!({"nodeSelector": {"agentpool": "npwin"}, "tolerations": null}), Claim::Doubtful),
            (
                &plain,
                affinity(&json!([{"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}])),
                Claim::Doubtful,
            ),
            (&plain, json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), Claim::None),
            (&plain, json!({"nodeSelector": {"agentpool": "other"}}), Claim::None),
            (&plain, json!({"nodeName": "other"}), Claim::None),
            (&plain, affinity(&json!([])), Claim::None),
            (
                &plain,
                json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [{"operator": "Exists"}]}),
                Claim::None,
            ),
            (
                &plain,
                json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [{"key": "os", "operator": "Exists"}]}),
                Claim::None,
            ),
            (
                &plain,
                json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [{"key": "os", "value": "Windows"}]}),
                Claim::Certain,
            ),
            (&spot, windows.clone(), Claim::None),
            (&starting, windows.clone(), Claim::Certain),
            (&preferring, windows, Claim::Certain),
        ];
        for (node, spec, expected) in cases {
            assert_eq!(claim(&daemon(&spec), node, &os), expected, "{spec} {:?}", node.taints);
        }
    }

    #[test]
    fn a_ready_pod_settles_doubt() {
        let node = windows_node(json!([]));
        let os = taint("os=windows:NoSchedule");
        let doubtful = [daemon(&json!({}))];
        let pod = |ready| BoundPod {
            name: "kube-system/d-1".to_owned(),
            daemon: Some("kube-system/d".to_owned()),
            ready,
            ..BoundPod::default()
        };
        assert!(blockers(&node, &os, &doubtful, &[]).is_empty());
        assert!(blockers(&node, &os, &doubtful, &[pod(false)]).is_empty());
        assert_eq!(blockers(&node, &os, &doubtful, &[pod(true)]), ["DaemonSet kube-system/d"]);
    }

    #[test]
    fn running_pods_count_where_nothing_helps_their_successors() {
        let node = windows_node(json!([]));
        let base = BoundPod { name: "web/p".to_owned(), ready: true, ..BoundPod::default() };
        let exists = Tolerates { operator: Some("Exists".to_owned()), ..Tolerates::default() };
        let cases = [
            (base.clone(), "NoSchedule", true),
            (BoundPod { ready: false, ..base.clone() }, "NoSchedule", false),
            (BoundPod { covered: true, ..base.clone() }, "NoSchedule", false),
            (BoundPod { covered: true, ..base.clone() }, "NoExecute", true),
            (BoundPod { mirror: true, ..base.clone() }, "NoExecute", false),
            (BoundPod { tolerations: vec![exists], ..base }, "NoExecute", false),
        ];
        for (pod, effect, expected) in cases {
            let found = blockers(&node, &taint(&format!("os=windows:{effect}")), &[], std::slice::from_ref(&pod));
            assert_eq!(!found.is_empty(), expected, "{pod:?} {effect}");
        }
    }
}
