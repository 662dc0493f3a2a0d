#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::sync::Arc;

use proptest::prelude::*;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::*;
use crate::model::names::{WINDOWS_BUILD_LABEL, WINDOWS_RELEASE_LABEL};
use crate::model::settings::{Mode, policy_taint};
use crate::node::taint_blockers::{DaemonSetClaim, claim};
use crate::patch::compile;

fn daemon_set(spec: &Value) -> DaemonSetFacts {
    // With Ready pods somewhere, so that every claim is at least doubtful.
    let placement = SchedulingConstraints::deserialize(spec).unwrap();
    DaemonSetFacts { name: "kube-system/d".to_owned(), placement, belongs: false, any_ready: true }
}

fn terms(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": terms}}}})
}

fn affinity(key: &str, operator: &str, values: &[&str]) -> Value {
    terms(&json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
}

fn with(change: impl FnOnce(&mut NodeSettings)) -> NodeSettings {
    let mut policy = NodeSettings::default();
    change(&mut policy);
    policy
}

fn allowed(policy: &NodeSettings, spec: &Value, waited_for: &[TaintBlocker]) -> bool {
    let waited_for = waited_for.iter().cloned().collect();
    let claimants = Claimants { policies: String::new(), daemons: Arc::new(vec![daemon_set(spec)]), waited_for };
    taint_on_create(policy, &claimants).is_some()
}

fn waited(name: &str) -> TaintBlocker {
    TaintBlocker::DaemonSet(format!("kube-system/{name}"))
}

#[test]
fn only_daemonsets_that_new_windows_nodes_might_want_hold_it_back() {
    let windows = |value: &Value| {
        let mut spec = json!({"nodeSelector": {"kubernetes.io/os": "windows"}});
        spec["tolerations"] = value.clone();
        spec
    };
    // The template, whether the taint may come with CREATE, and whether it may come while a node waits for the
    // DaemonSet.
    let cases = [
        (windows(&json!(null)), false, false),
        (windows(&json!([{"operator": "Exists"}])), true, true),
        (windows(&json!([{"key": "os", "operator": "Exists"}])), true, true),
        (windows(&json!([{"key": "os", "value": "windows"}])), true, true),
        (windows(&json!([{"key": "os", "value": "Windows"}])), false, false),
        (windows(&json!([{"key": "os", "operator": "Exists", "effect": "NoExecute"}])), false, false),
        // Clearly not for Windows.
        (json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), true, true),
        (json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}), true, true),
        (affinity("kubernetes.io/os", "NotIn", &["windows"]), true, true),
        (affinity("kubernetes.io/os", "In", &["linux"]), true, true),
        (affinity("kubernetes.io/os", "DoesNotExist", &[]), true, true),
        (terms(&json!([])), true, true),
        (terms(&json!([{}])), true, true),
        // For Windows, possibly with labels that no node has now.
        (affinity("kubernetes.io/os", "In", &["windows"]), false, false),
        (affinity("kubernetes.io/os", "NotIn", &["linux"]), false, false),
        (json!({"nodeSelector": {"kubernetes.io/os": "windows", "pool": "not-there-yet"}}), false, false),
        (json!({"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}}), false, false),
        (affinity("node.kubernetes.io/windows-build", "Exists", &[]), false, false),
        (
            terms(&json!([
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]},
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]},
                    {"key": "pool", "operator": "In", "values": ["x"]}]},
            ])),
            false,
            false,
        ),
        // For no OS in particular.
        (json!({}), true, false),
        (json!({"nodeSelector": {"pool": "x"}}), true, false),
        (affinity("node.kubernetes.io/windows-build", "DoesNotExist", &[]), true, false),
        (affinity("beta.kubernetes.io/os", "NotIn", &["windows"]), true, false),
        (affinity("kubernetes.io/os", "Exists", &[]), true, false),
        (affinity("kubernetes.io/os", "FromTheFuture", &["linux"]), true, false),
        (terms(&json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w1"]}]}])), true, false),
    ];
    let policy = NodeSettings::default();
    for (spec, free, waiting) in cases {
        assert_eq!(allowed(&policy, &spec, &[]), free, "{spec}");
        assert_eq!(allowed(&policy, &spec, &[waited("d")]), waiting, "{spec}, waited for");
        // The result is the same if the blockers cannot be read.
        let unknown = TaintBlocker::Unknown("the list of the node's pods");
        assert_eq!(allowed(&policy, &spec, &[unknown]), waiting, "{spec}, unknown");
        let others = [waited("e"), TaintBlocker::Pod("a/b".to_owned())];
        assert_eq!(allowed(&policy, &spec, &others), free, "{spec}, others waited for");
    }
}

type Case<'c> = (fn(&mut NodeSettings), &'c Value, bool);

#[test]
fn the_policy_decides_first() {
    let windows = json!({"nodeSelector": {"kubernetes.io/os": "windows"}});
    let linux = json!({"nodeSelector": {"kubernetes.io/os": "linux"}});
    let cases: [Case<'_>; 6] = [
        (|policy| policy.taint.apply = ApplyTaint::Always, &windows, true),
        (|policy| policy.taint.apply = ApplyTaint::Never, &linux, false),
        (|policy| policy.mode = Mode::Audit, &linux, false),
        (|policy| policy.mode = Mode::Disabled, &linux, false),
        (|policy| policy.taint.effect = "NoExecute".to_owned(), &windows, false),
        (|policy| policy.taint.effect = "NoExecute".to_owned(), &linux, true),
    ];
    for (at, (change, spec, expected)) in cases.into_iter().enumerate() {
        assert_eq!(allowed(&with(change), spec, &[]), expected, "case {at}");
    }
    let found = taint_on_create(&with(|policy| policy.taint.value = "win".to_owned()), &Claimants::default());
    assert_eq!(found.unwrap().to_string(), "os=win:NoSchedule");
}

fn node(labels: &[(&str, &str)], taints: &Value) -> NodeFacts {
    NodeFacts {
        name: "w".to_owned(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        taints: serde_json::from_value(taints.clone()).unwrap(),
        kernel_version: "10.0.20348.2655".to_owned(),
        ..NodeFacts::default()
    }
}

/// The object after the patch, as the API server applies it.
fn patched(object: &Value, patch: &NodePatch) -> Value {
    let operations = compile(object, &changes(patch));
    let mut after = object.clone();
    json_patch::patch(&mut after, &operations).unwrap();
    after
}

#[test]
fn a_new_node_gets_what_the_controller_would_give_it() {
    let policy = NodeSettings::default();
    let allowed = policy_taint(&policy);
    let windows = [("kubernetes.io/os", "windows")];
    let unready = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    let patch = plan_create(&node(&windows, &unready), &policy, &allowed).unwrap();
    let object =
        json!({"metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows"}}, "spec": {"taints": unready}});
    let after = patched(&object, &patch);
    assert_eq!(
        after["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "os", "value": "windows", "effect": "NoSchedule"}])
    );
    assert_eq!(after["metadata"]["labels"]["mullion.dev/windows-release"], "ltsc2022");
    assert_eq!(after["metadata"]["labels"]["node.kubernetes.io/windows-build"], "10.0.20348");
    assert!(after["metadata"]["annotations"][OWNED_ANNOTATION].as_str().unwrap().contains("\"taint\""), "{after}");
    // Members that are null are created.
    let bare = json!({"metadata": {"name": "w", "labels": null, "annotations": null}, "spec": {"taints": null}});
    assert_eq!(patched(&bare, &patch)["spec"]["taints"][1]["key"], "os");
    // The node is marked already: it gets labels, and no second taint.
    let marked = node(&windows, &json!([{"key": "os", "value": "Windows", "effect": "NoSchedule"}]));
    let patch = plan_create(&marked, &policy, &allowed).unwrap();
    assert!(patch.taints.is_none() && patch.labels.contains_key("mullion.dev/windows-release"), "{patch:?}");
}

#[test]
fn in_doubt_a_new_node_gets_nothing() {
    let policy = NodeSettings::default();
    let allowed = policy_taint(&policy);
    for labels in [
        &[][..],
        &[("kubernetes.io/os", "linux")],
        &[("kubernetes.io/os", "plan9")],
        &[("beta.kubernetes.io/os", "windows")],
        &[("kubernetes.io/os", "windows"), ("type", "virtual-kubelet")],
    ] {
        assert_eq!(plan_create(&node(labels, &json!([])), &policy, &allowed), None, "{labels:?}");
    }
    let windows = node(&[("kubernetes.io/os", "windows")], &json!([]));
    for change in [
        (|policy: &mut NodeSettings| policy.mode = Mode::Audit) as fn(&mut NodeSettings),
        |policy| policy.mode = Mode::Disabled,
        |policy| policy.taint.apply = ApplyTaint::Never,
        // The allowed taint is that of another policy.
        |policy| policy.taint.key = "other".to_owned(),
    ] {
        assert_eq!(plan_create(&windows, &with(change), &allowed), None);
    }
}

fn requirement() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![OS_LABEL, OLD_OS_LABEL, WINDOWS_BUILD_LABEL, "pool"]);
    let operator = prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    let values = prop::collection::vec(prop::sample::select(vec!["windows", "linux", "10.0.20348", "a"]), 1..3);
    (key, operator, values).prop_map(|(key, operator, values)| {
        let values = if operator.ends_with("In") { values } else { Vec::new() };
        json!({"key": key, "operator": operator, "values": values})
    })
}

proptest! {
    /// A DaemonSet or pod that blocks the taint on an existing node also blocks it at CREATE.
    #[test]
    fn at_create_the_taint_waits_for_what_the_controller_waits_for(
        requirements in prop::collection::vec(prop::collection::vec(requirement(), 1..3), 1..3),
        selector in prop::option::of(prop::sample::select(vec![OS_LABEL, OLD_OS_LABEL, "pool"])),
        value in prop::sample::select(vec!["windows", "linux", "a"]),
        pool in prop::option::of(prop::sample::select(vec!["a", "b"])),
        old in any::<bool>(),
    ) {
        let all: Vec<Value> = requirements.iter().map(|terms| json!({"matchExpressions": terms})).collect();
        let mut spec = terms(&json!(all));
        if let Some(key) = selector {
            spec["nodeSelector"] = json!({key: value});
        }
        let mut labels = vec![(OS_LABEL, "windows"), (WINDOWS_BUILD_LABEL, "10.0.20348")];
        labels.extend(pool.map(|pool| ("pool", pool)));
        labels.extend(old.then_some((OLD_OS_LABEL, "windows")));
        let policy = NodeSettings::default();
        let claim = claim(&daemon_set(&spec), &node(&labels, &json!([])), &policy_taint(&policy));
        let waited = if claim == DaemonSetClaim::Doubtful { vec![waited("d")] } else { Vec::new() };
        if claim != DaemonSetClaim::None {
            prop_assert!(!allowed(&policy, &spec, &waited), "{claim:?} {spec}");
        }
    }

    /// With whatever a kubelet registers, the patch applies, keeps every taint, and leaves nothing more to do.
    #[test]
    fn the_patch_is_the_plan(
        taints in prop::collection::vec(prop::sample::select(vec![
            json!({"key": "spot", "value": "true", "effect": "NoSchedule"}),
            json!({"key": "os", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}),
            json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}),
            json!({"key": "OS", "value": "Windows", "effect": "NoSchedule"}),
        ]), 0..4),
        release in prop::option::of(Just("wrong")),
    ) {
        let policy = NodeSettings::default();
        let mut labels = vec![(OS_LABEL, "windows")];
        labels.extend(release.map(|release| (WINDOWS_RELEASE_LABEL, release)));
        let before = node(&labels, &json!(taints));
        let patch = plan_create(&before, &policy, &policy_taint(&policy)).unwrap();
        let object = json!({"metadata": {"name": "w", "labels": before.labels}, "spec": {"taints": taints}});
        let after = patched(&object, &patch);
        let expected = patch.apply(&before);
        prop_assert_eq!(&after["spec"]["taints"], &json!(expected.taints));
        prop_assert_eq!(&after["metadata"]["labels"], &json!(expected.labels));
        prop_assert_eq!(&after["metadata"]["annotations"], &json!(expected.annotations));
        for taint in &taints {
            prop_assert!(expected.taints.contains(taint));
        }
        prop_assert_eq!(plan_node(&expected, &policy, &BTreeSet::from([policy_taint(&policy)]), &[], 0).patch, None);
    }
}
