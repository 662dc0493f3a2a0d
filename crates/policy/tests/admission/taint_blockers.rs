//! Taint blockers under policies.

use std::collections::BTreeMap;

use mullion_engine::model::cluster::{ClusterSnapshot, Namespace, Node, NodeParts, Nodes};
use mullion_engine::model::settings::Mode;
use mullion_engine::model::{Os, ReviewRequest, WorkloadKind, WorkloadObject, names};
use mullion_engine::node::{is_windows_pod, reaches, selects_linux, taint_blockers};
use mullion_policy::{PolicySet, all_covered};
use serde_json::{Value, json};

fn daemon_set(annotations: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "annotations": annotations},
        "spec": {"template": {"spec": spec}}})
}

fn belongs(object: &Value, namespace: &str, snapshot: &ClusterSnapshot, policies: &PolicySet) -> bool {
    let daemon = WorkloadObject { kind: WorkloadKind::DaemonSet, namespace, object };
    taint_blockers::belongs(daemon, snapshot, &policies.resolve(&ReviewRequest::creation(daemon), snapshot).new)
}

#[test]
fn decisions_define_what_belongs() {
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
        Namespace::new(BTreeMap::new(), &annotations)
    };
    let snapshot = ClusterSnapshot {
        nodes: Some(Nodes::new(vec![node("w", Os::Windows), node("l", Os::Linux)])),
        namespaces: [("win".to_owned(), namespace("windows")), ("plain".to_owned(), Namespace::default())].into(),
        ..ClusterSnapshot::default()
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
    let (built_in, mut off) = (PolicySet::built_in(), PolicySet::built_in());
    for policy in &mut off.pods {
        policy.settings.mode = Mode::Disabled;
    }
    for (namespace, object, expected) in cases {
        assert_eq!(belongs(&object, namespace, &snapshot, &built_in), expected, "{namespace} {object}");
        assert_eq!(belongs(&object, namespace, &snapshot, &off), expected, "{namespace} {object}");
    }
    assert!(!belongs(&daemon_set(&silent, &image(linux)), "plain", &snapshot, &built_in));
    assert!(selects_linux(&daemon_set(&silent, &json!({"nodeSelector": {"kubernetes.io/os": "linux"}}))));
    assert!(!selects_linux(&daemon_set(&silent, &json!({}))) && !selects_linux(&json!(7)));
}

#[test]
fn only_evidence_makes_a_windows_pod() {
    let (snapshot, policies) =
        (ClusterSnapshot { nodes: Some(Nodes::default()), ..ClusterSnapshot::default() }, PolicySet::built_in());
    let pod = |image: &str, more: &Value| {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "w", "containers": [{"name": "c", "image": image}]}});
        pod["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let pod = WorkloadObject { kind: WorkloadKind::Pod, namespace: "web", object: &pod };
        is_windows_pod(pod, &snapshot, &policies.resolve(&ReviewRequest::creation(pod), &snapshot).new)
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
        PolicySet::from_files(&[("a.yaml", text)]).unwrap_or_else(|problems| panic!("{more}: {problems:?}"))
    };
    let namespace = |key: &str, value: &str| {
        let annotations = [(key.to_owned(), value.to_owned())].into();
        BTreeMap::from([("web".to_owned(), Namespace::new(BTreeMap::new(), &annotations))])
    };
    let plain = namespace("mullion.dev/os", "windows");
    let ignored = namespace("mullion.dev/ignore", "true");
    let whitelist = namespace(names::TOLERATIONS_WHITELIST_ANNOTATION, "[]");
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
    assert!(reaches(&settings, None, Some([&none, &none]), &pods.nodes));
    assert!(!reaches(&settings, None, Some([&none, &ignore]), &pods.nodes));
}

#[test]
fn only_namespaces_for_which_the_taint_waits_need_cover() {
    let load = |wait_for: &str| {
        let audit = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {mode: Audit}\n";
        let text = format!(
            "{audit}---\napiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {{name: a}}\n\
             spec: {{taint: {{waitFor: {{namespaces: {wait_for}}}}}}}\n"
        );
        PolicySet::from_files(&[("a.yaml", text)]).unwrap_or_else(|problems| panic!("{wait_for}: {problems:?}"))
    };
    let namespaces = BTreeMap::from(["kube-system", "team-a"].map(|name| (name.to_owned(), Namespace::default())));
    for (wait_for, waits_for_team, waits_for_system) in [
        ("{}", true, true),
        ("{include: ['*']}", true, true),
        ("{exclude: [team-*]}", false, true),
        ("{include: [kube-system]}", false, true),
        ("{include: [other]}", false, false),
        ("{include: ['*'], exclude: ['*']}", false, false),
    ] {
        let policies = load(wait_for);
        let waits = |namespace| policies.nodes.taint.waits_for(namespace);
        assert_eq!((waits("team-a"), waits("kube-system")), (waits_for_team, waits_for_system), "{wait_for}");
        let nobody = !waits_for_team && !waits_for_system;
        assert_eq!(all_covered(&namespaces, &policies), nobody, "{wait_for}");
    }
}

#[test]
fn no_release_is_longer_than_a_label() {
    for (length, expected) in [(63, true), (64, false)] {
        let text = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {{name: a}}\nspec:\n  releases: \
             [{{build: 10.0.29000, name: {}, runsFrom: 10.0.26100}}]\n",
            "x".repeat(length)
        );
        let loaded = PolicySet::from_files(&[("a.yaml", text)]);
        assert_eq!(loaded.is_ok(), expected, "{length}");
    }
}
