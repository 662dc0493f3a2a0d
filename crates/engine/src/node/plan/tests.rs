#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::model::names::{WINDOWS_RELEASE_LABEL, WINDOWS_REVISION_LABEL};
use crate::model::settings::{NodeLabel, TaintPattern};
use crate::model::windows::release_name;
use crate::node::facts::plan_reads_label;
mod removals;

const NOW: u64 = 1_800_000_000;

/// The taints of earlier policies, and every taint that a policy of these tests sets.
fn own_taints(policy: &NodeSettings) -> BTreeSet<Taint> {
    let texts = ["os=windows", "mine=windows", "example.com/platform=windows"];
    let effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
    let taints = texts.iter().flat_map(|text| effects.map(|effect| format!("{text}:{effect}")));
    taints.filter_map(|text| Taint::parse(&text)).chain([policy_taint(policy)]).collect()
}

fn plan_node(node: &NodeFacts, policy: &NodeSettings, blockers: &[TaintBlocker], now: u64) -> NodePlan {
    crate::node::plan::plan_node(node, policy, &own_taints(policy), blockers, now)
}

fn wanted_taint(node: &NodeFacts, policy: &NodeSettings) -> Option<Taint> {
    plan_node(node, policy, &[], NOW).taint
}

fn withdraw_node(node: &NodeFacts) -> Option<NodePatch> {
    crate::node::plan::withdraw_node(node, &own_taints(&NodeSettings::default()))
}

const BARE: &[(&str, &str)] = &[("kubernetes.io/os", "windows")];

fn node(labels: &[(&str, &str)], kernel: &str, taints: &[&str]) -> NodeFacts {
    NodeFacts {
        name: "node".to_owned(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        annotations: BTreeMap::new(),
        taints: taints.iter().map(|text| raw(text)).collect(),
        kernel_version: kernel.to_owned(),
    }
}

fn raw(text: &str) -> Value {
    let taint = Taint::parse(text).unwrap();
    let mut raw = json!({"key": taint.key, "effect": taint.effect});
    if !taint.value.is_empty() {
        raw["value"] = json!(taint.value);
    }
    raw
}

fn taints(node: &NodeFacts) -> Vec<String> {
    node.taints.iter().map(|raw| Taint::from_json(raw).unwrap().to_string()).collect()
}

fn after(node: &NodeFacts, policy: &NodeSettings, blockers: &[TaintBlocker]) -> NodeFacts {
    plan_node(node, policy, blockers, NOW).patch.map_or_else(|| node.clone(), |patch| patch.apply(node))
}

fn enforced(node: &NodeFacts) -> NodeFacts {
    after(node, &NodeSettings::default(), &[])
}

fn with(change: impl FnOnce(&mut NodeSettings)) -> NodeSettings {
    let mut policy = NodeSettings::default();
    change(&mut policy);
    policy
}

/// Nodes dumped from clusters, with the expected result: release, revision, build, taints.
#[test]
#[allow(clippy::type_complexity, reason = "a table")]
fn real_nodes() {
    let aks: &[(&str, &str)] = &[
        ("kubernetes.io/os", "windows"),
        ("node.kubernetes.io/windows-build", "10.0.20348"),
        ("kubernetes.azure.com/os-sku", "Windows2022"),
        ("kubernetes.azure.com/scalesetpriority", "spot"),
    ];
    let spot = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule";
    let ready = "node.kubernetes.io/not-ready:NoSchedule";
    let old = "10.0 14393 (14393.1715.amd64fre.rs1_release_inmarket.170906-1810)";
    let ours = "os=windows:NoSchedule";
    let cases: [(&[(&str, &str)], &str, &[&str], Option<&str>, Option<&str>, Option<&str>, &[&str]); 13] = [
        (aks, "10.0.20348.2655", &[spot], Some("ltsc2022"), Some("2655"), Some("10.0.20348"), &[spot, ours]),
        (BARE, "10.0.20348.825", &[], Some("ltsc2022"), Some("825"), Some("10.0.20348"), &[ours]),
        (BARE, "10.0.26100.32995", &[], Some("ltsc2025"), Some("32995"), Some("10.0.26100"), &[ours]),
        (BARE, "10.0.25398.2330", &[], Some("23h2"), Some("2330"), Some("10.0.25398"), &[ours]),
        (BARE, "10.0.17763.2061", &[], Some("ltsc2019"), Some("2061"), Some("10.0.17763"), &[ours]),
        (BARE, "10.0.20348.1", &[ready], Some("ltsc2022"), Some("1"), Some("10.0.20348"), &[ready, ours]),
        // OpenShift of 2019 and of today: a taint of its own, no build label.
        (
            BARE,
            "10.0.17763.1",
            &["os=Windows:NoSchedule"],
            Some("ltsc2019"),
            Some("1"),
            Some("10.0.17763"),
            &["os=Windows:NoSchedule"],
        ),
        // GKE, AKS on Azure Stack, K2s, and the taint of OLM.
        (
            BARE,
            "",
            &["node.kubernetes.io/os=windows:NoSchedule"],
            None,
            None,
            None,
            &["node.kubernetes.io/os=windows:NoSchedule"],
        ),
        (
            BARE,
            "",
            &["node.kubernetes.io/os=Windows:NoSchedule"],
            None,
            None,
            None,
            &["node.kubernetes.io/os=Windows:NoSchedule"],
        ),
        (BARE, "", &["OS=Windows:NoSchedule"], None, None, None, &["OS=Windows:NoSchedule"]),
        (BARE, "", &["os=Win2019:NoExecute"], None, None, None, &["os=Win2019:NoExecute"]),
        // `PreferNoSchedule` does not keep pods away, so it does not count.
        (BARE, "", &["os=windows:PreferNoSchedule"], None, None, None, &["os=windows:PreferNoSchedule", ours]),
        // A node of 2017.
        (
            &[("beta.kubernetes.io/os", "windows")],
            old,
            &[],
            Some("build-14393"),
            Some("1715"),
            Some("10.0.14393"),
            &[ours],
        ),
    ];
    for (labels, kernel, before, release, revision, build, expected) in cases {
        let result = enforced(&node(labels, kernel, before));
        let label = |key: &str| result.labels.get(key).map(String::as_str);
        // The name `ltsc2016` comes from the table.
        let release = release.map(|name| {
            if name == "build-14393" { release_name(Build::new(14393), &[]).into_owned() } else { name.to_owned() }
        });
        assert_eq!(label(WINDOWS_RELEASE_LABEL), release.as_deref(), "{kernel} {before:?}");
        assert_eq!(label(WINDOWS_REVISION_LABEL), revision, "{kernel} {before:?}");
        assert_eq!(label(WINDOWS_BUILD_LABEL), build, "{kernel} {before:?}");
        assert_eq!(taints(&result), expected, "{kernel} {before:?}");
    }
}

#[test]
fn other_nodes_are_left_alone() {
    let cases = [
        node(&[("kubernetes.io/os", "linux")], "10.0.20348.1", &[]),
        node(&[], "10.0.20348.1", &[]),
        node(&[("kubernetes.io/os", "Windows")], "10.0.20348.1", &[]),
        node(&[("kubernetes.io/os", "windows"), ("type", "virtual-kubelet")], "10.0.20348.1", &[]),
        node(BARE, "10.0.20348.1", &["virtual-kubelet.io/provider=azure:NoSchedule"]),
    ];
    for mut case in cases {
        assert_eq!(plan_node(&case, &NodeSettings::default(), &[], NOW), NodePlan::default(), "{case:?}");
        // Not even a taint that looks like Mullion's is removed.
        case.annotations = enforced(&node(BARE, "10.0.20348.1", &[])).annotations;
        assert_eq!(plan_node(&case, &NodeSettings::default(), &[], NOW), NodePlan::default(), "{case:?}");
        assert_eq!(withdraw_node(&case), None);
    }
}

#[test]
fn one_merge_patch_holds_everything_and_the_version() {
    let mut facts = node(BARE, "10.0.20348.2655", &[]);
    facts.taints.push(
        json!({"key": "example.com/drain", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z", "later": 1}),
    );
    let patch = plan_node(&facts, &NodeSettings::default(), &[], NOW).patch.unwrap();
    assert_eq!(
        patch.to_merge_patch("41"),
        json!({
            "metadata": {
                "resourceVersion": "41",
                "labels": {
                    "mullion.dev/windows-release": "ltsc2022",
                    "mullion.dev/windows-revision": "2655",
                    "node.kubernetes.io/windows-build": "10.0.20348",
                },
                "annotations": {"mullion.dev/owned": "{\"labels\":{\"mullion.dev/windows-release\":\"ltsc2022\",\
                    \"mullion.dev/windows-revision\":\"2655\",\"node.kubernetes.io/windows-build\":\"10.0.20348\"},\
                    \"taint\":{\"key\":\"os\",\"value\":\"windows\",\"effect\":\"NoSchedule\"}}"},
            },
            "spec": {"taints": [
                {"key": "example.com/drain", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z", "later": 1},
                {"key": "os", "value": "windows", "effect": "NoSchedule"},
            ]},
        })
    );
    // A patch of a label alone leaves the taints out of the body.
    let mut stale = patch.apply(&facts);
    stale.labels.insert(WINDOWS_REVISION_LABEL.to_owned(), "1".to_owned());
    let patch = plan_node(&stale, &NodeSettings::default(), &[], NOW).patch.unwrap().to_merge_patch("42");
    assert_eq!(
        patch,
        json!({"metadata": {"resourceVersion": "42", "labels": {"mullion.dev/windows-revision": "2655"}}})
    );
}

#[test]
fn withdrawal_leaves_the_node_as_it_was() {
    let cases = [
        node(BARE, "10.0.20348.2655", &["a=b:NoSchedule", "c:NoExecute"]),
        node(BARE, "10.0.20348.2655", &["os=Windows:NoSchedule"]),
        node(&[("kubernetes.io/os", "windows"), (WINDOWS_BUILD_LABEL, "10.0.20348")], "10.0.20348.2655", &[]),
        node(BARE, "", &[]),
    ];
    for before in cases {
        let enforced = enforced(&before);
        let patch = withdraw_node(&enforced).map_or_else(|| enforced.clone(), |patch| patch.apply(&enforced));
        assert_eq!(patch, before);
        assert_eq!(withdraw_node(&before), None);
    }
    // Removing the last taint leaves an empty list, which is a change; null would not be a change.
    let patch = withdraw_node(&enforced(&node(BARE, "", &[]))).unwrap();
    assert_eq!(patch.to_merge_patch("1")["spec"], json!({"taints": []}));
}

#[test]
fn withdrawal_takes_labels_of_our_domain_also_without_a_record() {
    let mut lost = enforced(&node(BARE, "10.0.20348.2655", &["a=b:NoSchedule"]));
    for record in [None, Some("{"), Some(r#"{"labels":{"mullion.dev/windows-release":"another"}}"#)] {
        lost.annotations = record.map(|text| (OWNED_ANNOTATION.to_owned(), text.to_owned())).into_iter().collect();
        let bare = withdraw_node(&lost).unwrap().apply(&lost);
        assert_eq!(bare.labels.keys().filter(|key| key.starts_with("mullion.dev/")).count(), 0, "{record:?}");
        assert!(bare.annotations.is_empty(), "{record:?}");
        // The owner of these taints is unknown.
        assert_eq!(
            (&bare.taints, bare.labels.get(WINDOWS_BUILD_LABEL)),
            (&lost.taints, lost.labels.get(WINDOWS_BUILD_LABEL))
        );
    }
}

#[test]
fn the_recorded_taint_is_read_from_the_annotation() {
    let mut facts = enforced(&node(BARE, "10.0.20348.2655", &[]));
    assert_eq!(recorded_taint(&facts).unwrap(), Taint::parse("os=windows:NoSchedule"));
    for (text, readable) in [("{}", true), (r#"{"labels":{}}"#, true), ("", false), ("[1]", false), ("null", false)] {
        facts.annotations.insert(OWNED_ANNOTATION.to_owned(), text.to_owned());
        let read = recorded_taint(&facts);
        assert!(read.is_ok() == readable && read.unwrap_or(None).is_none(), "{text}");
    }
    facts.annotations.clear();
    assert_eq!(recorded_taint(&facts).unwrap(), None);
}

#[test]
fn the_taint_follows_the_policy_in_its_place() {
    let first = enforced(&node(BARE, "", &["a=b:NoSchedule"]));
    let mut middle = first.clone();
    middle.taints.push(raw("z:NoExecute"));

    let value = with(|policy| policy.taint.value = "Windows".to_owned());
    assert_eq!(taints(&after(&middle, &value, &[])), ["a=b:NoSchedule", "os=Windows:NoSchedule", "z:NoExecute"]);
    let key = with(|policy| policy.taint.key = "example.com/platform".to_owned());
    let moved = after(&middle, &key, &[]);
    assert_eq!(taints(&moved), ["a=b:NoSchedule", "example.com/platform=windows:NoSchedule", "z:NoExecute"]);
    assert_eq!(taints(&enforced(&moved)), taints(&middle));
    let never = with(|policy| policy.taint.apply = ApplyTaint::Never);
    assert_eq!(taints(&after(&middle, &never, &[])), ["a=b:NoSchedule", "z:NoExecute"]);
    // While the new taint waits, the old one stays, so that the node is always tainted.
    let blocked = plan_node(&middle, &key, &[TaintBlocker::DaemonSet("a/b".to_owned())], NOW);
    assert!(blocked.hold == TaintHold::Waiting && blocked.patch.is_none(), "{blocked:?}");
}

#[test]
fn a_taint_waits_for_what_does_not_tolerate_it() {
    let facts = node(BARE, "10.0.20348.2655", &[]);
    let blockers = [TaintBlocker::DaemonSet("kube-system/csi-proxy".to_owned())];
    let plan = plan_node(&facts, &NodeSettings::default(), &blockers, NOW);
    assert!(
        plan.hold == TaintHold::Waiting && plan.reasons.iter().any(|reason| reason.contains("kube-system/csi-proxy")),
        "{plan:?}"
    );
    let labelled = plan.patch.unwrap().apply(&facts);
    assert_eq!(labelled.taints, facts.taints);
    assert_eq!(labelled.labels[WINDOWS_RELEASE_LABEL], "ltsc2022");
    let always = with(|policy| policy.taint.apply = ApplyTaint::Always);
    assert_eq!(taints(&after(&facts, &always, &blockers)), ["os=windows:NoSchedule"]);
    // Once it is set, new DaemonSets do not remove it.
    assert_eq!(plan_node(&enforced(&facts), &NodeSettings::default(), &blockers, NOW), NodePlan::default());
    assert!(wanted_taint(&facts, &NodeSettings::default()).is_some());
    assert_eq!(wanted_taint(&enforced(&facts), &NodeSettings::default()), None);
}

#[test]
fn what_cannot_be_set_is_reported() {
    let taken = node(BARE, "", &["os=blue:NoSchedule"]);
    let plan = plan_node(&taken, &NodeSettings::default(), &[], NOW);
    assert_eq!(plan.patch, None);
    assert!(plan.reasons[0].contains("os=blue:NoSchedule") && plan.reasons[0].contains("taint.key"), "{plan:?}");
    let custom = with(|policy| {
        policy.taint.key = "mine".to_owned();
        policy.windows_taints = vec![TaintPattern("os=win*".to_owned())];
    });
    // A taint of someone else that equals the wanted one is never removed.
    let equal = node(BARE, "", &["mine=windows:NoSchedule"]);
    assert_eq!(plan_node(&equal, &custom, &[], NOW).patch, None);
}

#[test]
fn audit_only_reports_and_disabled_cleans_up() {
    let facts = node(BARE, "10.0.20348.2655", &[]);
    let audit = plan_node(&facts, &with(|policy| policy.mode = Mode::Audit), &[], NOW);
    assert_eq!(audit.patch, None);
    assert!(!audit.reasons.is_empty() && audit.reasons.iter().all(|reason| reason.starts_with("would: ")));
    assert!(audit.withheld && audit.hold == TaintHold::None);
    // A node that has everything needs no change, and nothing waits for a taint that is not Mullion's.
    let done = plan_node(&enforced(&facts), &with(|policy| policy.mode = Mode::Audit), &[], NOW);
    assert!(!done.withheld, "{done:?}");
    assert!(!plan_node(&facts, &NodeSettings::default(), &[], NOW).withheld);
    let disabled = with(|policy| policy.mode = Mode::Disabled);
    assert_eq!(plan_node(&facts, &disabled, &[], NOW), NodePlan::default());
    assert_eq!(after(&enforced(&facts), &disabled, &[]), facts);
    let labels = with(|policy| policy.labels = vec![NodeLabel::Release]);
    let fewer = after(&enforced(&facts), &labels, &[]);
    assert!(!fewer.labels.contains_key(WINDOWS_REVISION_LABEL) && fewer.labels.contains_key(WINDOWS_RELEASE_LABEL));
}

#[test]
fn labels_follow_the_node() {
    let facts = enforced(&node(BARE, "10.0.20348.2655", &[]));
    // An upgrade in place of a node with a build label that Mullion set.
    let mut upgraded = facts.clone();
    upgraded.kernel_version = "10.0.26100.1".to_owned();
    let upgraded = enforced(&upgraded);
    assert_eq!(upgraded.labels[WINDOWS_BUILD_LABEL], "10.0.26100");
    assert_eq!(upgraded.labels[WINDOWS_RELEASE_LABEL], "ltsc2025");
    // If the kubelet sets the label itself, it is no longer Mullion's.
    let mut taken = facts.clone();
    taken.labels.insert(WINDOWS_BUILD_LABEL.to_owned(), "10.0.26100".to_owned());
    let taken = enforced(&taken);
    assert_eq!(taken.labels[WINDOWS_RELEASE_LABEL], "ltsc2025");
    let withdrawn = withdraw_node(&taken).unwrap().apply(&taken);
    assert_eq!(withdrawn.labels[WINDOWS_BUILD_LABEL], "10.0.26100");
    // If a kubelet has not reported yet, Mullion removes nothing.
    let mut silent = facts.clone();
    silent.kernel_version.clear();
    assert_eq!(enforced(&silent), silent);
    // If the record was lost, labels in Mullion's own domain are Mullion's again, and the taint is not.
    let mut lost = facts.clone();
    lost.annotations.clear();
    let found = enforced(&lost);
    assert_eq!((&found.labels, &found.taints), (&facts.labels, &facts.taints));
    let bare = withdraw_node(&found).unwrap().apply(&found);
    assert_eq!(taints(&bare), ["os=windows:NoSchedule"]);
    assert!(!bare.labels.contains_key(WINDOWS_RELEASE_LABEL));
}

#[test]
fn a_forged_record_gives_away_no_foreign_label() {
    for text in ["", "{", "[]", "null", "{\"labels\": 1}", "{\"taint\": {}}", "{\"labels\":{\"team\":\"a\"}}"] {
        let mut facts = node(&[("kubernetes.io/os", "windows"), ("team", "a")], "10.0.20348.1", &["a=b:NoSchedule"]);
        facts.annotations.insert(OWNED_ANNOTATION.to_owned(), text.to_owned());
        let result = enforced(&facts);
        assert_eq!(result.labels["team"], "a", "{text}");
        assert_eq!(taints(&result), ["a=b:NoSchedule", "os=windows:NoSchedule"], "{text}");
        assert!(!withdraw_node(&result).unwrap().apply(&result).annotations.contains_key(OWNED_ANNOTATION));
    }
}

#[test]
fn a_forged_record_gives_away_no_foreign_taint() {
    let (vault, mine) = ("dedicated=vault:NoSchedule", "mine=windows:NoSchedule");
    let forged = |taint: &str| {
        let mut facts = node(BARE, "10.0.20348.1", &["a=b:NoSchedule", taint]);
        facts.annotations.insert(OWNED_ANNOTATION.to_owned(), json!({"taint": raw(taint)}).to_string());
        facts
    };
    let planned = |facts: &NodeFacts, policy: &NodeSettings, own: &BTreeSet<Taint>| {
        let plan = crate::node::plan::plan_node(facts, policy, own, &[], NOW);
        (plan.patch.as_ref().map_or_else(|| facts.clone(), |patch| patch.apply(facts)), plan)
    };
    let policies = [
        NodeSettings::default(),
        with(|policy| policy.mode = Mode::Disabled),
        with(|policy| policy.taint.apply = ApplyTaint::Never),
        with(|policy| policy.taint.key = "example.com/os".to_owned()),
    ];
    for policy in &policies {
        let own = own_taints(policy);
        let (after, plan) = planned(&forged(vault), policy, &own);
        assert_eq!(taints(&after)[..2], ["a=b:NoSchedule", vault], "{policy:?}");
        // The claim is reported until Mullion records a taint of its own.
        assert_eq!(plan.unproved.map(|taint| taint.to_string()).as_deref(), Some(vault));
        assert!(
            plan.reasons.iter().any(|reason| reason.contains(vault) && reason.contains("stays")),
            "{:?}",
            plan.reasons
        );
        let (again, plan) = planned(&after, policy, &own);
        assert_eq!((again, plan.unproved.is_some()), (after.clone(), taints(&after).len() == 2));
        // The taint of an earlier policy is removed if a source other than the node confirms it.
        for (own, known) in [(own, true), (BTreeSet::from([policy_taint(policy)]), false)] {
            assert_eq!(
                !taints(&planned(&forged(mine), policy, &own).0).contains(&mine.to_owned()),
                known,
                "{policy:?}"
            );
        }
    }
    let after = withdraw_node(&forged(vault)).map_or_else(|| forged(vault), |patch| patch.apply(&forged(vault)));
    assert_eq!((&after.taints, recorded_taint(&after).unwrap()), (&forged(vault).taints, Taint::parse(vault)));
}

/// The patterns of the policy mark Windows nodes, and prove nothing about who set a taint.
#[test]
fn a_taint_of_an_administrator_stays_although_it_marks_windows_nodes() {
    let quarantine = "windows=quarantine:NoExecute";
    let mut facts = node(BARE, "10.0.20348.1", &[quarantine]);
    facts.annotations.insert(OWNED_ANNOTATION.to_owned(), json!({"taint": raw(quarantine)}).to_string());
    let enforced = NodeSettings::default();
    for policy in [&enforced, &with(|policy| policy.mode = Mode::Disabled)] {
        let plan = plan_node(&facts, policy, &[], NOW);
        let after = plan.patch.map_or_else(|| facts.clone(), |patch| patch.apply(&facts));
        assert_eq!((taints(&after), plan.unproved), (vec![quarantine.to_owned()], Taint::parse(quarantine)));
    }
    // Without a claim, the same taint is not reported.
    facts.annotations.clear();
    assert_eq!(plan_node(&facts, &enforced, &[], NOW).unproved, None);
    // It is Mullion's where a policy has set exactly that.
    let own_policy = with(|policy| {
        policy.taint.key = "windows".to_owned();
        policy.taint.value = "quarantine".to_owned();
        policy.taint.effect = "NoExecute".to_owned();
    });
    facts.annotations.insert(OWNED_ANNOTATION.to_owned(), json!({"taint": raw(quarantine)}).to_string());
    let disabled = NodeSettings { mode: Mode::Disabled, ..own_policy.clone() };
    assert_eq!(plan_node(&facts, &own_policy, &[], NOW).unproved, None);
    assert_eq!(taints(&plan_node(&facts, &disabled, &[], NOW).patch.unwrap().apply(&facts)), [""; 0]);
}

#[test]
fn no_taint_is_set_before_it_is_recorded() {
    let policy = NodeSettings::default();
    let earlier = Taint::parse("mine=windows:NoSchedule").unwrap();
    let mut facts = node(BARE, "10.0.20348.1", &["mine=windows:NoSchedule"]);
    facts.annotations.insert(OWNED_ANNOTATION.to_owned(), json!({"taint": raw("mine=windows:NoSchedule")}).to_string());
    let own = BTreeSet::from([earlier]);
    let plan = crate::node::plan::plan_node(&facts, &policy, &own, &[], NOW);
    assert_eq!((plan.hold, plan.unproved), (TaintHold::NotRecorded, None));
    assert_eq!(crate::node::plan::plan_node(&facts, &policy, &own, &[], NOW).taint, None);
    // The labels do not wait, and the earlier taint remains Mullion's.
    let after = plan.patch.unwrap().apply(&facts);
    assert_eq!(taints(&after), ["mine=windows:NoSchedule"]);
    assert!(after.labels.contains_key(WINDOWS_BUILD_LABEL) && after.annotations[OWNED_ANNOTATION].contains("mine"));
    assert_eq!(taints(&enforced(&after)), ["os=windows:NoSchedule"]);
}

fn any_taint() -> impl Strategy<Value = Value> {
    let key = prop_oneof![Just("os"), Just("OS"), Just("sku"), Just("a"), Just("example.com/b"), Just("mine")];
    let value = prop_oneof![Just(""), Just("windows"), Just("Windows"), Just("win2019"), Just("blue")];
    let effect = prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")];
    (key, value, effect, any::<bool>()).prop_map(|(key, value, effect, timed)| {
        let mut raw = json!({"key": key, "effect": effect});
        if !value.is_empty() {
            raw["value"] = json!(value);
        }
        if timed {
            raw["timeAdded"] = json!("2026-01-01T00:00:00Z");
        }
        raw
    })
}

/// No two taints have the same key and effect, because the API server rejects that.
fn any_taints() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(any_taint(), 0..5).prop_map(|taints| {
        let mut seen = std::collections::BTreeSet::new();
        taints.into_iter().filter(|raw| seen.insert((raw["key"].to_string(), raw["effect"].to_string()))).collect()
    })
}

fn any_policy() -> impl Strategy<Value = NodeSettings> {
    let mode = prop_oneof![3 => Just(Mode::Enforce), 1 => Just(Mode::Audit), 1 => Just(Mode::Disabled)];
    let apply = prop_oneof![Just(ApplyTaint::Always), Just(ApplyTaint::WhenTolerated), Just(ApplyTaint::Never)];
    let key = prop_oneof![Just("os"), Just("mine")];
    let effect = prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")];
    let labels = prop::sample::subsequence(vec![NodeLabel::Release, NodeLabel::Revision], 0..=2);
    (mode, apply, key, effect, labels).prop_map(|(mode, apply, key, effect, labels)| {
        with(|policy| {
            policy.mode = mode;
            policy.taint.apply = apply;
            policy.taint.key = key.to_owned();
            policy.taint.effect = effect.to_owned();
            policy.labels = labels;
        })
    })
}

fn any_node() -> impl Strategy<Value = NodeFacts> {
    let kernel = prop_oneof![Just(""), Just("10.0.20348.2655"), Just("10.0.17763.1"), Just("6.1.0")];
    let labels = prop::collection::btree_map(
        prop_oneof![
            Just(WINDOWS_RELEASE_LABEL),
            Just(WINDOWS_REVISION_LABEL),
            Just(WINDOWS_BUILD_LABEL),
            Just("team"),
            Just("type")
        ],
        prop_oneof![Just("10.0.20348"), Just("ltsc2022"), Just("x"), Just("virtual-kubelet")],
        0..4,
    );
    (labels, kernel, any_taints()).prop_map(|(labels, kernel, taints)| {
        let mut facts = node(BARE, kernel, &[]);
        facts.labels.extend(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())));
        facts.taints = taints;
        facts
    })
}

/// Whether `part` is `whole` with some items left out, in the same order.
fn is_subsequence(part: &[Value], whole: &[Value]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|item| rest.any(|other| other == item))
}

proptest! {
    #[test]
    fn other_labels_change_no_plan(facts in any_node(), policy in any_policy()) {
        let mut few = facts.clone();
        few.labels.retain(|key, _| plan_reads_label(key));
        prop_assert_eq!(plan_node(&few, &policy, &[], NOW), plan_node(&facts, &policy, &[], NOW));
    }

    #[test]
    fn doing_it_twice_does_nothing_more(facts in any_node(), policies in prop::collection::vec(any_policy(), 1..4), blocked in any::<bool>()) {
        let blockers = if blocked { vec![TaintBlocker::DaemonSet("a/b".to_owned())] } else { Vec::new() };
        let mut now = facts;
        for policy in &policies {
            let plan = plan_node(&now, policy, &blockers, NOW);
            now = after(&now, policy, &blockers);
            prop_assert_eq!(plan_node(&now, policy, &blockers, NOW).patch, None);
            prop_assert!(policy.mode != Mode::Audit || plan.patch.is_none());
        }
    }

    #[test]
    fn foreign_taints_stay_in_order_and_the_list_stays_valid(facts in any_node(), policies in prop::collection::vec(any_policy(), 1..5)) {
        let mut now = facts.clone();
        for policy in &policies {
            now = after(&now, policy, &[]);
            prop_assert!(is_subsequence(&facts.taints, &now.taints), "{:?}", now.taints);
            prop_assert!(now.taints.len() <= facts.taints.len() + 1);
            let mut pairs = std::collections::BTreeSet::new();
            prop_assert!(now.taints.iter().all(|raw| pairs.insert((raw["key"].to_string(), raw["effect"].to_string()))), "{:?}", now.taints);
        }
    }

    #[test]
    fn only_our_own_is_removed(facts in any_node(), policies in prop::collection::vec(any_policy(), 1..4)) {
        let mut now = facts.clone();
        for policy in &policies {
            now = after(&now, policy, &[]);
        }
        let bare = withdraw_node(&now).map_or_else(|| now.clone(), |patch| patch.apply(&now));
        prop_assert_eq!(&bare.taints, &facts.taints);
        prop_assert!(!bare.annotations.contains_key(OWNED_ANNOTATION));
        for (key, value) in facts.labels.iter().filter(|(key, _)| !key.starts_with("mullion.dev/")) {
            prop_assert_eq!(bare.labels.get(key), Some(value));
        }
        prop_assert!(bare.labels.keys().all(|key| facts.labels.contains_key(key)));
    }

    #[test]
    fn taints_that_come_while_ours_stands_survive(facts in any_node(), added in any_taint(), first in any_policy(), second in any_policy()) {
        let mut now = after(&facts, &first, &[]);
        let pair = |raw: &Value| (raw["key"].to_string(), raw["effect"].to_string());
        // `kubectl taint --overwrite` replaces a taint of the same key and effect.
        now.taints.retain(|raw| pair(raw) != pair(&added));
        now.taints.insert(0, added.clone());
        // If it equals Mullion's byte for byte, its owner is unknown.
        prop_assume!(Owned::recorded_on(&now).taint.is_none_or(|owned| Taint::from_json(&added) != Some(owned)));
        let end = after(&now, &second, &[]);
        prop_assert_eq!(end.taints.first(), Some(&added));
    }
}

#[test]
fn a_marker_that_comes_later_takes_over() {
    let ours = enforced(&node(BARE, "", &["a=b:NoSchedule"]));
    let markers = [
        "os=Windows:NoExecute",
        "OS=Windows:NoSchedule",
        "node.kubernetes.io/os=win1809:NoSchedule",
        "sku=windows:NoSchedule",
        "windows=true:NoSchedule",
    ];
    for later in markers {
        let mut both = ours.clone();
        both.taints.push(raw(later));
        assert_eq!(taints(&enforced(&both)), ["a=b:NoSchedule", later]);
        assert_eq!(enforced(&enforced(&both)), enforced(&both));
        // Once it is removed, Mullion's taint is set again.
        let mut without = enforced(&both);
        without.taints.pop();
        assert_eq!(taints(&enforced(&without)), ["a=b:NoSchedule", "os=windows:NoSchedule"]);
    }
    for other in ["os=windows:PreferNoSchedule", "os=linux:NoExecute", "team=windows:NoSchedule"] {
        let mut both = ours.clone();
        both.taints.push(raw(other));
        assert_eq!(enforced(&both), both, "{other} marks no Windows node");
    }
}
