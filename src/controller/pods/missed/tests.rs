#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

use std::collections::BTreeMap;

use mullion_engine::admission::review::review;
use mullion_engine::model::cluster::namespace::Namespace;
use mullion_engine::model::cluster::node_labels::NodeParts;
use mullion_engine::model::cluster::nodes::{Node, Nodes};
use mullion_engine::model::cluster::taint::Taint;
use mullion_engine::model::review_request::{Operation, ReviewRequest};
use mullion_engine::model::workload::WorkloadObject;
use mullion_policy::policy_set::PolicySet;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::controller::pods::repair;

const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
const LINUX: &str = "registry.example.com/app:1.0-linux";

/// A Linux node, and Windows nodes with `os=windows:NoSchedule` of a build that runs [`WINDOWS`] and of one that does not.
fn snapshot() -> ClusterSnapshot {
    let mut parts = NodeParts::default();
    let mut node = |name: &str, os: Os, build: Option<u32>| {
        let build = build.map(mullion_engine::model::windows::build::Build::new);
        let mut labels = BTreeMap::from([("kubernetes.io/os".to_owned(), os.name().to_owned())]);
        labels.extend(build.map(|build| (WINDOWS_BUILD_LABEL.to_owned(), build.to_string())));
        let taints = if os == Os::Windows { vec![Taint::parse("os=windows:NoSchedule").unwrap()] } else { Vec::new() };
        Node {
            name: name.to_owned(),
            os: Some(os),
            labels: parts.labels(labels),
            taints: taints.into(),
            build,
            ..Node::default()
        }
    };
    let nodes =
        vec![node("l", Os::Linux, None), node("w", Os::Windows, Some(20348)), node("old", Os::Windows, Some(17763))];
    let namespace = |annotation: Option<(&str, &str)>| Namespace {
        annotations: annotation.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ..Namespace::default()
    };
    let whitelist = r#"[{"key": "team", "operator": "Exists"}]"#;
    ClusterSnapshot {
        nodes: Some(Nodes::new(nodes)),
        runtime_classes: Some(BTreeMap::new()),
        namespaces: [
            ("shop", None),
            ("ignored", Some(("mullion.dev/ignore", "true"))),
            ("listed", Some(("scheduler.alpha.kubernetes.io/tolerationsWhitelist", whitelist))),
        ]
        .into_iter()
        .map(|(name, annotation)| (name.to_owned(), namespace(annotation)))
        .collect(),
        ..ClusterSnapshot::default()
    }
}

fn policies(spec: &str) -> PolicySet {
    let text = format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: p}}\nspec: {{{spec}}}\n");
    PolicySet::from_files(&[("p.yaml", text)]).unwrap()
}

fn reviewed_as(object: &Value, policies: &PolicySet) -> Review {
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    let request = ReviewRequest {
        operation: Operation::Create,
        subresource: None,
        workload: WorkloadObject { kind: WorkloadKind::Pod, namespace, object },
        old: None,
        into_templates: false,
        at_validate: false,
        images: None,
        namespace: None,
    };
    review(&request, &snapshot(), &policies.resolve(&request, &snapshot()))
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "7"}, "spec": spec})
}

/// A Windows pod that says so, and lacks tolerations.
fn windows() -> Value {
    pod(json!({"nodeSelector": {"kubernetes.io/os": "windows"},
        "containers": [{"name": "c", "image": WINDOWS, "resources": {"limits": {"memory": "1Gi"}}}]}))
}

fn with(mut object: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut object);
    object
}

fn owned(kind: &str, group: &str) -> impl FnOnce(&mut Value) {
    let owner = json!([{"apiVersion": group, "kind": kind, "name": "web", "uid": "o", "controller": true}]);
    move |object| object["metadata"]["ownerReferences"] = owner
}

fn ours() -> Value {
    json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"})
}

/// The tolerations to append.
fn repaired(missed: &Missed) -> &[Value] {
    let Missed::Repair { tolerations, .. } = missed else { panic!("{missed:?}") };
    tolerations
}

/// It is helped, and what it lacks besides is told: it may land where it cannot run.
#[test]
fn a_repair_says_what_it_leaves_undone() {
    let object = pod(json!({"containers": [{"name": "c", "image": WINDOWS}]}));
    for (seen, undone) in [(false, true), (true, false)] {
        let found = missed(&reviewed_as(&object, &PolicySet::built_in()), &object, &snapshot(), seen);
        let Missed::Repair { undone: left, .. } = found else { panic!("{found:?}") };
        assert_eq!(format!("{left:?}").contains("kubernetes.io/os: windows"), undone, "{left:?}");
    }
}

#[test]
fn missing_tolerations_are_a_repair() {
    let policies = PolicySet::built_in();
    for object in [
        windows(),
        with(windows(), owned("ReplicaSet", "apps/v1")),
        with(windows(), owned("Workflow", "argoproj.io/v1alpha1")),
        with(windows(), |pod| pod["spec"]["tolerations"] = json!([{"key": "team", "operator": "Exists"}])),
        // What it lacks besides is no reason not to help.
        pod(json!({"containers": [{"name": "c", "image": WINDOWS}]})),
    ] {
        for seen in [false, true] {
            let found = missed(&reviewed_as(&object, &policies), &object, &snapshot(), seen);
            assert_eq!(repaired(&found), [ours()], "{object}");
        }
    }
    let added = crate::controller::pods::missed::tests::policies(
        "place: {tolerations: {mode: Listed, add: [{key: team, operator: Exists}]}}",
    );
    let found = missed(&reviewed_as(&windows(), &added), &windows(), &snapshot(), false);
    assert_eq!(repaired(&found), [json!({"key": "team", "operator": "Exists"})]);
}

#[test]
fn what_is_not_ours_or_not_due_is_nothing() {
    let built_in = PolicySet::built_in();
    for object in [
        with(windows(), owned("DaemonSet", "apps/v1")),
        with(windows(), |pod| pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"})),
        with(windows(), |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
        with(windows(), |pod| pod["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}])),
        with(windows(), |pod| pod["spec"]["nodeName"] = json!("w")),
        with(windows(), |pod| pod["metadata"]["namespace"] = json!("ignored")),
        with(windows(), |pod| pod["metadata"]["annotations"] = json!({"mullion.dev/os": "any"})),
        pod(json!({"containers": [{"name": "c", "image": "nginx"}]})),
        pod(json!({"containers": [{"name": "c", "image": LINUX}]})),
        pod(json!(null)),
        pod(json!({"containers": "none"})),
        // Its namespace lets in nothing that it lacks; nothing else is missing.
        with(windows(), |pod| {
            pod["metadata"]["namespace"] = json!("listed");
            pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": WINDOWS_BUILD_LABEL, "operator": "Exists"}]}]}}});
        }),
    ] {
        assert_eq!(missed(&reviewed_as(&object, &built_in), &object, &snapshot(), false), Missed::Nothing, "{object}");
    }
    for spec in ["mode: Audit", "mode: Disabled"] {
        let policies = policies(spec);
        assert_eq!(
            missed(&reviewed_as(&windows(), &policies), &windows(), &snapshot(), false),
            Missed::Nothing,
            "{spec}"
        );
    }
}

fn tolerant(object: Value) -> Value {
    with(object, |pod| pod["spec"]["tolerations"] = json!([{"key": "os", "operator": "Exists"}]))
}

#[test]
fn what_cannot_be_added_any_more_is_reported() {
    let built_in = PolicySet::built_in();
    let bare = tolerant(pod(json!({"containers": [{"name": "c", "image": WINDOWS}]})));
    let affinity = "the node affinity away from builds that cannot run its images";
    let os = "nodeSelector kubernetes.io/os: windows";
    // A build that no node has is kept away from all the same, for those that may come; that alone is no news.
    let elsewhere = ClusterSnapshot { nodes: Some(Nodes::new(Vec::new())), ..snapshot() };
    let found = missed(&reviewed_as(&tolerant(windows()), &built_in), &tolerant(windows()), &elsewhere, false);
    assert_eq!(found, Missed::Nothing);
    let lacks = |words: &[&str]| Missed::Report(Report::Lacks(words.iter().map(|word| (*word).to_owned()).collect()));
    for (object, spec, expected) in [
        (bare.clone(), "", lacks(&[os, affinity])),
        (tolerant(windows()), "", lacks(&[affinity])),
        (bare.clone(), "place: {nodeSelector: {mode: Never}, build: {mode: Never}}", Missed::Nothing),
        // The seal and the label alone are no reason to trouble anybody.
        (tolerant(windows()), "place: {build: {mode: Never}}", Missed::Nothing),
        (
            tolerant(windows()),
            "place: {build: {mode: Exact}}",
            lacks(&["nodeSelector node.kubernetes.io/windows-build: 10.0.20348"]),
        ),
    ] {
        let policies = if spec.is_empty() { built_in.clone() } else { policies(spec) };
        let review = reviewed_as(&object, &policies);
        assert_eq!(missed(&review, &object, &snapshot(), false), expected, "{object} {spec}");
        // What Mullion saw it left as it is on purpose.
        assert_eq!(missed(&review, &object, &snapshot(), true), Missed::Nothing, "{object} {spec}");
    }
}

#[test]
fn what_would_have_been_refused_is_not_helped_but_reported() {
    let built_in = PolicySet::built_in();
    let object = with(windows(), |pod| pod["spec"]["hostNetwork"] = json!(true));
    let review = reviewed_as(&object, &built_in);
    let Missed::Report(Report::Refused(why)) = missed(&review, &object, &snapshot(), false) else {
        panic!("{review:?}")
    };
    assert!(why.len() == 1 && why[0].contains("spec.hostNetwork"), "{why:?}");
    // Mullion let it in, whatever has changed since.
    assert_eq!(repaired(&missed(&review, &object, &snapshot(), true)), [ours()]);
}

#[test]
fn bound_pods_are_misplaced_by_intent_only() {
    let built_in = PolicySet::built_in();
    let image = |image: &str| pod(json!({"containers": [{"name": "c", "image": image}]}));
    for (object, node, expected) in [
        (image(LINUX), Os::Windows, Some(Os::Linux)),
        (image(LINUX), Os::Linux, None),
        (image(WINDOWS), Os::Linux, Some(Os::Windows)),
        (image(WINDOWS), Os::Windows, None),
        // The Linux default is a guess.
        (image("registry.example.com/app"), Os::Windows, None),
        (image("nginx"), Os::Windows, None),
        (
            with(image(LINUX), |pod| pod["metadata"]["annotations"] = json!({"mullion.dev/os": "any"})),
            Os::Windows,
            None,
        ),
        (with(image(LINUX), |pod| pod["metadata"]["namespace"] = json!("ignored")), Os::Windows, None),
        (with(image(LINUX), owned("DaemonSet", "apps/v1")), Os::Windows, Some(Os::Linux)),
    ] {
        assert_eq!(misplaced(&reviewed_as(&object, &built_in), node), expected, "{object}");
    }
    for spec in ["mode: Audit", "mode: Disabled"] {
        assert_eq!(misplaced(&reviewed_as(&image(LINUX), &policies(spec)), Os::Windows), None, "{spec}");
    }
}

proptest! {
    /// Once helped, a pod is not helped again.
    #[test]
    fn a_second_pass_repairs_nothing(
        selector in any::<bool>(),
        image in prop::sample::select(vec![WINDOWS, LINUX, "nginx", ""]),
        tolerations in prop::collection::vec(
            prop::sample::select(vec![
                json!({"key": "os", "operator": "Exists"}), json!({"key": "OS", "value": "windows"}),
                json!({"operator": "Exists", "effect": "NoExecute"}), json!({"key": "team", "operator": "Gt", "value": "1"}),
                json!("strange"),
            ]),
            0..4,
        ),
        seen in any::<bool>(),
    ) {
        let mut object = pod(json!({"containers": [{"name": "c", "image": image}], "tolerations": tolerations}));
        if selector {
            object["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
        }
        let policies = PolicySet::built_in();
        if let Missed::Repair { tolerations: missing, .. } = missed(&reviewed_as(&object, &policies), &object, &snapshot(), seen) {
            let patch = repair::patch(&object, &missing).expect("something to append");
            json_patch::merge(&mut object, &patch);
            let again = missed(&reviewed_as(&object, &policies), &object, &snapshot(), seen);
            prop_assert!(!matches!(again, Missed::Repair { .. }), "{:?}", again);
        }
    }
}
