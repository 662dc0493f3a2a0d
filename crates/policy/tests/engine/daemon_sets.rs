//! DaemonSets: decided in the template, and never rolled out without need.

use mullion_engine::model::cluster::{ClusterSnapshot, Node, Nodes, Taint};
use mullion_engine::model::{Operation, Os};
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::daemon_set_builds::excluded;
use crate::support::*;

pub(crate) const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

pub(crate) fn daemon_set(image: &str) -> Value {
    workload("DaemonSet", json!({"containers": [{"name": "c", "image": image}]}))
}

pub(crate) fn template(object: &Value) -> &Value {
    &object["spec"]["template"]
}

#[test]
fn a_new_linux_daemon_set_is_kept_on_linux_with_a_warning() {
    let outcome = create(&daemon_set("registry.example.com/agent:1"));
    assert_eq!(template(&outcome.stored)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert!(outcome.mutate.warnings.iter().any(|w| w.contains("mullion.dev/os: any")), "{:?}", outcome.mutate.warnings);
    assert!(outcome.mutate.warnings.iter().all(|w| w.chars().count() <= 120));
    assert!(template(&outcome.stored)["metadata"].get("annotations").is_none(), "the annotation is on the object");
    assert!(outcome.stored["metadata"]["annotations"]["mullion.dev/decision"].is_string());
}

#[test]
fn a_windows_daemon_set_gets_selector_tolerations_and_excluded_builds_only() {
    let outcome = create(&daemon_set(WINDOWS));
    let spec = &template(&outcome.stored)["spec"];
    assert_eq!(spec["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    assert_eq!(spec["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(excluded(&outcome.stored).len(), 1);
    for absent in ["runtimeClassName", "os"] {
        assert!(spec.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn a_multi_os_daemon_set_keeps_every_node() {
    let outcome = create(&daemon_set("registry.k8s.io/sig-storage/livenessprobe:v2.15.0"));
    assert!(outcome.mutate.patch.is_empty(), "{:?}", outcome.mutate.patch);
}

/// A DaemonSet that its author means for every node.
fn for_any(image: &str) -> Value {
    let mut any = daemon_set(image);
    any["metadata"]["annotations"] = json!({"mullion.dev/os": "any"});
    any
}

#[test]
fn a_daemon_set_for_any_system_tolerates_the_taints_of_both_and_selects_neither() {
    let mut both = snapshot();
    let taints = |os: Os, more: &str| {
        let node = node(more, os, None, &[more]);
        Node { name: format!("tainted-{}", os.name()), ..node }
    };
    let nodes = both.nodes.take().unwrap();
    let nodes = nodes.iter().map(Node::clone).chain([taints(Os::Linux, "cattle.io/os=linux:NoSchedule")]);
    both.nodes = Some(Nodes::new(nodes.collect()));
    let created = |object: &Value, policies: &PolicySet| outcome(Operation::Create, object, None, &both, policies);
    let own = for_any("registry.example.com/agent:1");
    let stored = created(&own, &PolicySet::default()).stored;
    let spec = &template(&stored)["spec"];
    assert!(spec.get("nodeSelector").is_none() && spec.get("affinity").is_none(), "{spec}");
    let tolerated = |spec: &Value| {
        let all = spec["tolerations"].as_array().cloned().unwrap_or_default();
        let text = |one: &Value| format!("{}={}", one["key"], one["value"]).replace('"', "");
        all.iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(tolerated(spec), ["cattle.io/os=linux", "os=Windows", "os=windows"], "{spec}");
    let annotation = stored["metadata"]["annotations"]["mullion.dev/decision"].as_str().unwrap();
    assert!(annotation.starts_with(r#"{"os":"any""#), "{annotation}");
    assert!(created(&stored, &PolicySet::default()).mutate.patch.is_empty(), "once is enough");

    // Its own version again, even if more taints are known by now: nothing is rolled out.
    let again = update(&stored, &own);
    assert_eq!((template(&again.stored), &again.stored["metadata"]), (template(&stored), &stored["metadata"]));
    // A changed template keeps them, and a change that another operating system decides loses the others.
    let next = update(&stored, &for_any("registry.example.com/agent:2")).stored;
    assert_eq!(template(&next)["spec"]["tolerations"], spec["tolerations"]);
    let windows = update(&stored, &daemon_set(WINDOWS)).stored;
    assert_eq!(tolerated(&template(&windows)["spec"]), ["os=Windows", "os=windows"]);
    assert_eq!(template(&windows)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "windows"}));

    // The author's own selector decides which taints; without the annotation nothing does, and policies can disable it.
    let mut selecting = own.clone();
    selecting["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    let stored = created(&selecting, &PolicySet::default()).stored;
    assert_eq!(tolerated(&template(&stored)["spec"]), ["os=Windows", "os=windows"]);
    let never = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\n\
                 spec: {place: {tolerations: {mode: Never}}}\n";
    let never = PolicySet::from_files(&[("a.yaml", never.to_owned())]).unwrap();
    assert!(created(&own, &never).mutate.patch.is_empty());
    let mut deployment = workload("Deployment", own["spec"]["template"]["spec"].clone());
    deployment["metadata"]["annotations"] = own["metadata"]["annotations"].clone();
    assert!(created(&deployment, &PolicySet::default()).mutate.patch.is_empty());
}

#[test]
fn a_multi_os_daemon_set_of_a_pool_keeps_the_nodes_that_come_tomorrow() {
    let of_pool = |image: &str, key: &str, value: &str| {
        let mut object = daemon_set(image);
        object["spec"]["template"]["spec"]["nodeSelector"] = json!({key: value});
        let stored = create(&object).stored;
        template(&stored)["spec"]["nodeSelector"]["kubernetes.io/os"].clone()
    };
    let multi = "registry.k8s.io/sig-storage/livenessprobe:v2.15.0";
    // currently only Linux nodes have that disk
    assert_eq!(of_pool(multi, "disk", "ssd"), Value::Null);
    assert_eq!(of_pool("registry.example.com/agent:1", "disk", "ssd"), "linux");
    // a pool of Windows nodes needs their tolerations
    assert_eq!(of_pool(multi, "agentpool", "win19"), "windows");
}

#[test]
fn a_default_gives_way_to_a_windows_image() {
    let stored = create(&daemon_set("registry.example.com/agent:1")).stored;
    let mut new = stored.clone();
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!(WINDOWS);
    let changed = update(&stored, &new).stored;
    assert_eq!(template(&changed)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    assert!(changed["metadata"]["annotations"]["mullion.dev/decision"].as_str().unwrap().contains("windows"));
    // an image that decides nothing, like the previous one, leaves the placement unchanged
    let mut opaque = stored.clone();
    opaque["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example.com/agent:2");
    assert_eq!(template(&update(&stored, &opaque).stored), template(&opaque));
    // and an author's own selector stays
    let mut own = daemon_set("registry.example.com/agent:1");
    own["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    let mut image = own.clone();
    image["spec"]["template"]["spec"]["containers"][0]["image"] = json!(WINDOWS);
    assert_eq!(template(&update(&own, &image).stored)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
}

#[test]
fn updates_that_leave_the_template_alone_change_nothing() {
    let old = daemon_set("registry.example.com/agent:1");
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({"touched": "yes"});
    new["status"] = json!({"numberReady": 3});
    let outcome = update(&old, &new);
    assert!(outcome.mutate.patch.is_empty() && !outcome.denied() && outcome.mutate.warnings.is_empty());
}

#[test]
fn an_update_gets_no_default() {
    let (old, new) = (daemon_set("registry.example.com/agent:1"), daemon_set("registry.example.com/agent:2"));
    assert!(update(&old, &new).mutate.patch.is_empty());
}

#[test]
fn a_controller_that_writes_its_own_version_again_rolls_nothing() {
    for image in ["registry.example.com/agent:1", WINDOWS] {
        let own = daemon_set(image);
        let stored = create(&own).stored;
        let again = update(&stored, &own);
        assert_eq!(template(&again.stored), template(&stored), "{image}");
        assert_eq!(again.stored["metadata"]["annotations"], stored["metadata"]["annotations"], "{image}");

        // even if the snapshot has changed since: another taint was seen
        let mut later = snapshot();
        later.seen_taints.insert(Taint::parse("node.kubernetes.io/os=windows:NoSchedule").unwrap());
        let again = outcome(Operation::Update, &own, Some(&stored), &later, &PolicySet::default());
        assert_eq!(template(&again.stored), template(&stored), "{image}");

        // or Mullion has just started and knows nothing
        let again = outcome(Operation::Update, &own, Some(&stored), &ClusterSnapshot::default(), &PolicySet::default());
        assert_eq!(template(&again.stored), template(&stored), "{image}");
    }
}

#[test]
fn a_real_template_change_keeps_the_placement_and_takes_what_is_new() {
    let stored = create(&daemon_set("registry.example.com/agent:1")).stored;
    let changed = update(&stored, &daemon_set("registry.example.com/agent:2")).stored;
    assert_eq!(template(&changed)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    // the author now decides for Windows: the old placement no longer applies
    let windows = update(&stored, &daemon_set(WINDOWS)).stored;
    assert_eq!(template(&windows)["spec"]["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    // if the author removes their own toleration, it is not restored
    let mut own = daemon_set("registry.example.com/agent:1");
    own["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    let kept = update(&create(&own).stored, &daemon_set("registry.example.com/agent:1")).stored;
    assert!(template(&kept)["spec"].get("nodeSelector").is_none());
}

#[test]
fn a_pod_of_a_daemon_set_is_never_denied_nor_pinned() {
    let affinity = |node: &str| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}})
    };
    let made = |image: &str, node: &str, security: Value| {
        let spec = json!({"affinity": affinity(node), "hostNetwork": true,
            "containers": [{"name": "c", "image": image, "securityContext": security}]});
        create(&owned_by(pod(spec), "DaemonSet"))
    };
    let bad = json!({"runAsUser": 1, "privileged": true});
    let windows = made(WINDOWS, "w2022", bad.clone());
    assert!(!windows.denied());
    assert!(windows.stored["spec"].get("runtimeClassName").is_none());
    assert_eq!(windows.stored["spec"]["affinity"], affinity("w2022"));
    // a Linux DaemonSet from before Mullion, on a Windows node: a selector would only leave it Pending
    let stray = made("nginx:1.27-alpine", "w2022", json!({}));
    assert!(stray.selector().is_none() && !stray.denied());
    let silent = made("registry.example.com/agent:1", "l1", json!({}));
    assert!(silent.mutate.patch.is_empty(), "{:?}", silent.mutate.patch);
    // a multi-OS DaemonSet's pod on a Windows node: its node decides
    let multi = made("registry.k8s.io/sig-storage/livenessprobe:v2.15.0", "w2022", bad);
    assert!(!multi.denied() && multi.stored["spec"].get("os").is_none());
    assert_eq!(multi.selector(), Some("windows"));
}
