//! Previews of a workload's pods.

use mullion_engine::admission::find_nodes;
use mullion_engine::model::{MinorVersion, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use mullion_snapshot::dump;
use serde_json::{Value, json};

const SNAPSHOT: &str = "\
kind: List
items:
- {kind: Node, metadata: {name: shop, labels: {kubernetes.io/os: windows, team: shop}}, spec: {taints: [{key: team, value: shop, effect: NoSchedule}]}}
- {kind: Node, metadata: {name: bank, labels: {kubernetes.io/os: windows, team: bank}}, spec: {taints: [{key: team, value: bank, effect: NoSchedule}]}}
- {kind: Node, metadata: {name: all, labels: {kubernetes.io/os: windows}}}
- kind: RuntimeClass
  metadata: {name: shop}
  handler: runhcs-wcow-process
  scheduling: {nodeSelector: {team: shop}, tolerations: [{key: team, value: shop}]}
- {kind: RuntimeClass, metadata: {name: plain}, handler: runhcs-wcow-process}
";

fn nodes_of(object: &Value, policy: &str) -> Vec<String> {
    let snapshot = dump::from_text("snapshot", SNAPSHOT.as_bytes()).unwrap();
    let text =
        format!("{{apiVersion: mullion.dev/v1alpha1, kind: PodPolicy, metadata: {{name: a}}, spec: {{{policy}}}}}");
    let policies = PolicySet::from_files(&[("a.yaml", text)]).unwrap();
    let kind = WorkloadKind::from_name(object["kind"].as_str().unwrap()).unwrap();
    let request = ReviewRequest::creation(WorkloadObject { kind, namespace: "default", object });
    find_nodes(&request, &snapshot, &policies.resolve(&request, &snapshot))
        .unwrap()
        .schedulable
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// The API server adds the constraints of a class after the webhooks (plugin RuntimeClass).
#[test]
fn a_runtime_class_selects_and_tolerates() {
    let spec = json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "a", "image": "a"}]});
    let pod = |class: Option<&str>, team: Option<&str>| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
        if let Some(class) = class {
            pod["spec"]["runtimeClassName"] = json!(class);
        }
        if let Some(team) = team {
            pod["spec"]["nodeSelector"]["team"] = json!(team);
        }
        pod
    };
    let named = "place: {runtimeClass: {mode: Named, name: shop}}";
    for (pod, policy, expected) in [
        (pod(None, None), "", vec!["all"]),
        (pod(Some("shop"), None), "", vec!["shop"]),
        (pod(Some("plain"), None), "", vec!["all"]),
        (pod(Some("unknown"), None), "", vec!["all"]),
        (pod(None, None), named, vec!["shop"]),
        (pod(Some("plain"), None), named, vec!["all"]),
        // The API server rejects a pod and a class that contradict each other.
        (pod(Some("shop"), Some("bank")), "", vec![]),
        (pod(Some("shop"), Some("shop")), "", vec!["shop"]),
    ] {
        assert_eq!(nodes_of(&pod, policy), expected, "{pod} {policy}");
    }
    let template = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}});
    assert_eq!(nodes_of(&template, named), ["shop"]);
}

/// Each node that cannot run the pods has one reason: the first that the scheduler or the kubelet would meet.
#[test]
fn each_node_that_is_left_out_has_a_reason() {
    const NODES: &str = "\
kind: List
items:
- {kind: Node, metadata: {name: linux, labels: {kubernetes.io/os: linux}}}
- {kind: Node, metadata: {name: old, labels: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.17763}}}
- {kind: Node, metadata: {name: bank, labels: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348}}, spec: {taints: [{key: team, value: bank, effect: NoSchedule}, {key: soft, effect: PreferNoSchedule}]}}
- {kind: Node, metadata: {name: closed, labels: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348}}, spec: {unschedulable: true}}
- {kind: Node, metadata: {name: good, labels: {kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348}}}
";
    let image = "mcr.microsoft.com/windows/servercore:ltsc2022";
    let zone = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}});
    let snapshot = dump::from_text("snapshot", NODES.as_bytes()).unwrap();
    let policies = PolicySet::default();
    for (more, expected) in [
        (
            json!({}),
            vec![
                "linux: spec.nodeSelector has kubernetes.io/os: windows",
                "old: an image does not run on Windows build 10.0.17763",
                "bank: the pods do not tolerate the taint team=bank:NoSchedule",
                "closed: the node is cordoned",
            ],
        ),
        (
            json!({"nodeName": "good"}),
            vec![
                "linux: spec.nodeName is another node",
                "old: spec.nodeName is another node",
                "bank: spec.nodeName is another node",
                "closed: spec.nodeName is another node",
            ],
        ),
        (
            json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "affinity": zone, "containers": [{"name": "a", "image": "a"}]}),
            vec![
                "linux: spec.nodeSelector has kubernetes.io/os: windows",
                "old: the required node affinity does not match",
                "bank: the required node affinity does not match",
                "closed: the required node affinity does not match",
                "good: the required node affinity does not match",
            ],
        ),
        // The scheduler may choose the Linux node: a bare pod with a node name is never changed.
        (
            json!({"nodeName": "linux"}),
            vec![
                "linux: the pods are for another operating system",
                "old: spec.nodeName is another node",
                "bank: spec.nodeName is another node",
                "closed: spec.nodeName is another node",
                "good: spec.nodeName is another node",
            ],
        ),
    ] {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "a", "image": image}]}});
        for (key, value) in more.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        let request =
            ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace: "default", object: &pod });
        let nodes = find_nodes(&request, &snapshot, &policies.resolve(&request, &snapshot)).unwrap();
        let left_out: Vec<String> =
            nodes.left_out.iter().map(|(node, obstacle)| format!("{node}: {obstacle}")).collect();
        assert_eq!(left_out, expected, "{more}");
        assert_eq!(nodes.runnable.len() + nodes.left_out.len(), 5, "{more}");
    }
}

/// A feature that the scheduler requires is compared with what each node declares, where both are known.
#[test]
fn nodes_that_do_not_declare_a_needed_feature_are_left_out() {
    const FEATURE: &str = "RestartAllContainersOnContainerExits";
    let node = |name: &str, kubelet: &str, features: Value| {
        let mut node = json!({"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows"}},
            "status": {"nodeInfo": {"kubeletVersion": kubelet}}});
        if !features.is_null() {
            node["status"]["declaredFeatures"] = features;
        }
        node
    };
    let has = || node("has", "v1.36.3", json!([FEATURE]));
    let other = || node("other", "v1.36.3", json!(["GuaranteedQoSPodCPUResize"]));
    let silent = || node("silent", "v1.36.3", Value::Null);
    let old = || node("old", "v1.34.3", Value::Null);
    let bare = || json!({"kind": "Node", "metadata": {"name": "bare", "labels": {"kubernetes.io/os": "windows"}}});
    let odd = || node("odd", "v1.36.3", json!({"a": FEATURE}));
    let mixed = || node("mixed", "v1.36.3", json!([7, null, FEATURE]));
    // (nodes, version of the API server, lacking, unknown)
    for (nodes, api_server, lacking, unknown) in [
        (vec![has(), other()], Some(36), vec!["other"], vec![]),
        // One that declares nothing beside one that declares something, and one whose kubelet cannot declare.
        (vec![has(), silent(), old()], Some(36), vec!["silent", "old"], vec![]),
        (vec![other(), silent()], Some(37), vec!["other", "silent"], vec![]),
        // If none declares anything, the gates of kubelets may be off, or the members may be missing in a file.
        (vec![silent(), old()], Some(37), vec!["old"], vec!["silent"]),
        (vec![has(), bare()], Some(36), vec![], vec!["bare"]),
        // The scheduler of an older release compares nothing.
        (vec![has(), other(), old()], Some(35), vec![], vec![]),
        // Kubelets are not newer than the API server.
        (vec![has(), other(), old()], None, vec!["other", "old"], vec![]),
        (vec![old(), node("gated", "v1.35.1", json!([]))], None, vec![], vec!["old", "gated"]),
        (vec![odd(), mixed()], Some(36), vec!["odd"], vec![]),
    ] {
        let shown = json!(nodes).to_string();
        let text = json!({"apiVersion": "v1", "kind": "List", "items": nodes}).to_string();
        let mut snapshot = dump::from_text("snapshot", text.as_bytes()).unwrap();
        snapshot.api_server = api_server.map(|minor| MinorVersion::new(1, minor));
        let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}]);
        let pods = |rules: Value| {
            let container = json!({"name": "a", "image": "a", "restartPolicy": "Never", "restartPolicyRules": rules});
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                "spec": {"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [container]}});
            let workload = WorkloadObject { kind: WorkloadKind::Pod, namespace: "default", object: &pod };
            let policies = PolicySet::default();
            let request = ReviewRequest::creation(workload);
            let found = find_nodes(&request, &snapshot, &policies.resolve(&request, &snapshot)).unwrap();
            assert_eq!(found.runnable, found.schedulable, "{shown}");
            let of = |is_unknown: bool| {
                let all = found.left_out.iter().filter(|(_, obstacle)| obstacle.is_unknown() == is_unknown);
                all.map(|(name, obstacle)| {
                    assert!(obstacle.to_string().contains(FEATURE), "{obstacle}");
                    (*name).to_owned()
                })
                .collect::<Vec<_>>()
            };
            (of(false), of(true))
        };
        let expected = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(pods(rules), (expected(&lacking), expected(&unknown)), "{shown} {api_server:?}");
        assert_eq!(pods(json!([])), (vec![], vec![]), "{shown} {api_server:?}");
    }
}
