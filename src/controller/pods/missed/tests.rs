#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests"
)]

use std::collections::BTreeMap;

use mullion_engine::admission::review;
use mullion_engine::model::cluster::{Fact, Namespace, Node, NodeParts, Nodes, Taint};
use mullion_engine::model::{ReviewRequest, WorkloadObject};
use mullion_policy::PolicySet;
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
        let build = build.map(mullion_engine::model::windows::Build::new);
        let mut labels = BTreeMap::from([("kubernetes.io/os".to_owned(), os.name().to_owned())]);
        labels.extend(build.map(|build| (WINDOWS_BUILD_LABEL.to_owned(), build.to_string())));
        let taints = if os == Os::Windows { vec![Taint::parse("os=windows:NoSchedule").unwrap()] } else { Vec::new() };
        Node {
            name: name.to_owned(),
            os: Some(os),
            labels: parts.labels(labels),
            taints: Fact::Parsed(taints.into()),
            build,
            ..Node::default()
        }
    };
    let nodes =
        vec![node("l", Os::Linux, None), node("w", Os::Windows, Some(20348)), node("old", Os::Windows, Some(17763))];
    let namespace = |annotation: Option<(&str, &str)>| {
        let annotations = annotation.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Namespace::new(BTreeMap::new(), &annotations)
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

fn review_of(object: &Value, policies: &PolicySet) -> Review {
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    let request = ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace, object });
    review(&request, &snapshot(), &policies.resolve(&request, &snapshot()))
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "7"}, "spec": spec})
}

/// A Windows pod with the OS node selector and without tolerations.
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
fn repaired(missed: &MissedPod) -> &[Value] {
    let MissedPod::Repair { tolerations, .. } = missed else { panic!("{missed:?}") };
    tolerations
}

/// The tolerations are appended, and everything else that is missing is reported, because its node may not be able to
/// run it.
#[test]
fn a_repair_contains_what_it_leaves_unrepaired() {
    let object = pod(json!({"containers": [{"name": "c", "image": WINDOWS}]}));
    for (reviewed, expected) in [(false, true), (true, false)] {
        let missed = assess(&review_of(&object, &PolicySet::built_in()), &object, &snapshot(), reviewed);
        let MissedPod::Repair { unrepaired, .. } = missed else { panic!("{missed:?}") };
        assert_eq!(format!("{unrepaired:?}").contains("kubernetes.io/os: windows"), expected, "{unrepaired:?}");
    }
}

#[test]
fn missing_tolerations_are_a_repair() {
    let built_in = PolicySet::built_in();
    for object in [
        windows(),
        with(windows(), owned("ReplicaSet", "apps/v1")),
        with(windows(), owned("Workflow", "argoproj.io/v1alpha1")),
        with(windows(), |pod| pod["spec"]["tolerations"] = json!([{"key": "team", "operator": "Exists"}])),
        // Other missing fields do not prevent the repair.
        pod(json!({"containers": [{"name": "c", "image": WINDOWS}]})),
    ] {
        for reviewed in [false, true] {
            let missed = assess(&review_of(&object, &built_in), &object, &snapshot(), reviewed);
            assert_eq!(repaired(&missed), [ours()], "{object}");
        }
    }
    let listed = policies("place: {tolerations: {mode: Listed, add: [{key: team, operator: Exists}]}}");
    let missed = assess(&review_of(&windows(), &listed), &windows(), &snapshot(), false);
    assert_eq!(repaired(&missed), [json!({"key": "team", "operator": "Exists"})]);
}

#[test]
fn pods_out_of_scope_need_nothing() {
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
        // Its namespace rejects the missing tolerations; nothing else is missing.
        with(windows(), |pod| {
            pod["metadata"]["namespace"] = json!("listed");
            pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": WINDOWS_BUILD_LABEL, "operator": "Exists"}]}]}}});
        }),
    ] {
        assert_eq!(assess(&review_of(&object, &built_in), &object, &snapshot(), false), MissedPod::Nothing, "{object}");
    }
    for spec in ["mode: Audit", "mode: Disabled"] {
        let policies = policies(spec);
        assert_eq!(
            assess(&review_of(&windows(), &policies), &windows(), &snapshot(), false),
            MissedPod::Nothing,
            "{spec}"
        );
    }
}

fn tolerant(object: Value) -> Value {
    with(object, |pod| pod["spec"]["tolerations"] = json!([{"key": "os", "operator": "Exists"}]))
}

#[test]
fn what_cannot_be_added_is_reported() {
    let built_in = PolicySet::built_in();
    let bare = tolerant(pod(json!({"containers": [{"name": "c", "image": WINDOWS}]})));
    let affinity = "the node affinity away from builds that cannot run its images";
    let os = "nodeSelector kubernetes.io/os: windows";
    // The affinity also excludes builds that no node has, because nodes may join; that alone is not reported.
    let without_nodes = ClusterSnapshot { nodes: Some(Nodes::new(Vec::new())), ..snapshot() };
    let missed = assess(&review_of(&tolerant(windows()), &built_in), &tolerant(windows()), &without_nodes, false);
    assert_eq!(missed, MissedPod::Nothing);
    let lacks =
        |words: &[&str]| MissedPod::Report(MissedReport::Lacks(words.iter().map(|word| (*word).to_owned()).collect()));
    for (object, spec, expected) in [
        (bare.clone(), "", lacks(&[os, affinity])),
        (tolerant(windows()), "", lacks(&[affinity])),
        (bare.clone(), "place: {nodeSelector: {mode: Never}, build: {mode: Never}}", MissedPod::Nothing),
        // The OS field and the label alone are not reported.
        (tolerant(windows()), "place: {build: {mode: Never}}", MissedPod::Nothing),
        (
            tolerant(windows()),
            "place: {build: {mode: Exact}}",
            lacks(&["nodeSelector node.kubernetes.io/windows-build: 10.0.20348"]),
        ),
    ] {
        let policies = if spec.is_empty() { built_in.clone() } else { policies(spec) };
        let review = review_of(&object, &policies);
        assert_eq!(assess(&review, &object, &snapshot(), false), expected, "{object} {spec}");
        // After a review, they are missing on purpose.
        assert_eq!(assess(&review, &object, &snapshot(), true), MissedPod::Nothing, "{object} {spec}");
    }
}

#[test]
fn what_would_have_been_denied_is_reported_and_not_repaired() {
    let built_in = PolicySet::built_in();
    let object = with(windows(), |pod| pod["spec"]["hostNetwork"] = json!(true));
    let review = review_of(&object, &built_in);
    let MissedPod::Report(MissedReport::Denied(why)) = assess(&review, &object, &snapshot(), false) else {
        panic!("{review:?}")
    };
    assert!(why.len() == 1 && why[0].contains("spec.hostNetwork"), "{why:?}");
    // Mullion allowed it, so what changed since does not matter.
    assert_eq!(repaired(&assess(&review, &object, &snapshot(), true)), [ours()]);
}

#[test]
fn only_intent_makes_a_bound_pod_misplaced() {
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
        assert_eq!(intended_os(&review_of(&object, &built_in), node), expected, "{object}");
    }
    for spec in ["mode: Audit", "mode: Disabled"] {
        assert_eq!(intended_os(&review_of(&image(LINUX), &policies(spec)), Os::Windows), None, "{spec}");
    }
}

#[test]
fn a_build_that_cannot_run_the_images_is_the_wrong_one() {
    let built_in = PolicySet::built_in();
    let snapshot = snapshot();
    let node = |name: &str| snapshot.nodes.as_ref().unwrap().get(name).unwrap();
    let excludes = |object: &Value, policies: &PolicySet, on: &str| {
        excludes_build(&review_of(object, policies), object, node(on), node(on).build.unwrap())
    };
    let bare = pod(json!({"containers": [{"name": "c", "image": WINDOWS}]}));
    // As Mullion placed it, before the build of its node changed.
    let required = |operator: &str, build: &str| {
        with(bare.clone(), |pod| {
            let requirement = json!({"key": WINDOWS_BUILD_LABEL, "operator": operator, "values": [build]});
            pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}});
        })
    };
    for (object, on, expected) in [
        (bare.clone(), "old", true),
        (bare.clone(), "w", false),
        (windows(), "old", true),
        (required("NotIn", "10.0.17763"), "old", true),
        (required("In", "10.0.20348"), "old", true),
        (required("NotIn", "10.0.17763"), "w", false),
        (with(windows(), |pod| pod["spec"]["nodeSelector"]["pool"] = json!("other")), "old", false),
        (pod(json!({"containers": [{"name": "c", "image": LINUX}]})), "old", false),
        (pod(json!({"containers": [{"name": "c", "image": "nginx"}]})), "old", false),
        (with(bare.clone(), |pod| pod["metadata"]["namespace"] = json!("ignored")), "old", false),
        (pod(json!({"containers": "none"})), "old", false),
    ] {
        assert_eq!(excludes(&object, &built_in, on), expected, "{object} on {on}");
    }
    for spec in ["mode: Audit", "mode: Disabled", "place: {build: {mode: Never}}"] {
        assert!(!excludes(&bare, &policies(spec), "old"), "{spec}");
    }
}

proptest! {
    /// A repaired pod needs no other repair.
    #[test]
    fn a_second_pass_repairs_nothing(
        selector in any::<bool>(),
        image in prop::sample::select(vec![WINDOWS, LINUX, "nginx", ""]),
        tolerations in prop::collection::vec(
            prop::sample::select(vec![
                json!({"key": "os", "operator": "Exists"}), json!({"key": "OS", "value": "windows"}),
                json!({"operator": "Exists", "effect": "NoExecute"}), json!({"key": "team", "operator": "Gt", "value": "1"}),
                json!("malformed"),
            ]),
            0..4,
        ),
        reviewed in any::<bool>(),
    ) {
        let mut object = pod(json!({"containers": [{"name": "c", "image": image}], "tolerations": tolerations}));
        if selector {
            object["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
        }
        let policies = PolicySet::built_in();
        if let MissedPod::Repair { tolerations: missing, .. } = assess(&review_of(&object, &policies), &object, &snapshot(), reviewed) {
            let patch = repair::toleration_patch(&object, &missing).expect("something to append");
            json_patch::merge(&mut object, &patch);
            let again = assess(&review_of(&object, &policies), &object, &snapshot(), reviewed);
            prop_assert!(!matches!(again, MissedPod::Repair { .. }), "{:?}", again);
        }
    }
}
