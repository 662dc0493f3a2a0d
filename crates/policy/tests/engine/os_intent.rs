//! 1xx: findings about the workload's operating system, and their texts.

use mullion_engine::model::Os;
use mullion_engine::model::cluster::{ClusterSnapshot, Nodes};
use mullion_engine::model::settings::Action;
use mullion_engine::rules::{Finding, RejectedBy};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::support::*;

const LTSC2022: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

fn of(object: &Value, code: &str) -> Vec<Finding> {
    create(object).review.findings.into_iter().filter(|finding| finding.code == code).collect()
}

fn labelled(mut object: Value, value: &str) -> Value {
    object["metadata"]["labels"] = json!({"kubernetes.io/os": value});
    object
}

#[test]
fn a_pod_label_that_no_kubelet_accepts_is_denied_on_windows_only() {
    let windows = with_image(LTSC2022);
    assert!(of(&labelled(windows.clone(), "windows"), "MUL105").is_empty());
    let outcome = create(&labelled(windows.clone(), "linux"));
    assert!(outcome.denial().contains("metadata.labels[kubernetes.io/os]"), "{}", outcome.denial());
    // Its controller would create the next one forever; a pod of a DaemonSet is never denied.
    assert!(create(&owned_by(labelled(windows.clone(), "linux"), "ReplicaSet")).denied());
    assert!(!create(&owned_by(labelled(windows, "linux"), "DaemonSet")).denied());

    let mut linux = with_image("app");
    linux["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    let outcome = create(&labelled(linux, "windows"));
    assert!(!outcome.denied() && outcome.mutate.warnings[0].starts_with("MUL105"), "{:?}", outcome.mutate.warnings);
}

#[test]
fn a_windows_label_blocks_the_linux_default() {
    let outcome = create(&labelled(with_image("app"), "windows"));
    assert_eq!(outcome.selector(), None);
    assert_eq!(
        outcome.mutate.warnings,
        [
            "MUL108 no-default: metadata.labels[kubernetes.io/os]: looks like Windows; add nodeSelector kubernetes.io/os: windows"
        ]
    );
    assert_eq!(create(&labelled(with_image("app"), "linux")).selector(), Some("linux"));
}

#[test]
fn an_image_against_the_pod_is_named_once() {
    let placed = |os: &str, images: &[&str]| {
        let containers: Vec<Value> =
            images.iter().enumerate().map(|(n, image)| json!({"name": format!("c{n}"), "image": image})).collect();
        pod(json!({"nodeSelector": {"kubernetes.io/os": os}, "containers": containers}))
    };
    let codes = |object: &Value| -> Vec<&str> {
        let findings = create(object).review.findings;
        findings.iter().map(|f| f.code).filter(|code| ["MUL102", "MUL104"].contains(code)).collect()
    };
    assert_eq!(codes(&placed("windows", &["app:1-alpine"])), ["MUL104"]);
    assert_eq!(codes(&placed("linux", &[LTSC2022])), ["MUL104"]);
    assert_eq!(codes(&placed("windows", &["app:1-alpine", LTSC2022])), ["MUL102"], "they disagree with each other");
    assert_eq!(codes(&placed("windows", &["app:1", LTSC2022])), [""; 0]);
    assert_eq!(codes(&with_image("app:1-alpine")), [""; 0], "the image decides itself");
}

#[test]
fn reasons_against_the_default_are_reported_if_authors_can_act() {
    let mut pool = with_image("app");
    pool["spec"]["nodeSelector"] = json!({"pool": "gone"});
    assert_eq!(of(&pool, "MUL108")[0].path, "spec");
    assert!(of(&with_image("app"), "MUL108").is_empty(), "it was given");
    let mut shell = with_image("app");
    shell["spec"]["containers"][0]["command"] = json!(["powershell"]);
    assert_eq!(of(&shell, "MUL108")[0].path, "spec.containers[0].command");

    let linux_only = ClusterSnapshot {
        nodes: Some(Nodes::new(vec![node("l", Os::Linux, None, &[])])),
        ..ClusterSnapshot::default()
    };
    assert!(create_in(&shell, &linux_only, &PolicySet::default()).review.findings.is_empty(), "nowhere else to go");
    // The command line without a snapshot has no nodes: every selector would be a finding.
    assert!(create_in(&pool, &ClusterSnapshot::default(), &PolicySet::default()).review.findings.is_empty());
}

#[test]
fn tolerating_everything_is_reported_if_any_node_may_match() {
    let everything = |spec: Value| {
        let mut spec = spec;
        spec["containers"] = json!([{"name": "a", "image": "app"}]);
        spec["tolerations"] = json!([{"key": "a", "operator": "Exists"}, {"operator": "Exists"}]);
        pod(spec)
    };
    let open = everything(json!({"nodeSelector": {"pool": "gone"}}));
    assert_eq!(of(&open, "MUL107")[0].path, "spec.tolerations[1]");
    for closed in [
        everything(json!({})), // Linux by default
        everything(json!({"nodeSelector": {"kubernetes.io/os": "windows"}})),
        everything(json!({"nodeName": "l1"})),
    ] {
        assert!(of(&closed, "MUL107").is_empty(), "{closed}");
    }
    let mut meant = open;
    meant["metadata"]["annotations"] = json!({"mullion.dev/os": "any"});
    assert!(of(&meant, "MUL107").is_empty());
}

/// The pod's author wrote none of it, so a denial that requests a change of the sidecar's user would not help.
#[test]
fn findings_in_an_injected_sidecar_name_its_injector() {
    let sidecar = json!({"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.22.0",
        "securityContext": {"runAsUser": 1337, "readOnlyRootFilesystem": true}});
    let mut object = with_image(LTSC2022);
    object["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
    let outcome = create(&object);
    assert!(outcome.denial().contains("Istio added container istio-proxy: keep it off with"), "{}", outcome.denial());
    assert!(!outcome.denial().contains("runAsUserName"), "{}", outcome.denial());
    assert!(of(&object, "MUL601").is_empty(), "its limits are not the author's to set");
    object["spec"]["containers"][0]["securityContext"] = json!({"runAsUser": 0});
    assert_eq!(of(&object, "MUL201")[0].help.to_string(), "write windowsOptions.runAsUserName: ContainerUser");
}

#[test]
fn unknown_names() {
    let cases = [
        (json!({"os": {"name": "Windows"}}), "spec.os", "write windows", RejectedBy::ApiServer),
        (json!({"os": {}}), "spec.os.name", "write linux or windows", RejectedBy::ApiServer),
        (
            json!({"nodeSelector": {"kubernetes.io/os": "LINUX"}}),
            "spec.nodeSelector[kubernetes.io/os]",
            "write linux",
            RejectedBy::None,
        ),
        (
            json!({"nodeSelector": {"beta.kubernetes.io/os": "mac"}}),
            "spec.nodeSelector[beta.kubernetes.io/os]",
            "write linux or windows",
            RejectedBy::None,
        ),
    ];
    for (mut spec, path, help, rejected_by) in cases {
        spec["containers"] = json!([{"name": "c", "image": "app"}]);
        let found = of(&pod(spec.clone()), "MUL109");
        assert_eq!(found.len(), 1, "{spec}");
        let found = &found[0];
        let shown = found.help.to_string();
        let seen = (found.path.as_str(), shown.as_str(), found.rejected_by, found.action);
        assert_eq!(seen, (path, help, rejected_by, Action::Warn), "{spec}");
    }
}

#[test]
fn linux_pods_get_every_windows_option_the_server_rejects() {
    let options = json!({"windowsOptions": {}});
    let object = pod(json!({"os": {"name": "linux"}, "securityContext": options,
        "containers": [{"name": "a", "image": "app", "securityContext": options}, {"name": "b", "image": "app"}]}));
    let found = of(&object, "MUL103");
    let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["spec.securityContext.windowsOptions", "spec.containers[0].securityContext.windowsOptions"]);
    assert!(found.iter().all(|finding| finding.rejected_by == RejectedBy::ApiServer));
}

#[test]
fn an_injected_sidecar_is_named_with_its_opt_out() {
    let with = |name: &str, image: &str| {
        let sidecar = json!({"name": name, "image": image});
        pod(json!({"initContainers": [sidecar], "containers": [{"name": "web", "image": LTSC2022}]}))
    };
    let found = of(&with("istio-proxy", "registry.example.com/mirror/istio/proxyv2:1.24.1"), "MUL102");
    let sentence = found[0].sentence();
    assert_eq!(found.len(), 1);
    for word in ["spec.initContainers[0].image", "Istio added container istio-proxy", "sidecar.istio.io/inject"] {
        assert!(sentence.contains(word), "{sentence}");
    }
    // A sidecar that also exists for Windows is not a problem by itself, and neither is the author's own.
    for (name, image) in [("daprd", "docker.io/daprio/daprd:1.14.4"), ("proxy", "registry.example.com/proxy:1")] {
        assert!(of(&with(name, image), "MUL102").is_empty(), "{name}");
    }
    // On Linux it is not a finding.
    let mut linux = with("istio-proxy", "docker.io/istio/proxyv2:1.24.1");
    linux["spec"]["containers"][0]["image"] = json!("app");
    assert!(of(&linux, "MUL102").is_empty());
}

#[test]
fn an_image_that_its_node_cannot_run_is_reported() {
    let is_reported = |image: &str, node: &str| {
        let mut object = with_image(image);
        object["spec"]["nodeName"] = json!(node);
        let outcome = create(&object);
        assert!(!outcome.denied(), "{image} on {node}");
        outcome.validate.warnings.iter().any(|warning| warning.contains("MUL104"))
    };
    assert!(is_reported(LTSC2022, "l1") && is_reported("app:1-alpine", "w2022"));
    assert!(!is_reported(LTSC2022, "w2022") && !is_reported("app:1-alpine", "l1") && !is_reported(LTSC2022, "unknown"));
}
