#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::*;
use crate::engine::labels::NodeParts;
use crate::engine::world::{Node, Nodes};
use crate::policy::{Files, PolicyFile};

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
    let placement = Placement::deserialize(spec).unwrap();
    Daemon { name: "kube-system/d".to_owned(), placement, belongs: false, any_ready: true }
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
fn some_taints_only_pass() {
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
        assert_eq!(is_passing(&taint(text)), passing, "{text}");
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
        // Still pulling its image.
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
    let known = Daemon { belongs: true, any_ready: false, ..daemon(&json!({})) };
    assert_eq!(claim(&known, &node, &os), Claim::Certain);
    let elsewhere = Daemon { belongs: true, ..daemon(&json!({"nodeSelector": {"agentpool": "other"}})) };
    assert_eq!(claim(&elsewhere, &node, &os), Claim::None);
    let tolerant = Daemon { belongs: true, ..daemon(&json!({"tolerations": [{"operator": "Exists"}]})) };
    assert_eq!(claim(&tolerant, &node, &os), Claim::None);
    let broken = Daemon { any_ready: false, ..daemon(&json!({})) };
    assert_eq!(claim(&broken, &node, &os), Claim::None);
    for (daemons, effect, covered, needed) in [
        (vec![], "NoSchedule", true, false),
        (vec![], "NoSchedule", false, true),
        (vec![], "NoExecute", true, true),
        (vec![known, broken.clone()], "NoSchedule", true, false),
        (vec![daemon(&json!({}))], "NoSchedule", true, true),
    ] {
        let taint = taint(&format!("os=windows:{effect}"));
        assert_eq!(needs_pods(&node, &taint, &daemons, covered), needed, "{daemons:?} {effect} {covered}");
    }
}

fn daemon_set(annotations: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "annotations": annotations},
        "spec": {"template": {"spec": spec}}})
}

#[test]
fn verdicts_say_who_belongs() {
    let image = |image: &str| json!({"containers": [{"name": "c", "image": image}]});
    let (windows, linux, opaque) =
        ("mcr.microsoft.com/windows/nanoserver:ltsc2022", "alpine:3.20", "registry.example.com/agent:1");
    let node = |name: &str, os| Node {
        name: name.to_owned(),
        os: Some(os),
        labels: NodeParts::default().labels([("agentpool".to_owned(), format!("np{}", Os::name(os)))].into()),
        ..Node::default()
    };
    let namespace = |os: &str| {
        let annotations = [("mullion.dev/os".to_owned(), os.to_owned())].into();
        Namespace { annotations, ..Namespace::default() }
    };
    let world = World {
        nodes: Some(Nodes::new(vec![node("w", Os::Windows), node("l", Os::Linux)])),
        namespaces: [("win".to_owned(), namespace("windows")), ("plain".to_owned(), Namespace::default())].into(),
        ..World::default()
    };
    let pool = |os: &str| json!({"nodeSelector": {"agentpool": format!("np{os}")}, "containers": [{"name": "c", "image": opaque}]});
    let silent = json!({});
    let cases = [
        ("plain", daemon_set(&silent, &image(windows)), true),
        ("plain", daemon_set(&silent, &image(opaque)), false),
        ("plain", daemon_set(&silent, &image("registry.k8s.io/pause:3.9")), true),
        ("plain", daemon_set(&json!({"mullion.dev/os": "any"}), &image(opaque)), true),
        ("plain", daemon_set(&json!({"mullion.dev/os": "linux"}), &image(windows)), false),
        ("win", daemon_set(&silent, &image(opaque)), true),
        ("plain", daemon_set(&silent, &pool("windows")), true),
        ("plain", daemon_set(&silent, &pool("linux")), false),
        (
            "plain",
            daemon_set(&silent, &json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": []})),
            true,
        ),
        (
            "plain",
            daemon_set(&silent, &json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": []})),
            false,
        ),
        ("plain", json!({}), false),
        ("plain", json!({"spec": {"template": {"spec": 7}}}), false),
    ];
    let mut off = PolicySet::built_in();
    for policy in &mut off.pods {
        policy.spec.mode = Some(Mode::Disabled);
    }
    for (namespace, object, expected) in cases {
        assert_eq!(belongs(&object, namespace, &world, &PolicySet::built_in()), expected, "{namespace} {object}");
        assert_eq!(belongs(&object, namespace, &world, &off), expected, "{namespace} {object}");
    }
    assert!(!belongs(&daemon_set(&silent, &image(linux)), "plain", &world, &PolicySet::built_in()));
    assert!(selects_linux(&daemon_set(&silent, &json!({"nodeSelector": {"kubernetes.io/os": "linux"}}))));
    assert!(!selects_linux(&daemon_set(&silent, &json!({}))) && !selects_linux(&json!(7)));
}

#[test]
fn only_what_is_said_makes_a_windows_pod() {
    let (world, policies) = (World { nodes: Some(Nodes::default()), ..World::default() }, PolicySet::built_in());
    let pod = |image: &str, more: &Value| {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "w", "containers": [{"name": "c", "image": image}]}});
        pod["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        is_windows_pod(&pod, "web", &world, &policies)
    };
    assert!(pod("mcr.microsoft.com/windows/servercore:ltsc2022", &json!({})));
    assert!(pod("opaque", &json!({"os": {"name": "windows"}})));
    assert!(!pod("opaque", &json!({})));
}

#[test]
fn policies_reach_or_they_do_not() {
    let load = |more: &str| {
        let text =
            format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec: {{{more}}}\n");
        let files =
            Files { texts: vec![PolicyFile { name: "a.yaml".into(), bytes: text.into() }], problems: Vec::new() };
        PolicySet::load(&files).unwrap_or_else(|problems| panic!("{more}: {problems:?}"))
    };
    let namespace = |key: &str, value: &str| {
        let annotations = [(key.to_owned(), value.to_owned())].into();
        BTreeMap::from([("web".to_owned(), Namespace { annotations, ..Namespace::default() })])
    };
    let plain = namespace("mullion.dev/os", "windows");
    let ignored = namespace("mullion.dev/ignore", "true");
    let whitelist = namespace(limits::WHITELIST, "[]");
    let listed = "place: {tolerations: {mode: Listed, add: [{key: os, operator: Exists}]}}";
    for (policies, namespaces, expected) in [
        ("mode: Enforce", &plain, true),
        ("mode: Enforce", &BTreeMap::new(), true),
        ("mode: Audit", &plain, false),
        ("mode: Disabled", &plain, false),
        ("place: {tolerations: {mode: Never}}", &plain, false),
        ("place: {tolerations: {mode: Listed}}", &plain, false),
        (listed, &plain, true),
        ("mode: Enforce", &ignored, false),
        ("optOut: {ignore: Never}", &ignored, true),
        ("optOut: {ignore: Pods}", &plain, false),
        ("mode: Enforce", &whitelist, false),
        ("match: {podSelector: {matchLabels: {a: b}}}", &plain, false),
        ("mode: Audit, match: {namespaces: {include: [other]}}", &plain, true),
    ] {
        assert_eq!(all_covered(namespaces, &load(policies)), expected, "{policies} {namespaces:?}");
    }
    let pods = load("optOut: {ignore: Pods}");
    let settings = pods.settings("web", None, &());
    let (ignore, none) = ([("mullion.dev/ignore".to_owned(), "true".to_owned())].into(), BTreeMap::new());
    assert!(reaches(&settings, None, Some([&none, &none]), &pods));
    assert!(!reaches(&settings, None, Some([&none, &ignore]), &pods));
}
