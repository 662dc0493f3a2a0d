//! The OS decision of a pod, and when there is none.

use mullion_engine::model::{Basis, DetectedOs};
use serde_json::{Value, json};

use crate::support::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

fn decide(spec: Value) -> (DetectedOs, Basis) {
    let outcome = create(&pod(spec));
    (outcome.review.decision.os, outcome.review.decision.basis)
}

fn with(extra: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "registry.example.com/app"}]});
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn required(terms: Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

#[test]
fn own_fields_decide_first() {
    use DetectedOs::{Conflict, Linux, Windows};
    let os_in = |values: &[&str]| json!({"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": values}]});
    let build_exists = json!({"matchExpressions": [{"key": "node.kubernetes.io/windows-build", "operator": "Exists"}]});
    let cases = [
        (json!({"os": {"name": "windows"}}), Windows),
        (json!({"os": {"name": "linux"}}), Linux),
        (json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), Windows),
        (json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}), Linux),
        (json!({"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}}), Windows),
        (json!({"nodeSelector": {"kubernetes.azure.com/os-sku": "Windows2022"}}), Windows),
        (json!({"nodeSelector": {"cloud.google.com/gke-os-distribution": "windows_ltsc"}}), Windows),
        (json!({"nodeSelector": {"node.openshift.io/os_id": "Windows"}}), Windows),
        (json!({"affinity": required(json!([os_in(&["windows"])]))}), Windows),
        (json!({"affinity": required(json!([os_in(&["windows"]), build_exists]))}), Windows),
        (
            json!({"affinity": required(json!([{"matchExpressions": [{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}]}]))}),
            Linux,
        ),
        (json!({"securityContext": {"windowsOptions": {"runAsUserName": "ContainerUser"}}}), Windows),
        (json!({"runtimeClassName": "mullion-windows-ltsc2025"}), Windows),
        // a pool label that only Windows nodes have
        (json!({"nodeSelector": {"agentpool": "win19"}}), Windows),
        (json!({"os": {"name": "windows"}, "nodeSelector": {"kubernetes.io/os": "linux"}}), Conflict),
        (json!({"os": {"name": "linux"}, "nodeSelector": {"kubernetes.azure.com/os-sku": "Windows2022"}}), Conflict),
        (json!({"os": {"name": "linux"}, "nodeName": "w2022"}), Conflict),
        (
            json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "securityContext": {"windowsOptions": {"hostProcess": false}}}),
            Linux,
        ),
        (
            json!({"nodeSelector": {"kubernetes.io/os": "linux", "node.kubernetes.io/windows-build": "10.0.20348"}}),
            Conflict,
        ),
    ];
    for (extra, expected) in cases {
        assert_eq!(decide(with(extra.clone())), (expected, Basis::Intent), "{extra}");
    }
}

#[test]
fn what_is_excluded_or_offered_beside_linux_is_no_windows() {
    let either = required(json!([
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux", "windows"]}]}
    ]));
    assert_eq!(decide(with(json!({"affinity": either}))).0, DetectedOs::Undecided);
    let not_sku = required(json!([
        {"matchExpressions": [{"key": "kubernetes.azure.com/os-sku", "operator": "NotIn", "values": ["Windows2022"]}]}
    ]));
    assert_eq!(decide(with(json!({"affinity": not_sku}))), (DetectedOs::Linux, Basis::Default));
    let tolerates = json!({"tolerations": [{"key": "os", "value": "windows"}]});
    assert_eq!(decide(with(tolerates)), (DetectedOs::Linux, Basis::Default));
}

#[test]
fn neutral_windows_options_are_no_evidence() {
    for options in [json!({}), json!({"hostProcess": false}), json!({"runAsUserName": "", "hostProcess": null})] {
        let of_pod = json!({"securityContext": {"windowsOptions": options}});
        assert_eq!(decide(with(of_pod)), (DetectedOs::Linux, Basis::Default), "{options}");
        let container = json!({"name": "c", "image": "app", "securityContext": {"windowsOptions": options}});
        assert_eq!(decide(json!({"containers": [container]})), (DetectedOs::Linux, Basis::Default), "{options}");
    }
    let options = json!({"hostProcess": false, "runAsUserName": "ContainerUser"});
    assert_eq!(decide(with(json!({"securityContext": {"windowsOptions": options}}))).0, DetectedOs::Windows);
}

/// The image of a volume decides only if it is for Windows, a container mounts it, and no container's image decides.
#[test]
fn volumes_decide_if_no_container_does() {
    use DetectedOs::{Linux, Undecided, Windows};
    const LINUX: &str = "mcr.microsoft.com/dotnet/sdk:8.0-alpine";
    const UNKNOWN: &str = "registry.example.com/app";
    const BOTH: &str = "mcr.microsoft.com/dotnet/sdk:8.0";
    for (container, volume, mounted, expected) in [
        (UNKNOWN, WINDOWS, "v", Windows),
        (BOTH, WINDOWS, "v", Windows),
        (UNKNOWN, WINDOWS, "w", Linux),
        (UNKNOWN, LINUX, "v", Linux),
        (LINUX, WINDOWS, "v", Linux),
        (WINDOWS, LINUX, "v", Windows),
    ] {
        let spec = json!({
            "containers": [{"name": "c", "image": container, "volumeMounts": [{"name": mounted, "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "image": {"reference": volume}}],
        });
        let outcome = create(&pod(spec));
        let decision = &outcome.review.decision;
        // Without evidence, the pod gets the Linux default.
        let by_default = decision.basis == Basis::Default || decision.os == Undecided;
        let os = if decision.os == Undecided { Linux } else { decision.os };
        assert_eq!(os, expected, "{container} {volume}: {decision:?}");
        assert_eq!(by_default, container == UNKNOWN && expected == Linux, "{container} {volume}: {decision:?}");
    }
    for volumes in [json!([{"name": "v", "image": "a"}]), json!([{"image": {"reference": 7}}, null, 7]), json!({})] {
        create(&pod(with(json!({"volumes": volumes}))));
    }
}

#[test]
fn images_decide_without_fields() {
    let images = |list: &[&str]| {
        let containers: Vec<Value> =
            list.iter().enumerate().map(|(i, image)| json!({"name": format!("c{i}"), "image": image})).collect();
        let outcome = create(&pod(json!({"containers": containers})));
        let rules: Vec<&str> = outcome.review.findings.iter().map(|finding| finding.rule).collect();
        (outcome.review.decision.os, rules)
    };
    assert_eq!(images(&[WINDOWS]).0, DetectedOs::Windows);
    assert_eq!(images(&[WINDOWS, "registry.example.com/app"]).0, DetectedOs::Windows);
    assert_eq!(images(&["nginx:1.27-alpine"]).0, DetectedOs::Linux);
    // an index for both systems decides nothing: the Linux default does
    assert_eq!(images(&["registry.k8s.io/pause:3.10"]).0, DetectedOs::Linux);
    assert_eq!(images(&[WINDOWS, "nginx:1.27-alpine"]), (DetectedOs::Undecided, vec!["mixed-os-containers"]));
    assert_eq!(images(&["{{ .Values.image }}"]).0, DetectedOs::Linux);
}

#[test]
fn scope_decides_only_if_the_pod_does_not() {
    let mut snapshot = snapshot();
    let annotations = [("mullion.dev/os".to_owned(), "windows".to_owned())].into();
    snapshot.namespaces.get_mut("default").unwrap().set_annotations(&annotations);
    let policies = mullion_policy::PolicySet::default();
    let decision = |spec: Value| create_in(&pod(with(spec)), &snapshot, &policies).review.decision.os;
    assert_eq!(decision(json!({})), DetectedOs::Windows);
    assert_eq!(decision(json!({"nodeSelector": {"kubernetes.io/os": "linux"}})), DetectedOs::Linux);
}

#[test]
fn any_declines_placement() {
    let mut object = with_image(WINDOWS);
    object["metadata"]["annotations"] = json!({"mullion.dev/os": "any"});
    let outcome = create(&object);
    assert!(outcome.mutate.patch.is_empty(), "{:?}", outcome.mutate.patch);
    object["spec"]["os"] = json!({"name": "windows"});
    object["spec"]["securityContext"] = json!({"runAsUser": 1000});
    assert!(create(&object).denial().contains("MUL201"));
}

#[test]
fn the_linux_default_needs_certainty() {
    let linux = (DetectedOs::Linux, Basis::Default);
    let none = DetectedOs::Undecided;
    assert_eq!(decide(with(json!({}))), linux);
    assert_eq!(decide(with(json!({"nodeSelector": {"disk": "ssd"}}))).0, DetectedOs::Linux);
    // no Linux node has that label: its author knows more than Mullion
    assert_eq!(decide(with(json!({"nodeSelector": {"pool": "unknown"}}))).0, none);
    for command in [json!(["powershell.exe", "-c", "x"]), json!(["cmd", "/c", "x"]), json!([r"C:\app\x.exe"])] {
        let spec = json!({"containers": [{"name": "c", "image": "app", "command": command}]});
        assert_eq!(decide(spec).0, none, "{command}");
    }
    for resource in ["microsoft.com/directx", "vpc.amazonaws.com/PrivateIPv4Address"] {
        for list in ["limits", "requests"] {
            let mut resources = json!({list: {"memory": "1Gi"}});
            resources[list][resource] = json!("1");
            let spec = json!({"containers": [{"name": "c", "image": "app", "resources": resources}]});
            assert_eq!(decide(spec).0, none, "{resource} in {list}");
        }
    }
    let gpu = json!({"containers": [{"name": "c", "image": "app", "resources": {"limits": {"nvidia.com/gpu": 1}}}]});
    assert_eq!(decide(gpu), linux, "nodes of both systems have it");
    let pipe = json!({"containers": [{"name": "c", "image": "app"}],
        "volumes": [{"name": "v", "hostPath": {"path": r"\\.\pipe\docker_engine"}}]});
    assert_eq!(decide(pipe).0, none);
}

#[test]
fn the_linux_default_depends_on_the_cluster() {
    use mullion_engine::model::Os;
    use mullion_engine::model::cluster::{ClusterSnapshot, Nodes};
    let decision = |nodes: Option<Vec<_>>| {
        let snapshot = ClusterSnapshot { nodes: nodes.map(Nodes::new), ..ClusterSnapshot::default() };
        let policies = mullion_policy::PolicySet::default();
        create_in(&pod(with(json!({}))), &snapshot, &policies).review.decision.os
    };
    let linux = || node("l", Os::Linux, None, &[]);
    let windows = || node("w", Os::Windows, Some(20348), &[]);
    let marked = || node("l", Os::Linux, None, &["cattle.io/os=linux:NoSchedule"]);
    let mut silent = linux();
    silent.os = None;
    assert_eq!(decision(None), DetectedOs::Linux, "unknown counts as mixed");
    assert_eq!(decision(Some(vec![linux()])), DetectedOs::Undecided, "no Windows nodes");
    assert_eq!(decision(Some(vec![linux(), windows()])), DetectedOs::Linux);
    assert_eq!(decision(Some(vec![marked(), windows()])), DetectedOs::Undecided, "Rancher: no selector means Windows");
    assert_eq!(decision(Some(vec![linux(), windows(), silent])), DetectedOs::Undecided, "a node without OS label");
}

#[test]
fn a_node_name_gives_tolerations_and_selector_at_most() {
    let mut object = pod(json!({"nodeName": "w2022", "containers": [{"name": "c", "image": "app",
        "securityContext": {"runAsUser": 1, "privileged": false}}]}));
    let outcome = create(&object);
    assert_eq!(outcome.review.decision.basis, Basis::Place);
    assert_eq!(outcome.selector(), Some("windows"));
    assert!(!outcome.denied());
    assert!(outcome.stored["spec"].get("os").is_none());
    assert_eq!(outcome.stored["spec"]["containers"][0]["securityContext"]["privileged"], json!(false));
    object["spec"]["nodeName"] = json!("l1");
    assert!(create(&object).mutate.patch.is_empty());
    object["spec"]["nodeName"] = json!("unknown");
    assert!(create(&object).mutate.patch.is_empty());
}
