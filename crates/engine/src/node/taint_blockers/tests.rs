#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::*;
use crate::model::names;

fn windows_node(taints: Value) -> NodeFacts {
    NodeFacts {
        name: "w".to_owned(),
        labels: BTreeMap::from(
            [("kubernetes.io/os", "windows"), ("agentpool", "npwin"), (names::WINDOWS_BUILD_LABEL, "10.0.20348")]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        ),
        taints: serde_json::from_value(taints).unwrap(),
        ..NodeFacts::default()
    }
}

fn daemon_set(spec: &Value) -> DaemonSetFacts {
    let placement = SchedulingConstraints::deserialize(spec).unwrap();
    DaemonSetFacts { name: "kube-system/d".to_owned(), placement, belongs: false, any_ready: true }
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
        (&plain, windows.clone(), DaemonSetClaim::Certain),
        (&plain, json!({"nodeSelector": {names::WINDOWS_BUILD_LABEL: "10.0.20348"}}), DaemonSetClaim::Certain),
        (
            &plain,
            affinity(&json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}])),
            DaemonSetClaim::Certain,
        ),
        (
            &plain,
            affinity(&json!([{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["linux"]}])),
            DaemonSetClaim::Certain,
        ),
        (&plain, json!({}), DaemonSetClaim::Doubtful),
        (&plain, json!({"nodeSelector": {"agentpool": "npwin"}, "tolerations": null}), DaemonSetClaim::Doubtful),
        (
            &plain,
            affinity(&json!([{"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}])),
            DaemonSetClaim::Doubtful,
        ),
        (&plain, json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), DaemonSetClaim::None),
        (&plain, json!({"nodeSelector": {"agentpool": "other"}}), DaemonSetClaim::None),
        (&plain, json!({"nodeName": "other"}), DaemonSetClaim::None),
        (&plain, affinity(&json!([])), DaemonSetClaim::None),
        (
            &plain,
            json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [{"operator": "Exists"}]}),
            DaemonSetClaim::None,
        ),
        (
            &plain,
            json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [{"key": "os", "operator": "Exists"}]}),
            DaemonSetClaim::None,
        ),
        (
            &plain,
            json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": [{"key": "os", "value": "Windows"}]}),
            DaemonSetClaim::Certain,
        ),
        (&spot, windows.clone(), DaemonSetClaim::None),
        (&starting, windows.clone(), DaemonSetClaim::Certain),
        (&preferring, windows, DaemonSetClaim::Certain),
    ];
    for (node, spec, expected) in cases {
        assert_eq!(claim(&daemon_set(&spec), node, &os), expected, "{spec} {:?}", node.taints);
    }
}

#[test]
fn passing_taints() {
    for (text, passing) in [
        ("node.kubernetes.io/unschedulable:NoSchedule", true),
        ("node.kubernetes.io/os=windows:NoSchedule", false),
        ("startup-taint.cluster-autoscaler.kubernetes.io/disk:NoSchedule", true),
        ("karpenter.sh/unregistered:NoExecute", true),
        ("node.cilium.io/agent-not-ready:NoSchedule", true),
        ("ebs.csi.aws.com/agent-not-ready:NoExecute", true),
        ("dedicated=team-a:NoSchedule", false),
        ("kubernetes.azure.com/scalesetpriority=spot:NoSchedule", false),
    ] {
        assert_eq!(taint(text).describes_state(), passing, "{text}");
    }
}

#[test]
fn a_ready_pod_decides_in_doubt() {
    let node = windows_node(json!([]));
    let os = taint("os=windows:NoSchedule");
    let doubtful = [daemon_set(&json!({}))];
    let pod = |ready| BoundPod {
        name: "kube-system/d-1".to_owned(),
        daemon_set: Some("kube-system/d".to_owned()),
        ready,
        ..BoundPod::default()
    };
    assert!(blockers(&node, &os, &doubtful, &[]).is_empty());
    assert!(blockers(&node, &os, &doubtful, &[pod(false)]).is_empty());
    let found = blockers(&node, &os, &doubtful, &[pod(true)]);
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["DaemonSet kube-system/d"]);
}

#[test]
fn running_pods_count_where_nothing_helps_their_successors() {
    let node = windows_node(json!([]));
    let base = BoundPod { name: "web/p".to_owned(), ready: true, ..BoundPod::default() };
    let exists = TolerationTerm { operator: Some("Exists".to_owned()), ..TolerationTerm::default() };
    let cases = [
        (base.clone(), "NoSchedule", true),
        (BoundPod { ready: false, ..base.clone() }, "NoSchedule", false),
        // A pod that is still pulling its image.
        (BoundPod { ready: false, windows: true, ..base.clone() }, "NoSchedule", true),
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

#[test]
fn what_belongs_claims_and_what_is_ready_nowhere_is_no_doubt() {
    let (node, os) = (windows_node(json!([])), taint("os=windows:NoSchedule"));
    let known = DaemonSetFacts { belongs: true, any_ready: false, ..daemon_set(&json!({})) };
    assert_eq!(claim(&known, &node, &os), DaemonSetClaim::Certain);
    let elsewhere = DaemonSetFacts { belongs: true, ..daemon_set(&json!({"nodeSelector": {"agentpool": "other"}})) };
    assert_eq!(claim(&elsewhere, &node, &os), DaemonSetClaim::None);
    let tolerant = DaemonSetFacts { belongs: true, ..daemon_set(&json!({"tolerations": [{"operator": "Exists"}]})) };
    assert_eq!(claim(&tolerant, &node, &os), DaemonSetClaim::None);
    let broken = DaemonSetFacts { any_ready: false, ..daemon_set(&json!({})) };
    assert_eq!(claim(&broken, &node, &os), DaemonSetClaim::None);
    for (daemons, effect, covered, needed) in [
        (vec![], "NoSchedule", true, false),
        (vec![], "NoSchedule", false, true),
        (vec![], "NoExecute", true, true),
        (vec![known, broken.clone()], "NoSchedule", true, false),
        (vec![daemon_set(&json!({}))], "NoSchedule", true, true),
    ] {
        let taint = taint(&format!("os=windows:{effect}"));
        assert_eq!(needs_pods(&node, &taint, &daemons, covered), needed, "{daemons:?} {effect} {covered}");
    }
}
