//! The plan of what is removed from a node, computed from plain data.

use std::collections::BTreeSet;
use std::time::Duration;

use mullion_engine::model::cluster::Taint;
use mullion_engine::model::names::OWNED_ANNOTATION;
use mullion_engine::model::settings::{NodeSettings, policy_taint};
use mullion_engine::node::{NodeFacts, NodePatch, is_windows_node, own_labels, recorded_taint, withdraw_node};
use mullion_policy::PolicySet;

use crate::cluster::state::MullionState;
use crate::controller::own_taints::own_taints;

/// Mullion's own taints: those of the given policies and of `mullion-state`; those of the built-in policies if there is no
/// `mullion-state`.
pub(crate) fn known_taints(given: &[NodeSettings], state: &MullionState) -> BTreeSet<Taint> {
    let mut own_taints = own_taints(state);
    own_taints.extend(given.iter().map(policy_taint));
    if !state.found {
        own_taints.insert(policy_taint(&PolicySet::built_in().nodes));
    }
    own_taints
}

/// The plan of one node.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeWithdrawal {
    pub(crate) patch: Option<NodePatch>,
    /// What the patch removes, as text.
    pub(crate) removed: Vec<String>,
    pub(crate) kept_taint: Option<KeptTaint>,
}

/// A taint that stays because its origin is not certain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeptTaint {
    /// The node's record contains it, and it is not one of Mullion's own taints.
    InNoPolicy(Taint),
    /// A policy contains it, and the node has no valid record.
    NotRecorded(Taint),
}

/// Plans the patch of one node.
pub(crate) fn plan(facts: &NodeFacts, own_taints: &BTreeSet<Taint>) -> NodeWithdrawal {
    if !is_windows_node(facts) {
        return NodeWithdrawal::default();
    }
    let patch = withdraw_node(facts, own_taints).unwrap_or_default();
    let record = recorded_taint(facts);
    let is_set = |taint: &Taint| facts.taints.iter().filter_map(Taint::from_json).any(|present| present == *taint);
    let kept_taint = match &record {
        Ok(Some(taint)) if is_set(taint) && !own_taints.contains(taint) => Some(KeptTaint::InNoPolicy(taint.clone())),
        Ok(Some(_)) => None,
        Ok(None) if facts.annotations.contains_key(OWNED_ANNOTATION) || own_labels(facts).next().is_none() => None,
        Ok(None) | Err(_) => {
            let mut present = facts.taints.iter().filter_map(Taint::from_json);
            present.find(|taint| own_taints.contains(taint)).map(KeptTaint::NotRecorded)
        }
    };
    let taint = record.ok().flatten().filter(|_| patch.taints.is_some()).map(|taint| format!("taint {taint}"));
    let labels = patch.labels.keys().map(|key| format!("label {key}"));
    let record = patch.owned.is_some().then(|| format!("annotation {OWNED_ANNOTATION}"));
    let removed = taint.into_iter().chain(labels).chain(record).collect();
    NodeWithdrawal { patch: Some(patch).filter(|patch| *patch != NodePatch::default()), removed, kept_taint }
}

impl KeptTaint {
    /// Returns why it stays, and what to do.
    pub(crate) fn explain(&self, node: &str) -> (String, String) {
        match self {
            Self::InNoPolicy(taint) => (
                format!(
                    "its record contains taint {taint}, and neither own-taints in ConfigMap mullion-state nor --policies does"
                ),
                format!(
                    "if a NodePolicy contained it, run again with --policies and its directory; if not, run \
                     kubectl annotate node {node} {OWNED_ANNOTATION}-"
                ),
            ),
            Self::NotRecorded(taint) => (
                format!("it has no valid record of whether Mullion or another writer set taint {taint}"),
                format!("if Mullion did, run kubectl taint node {node} {taint}-"),
            ),
        }
    }
}

/// Whether a lease has no holder, or one that no longer renews it.
pub(crate) fn is_vacant(holder: Option<&str>, duration: Option<i32>, unchanged_for: Duration) -> bool {
    let lasts = u64::try_from(duration.unwrap_or(0)).unwrap_or(0);
    holder.is_none_or(str::is_empty) || unchanged_for > Duration::from_secs(lasts)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::collections::BTreeMap;

    use mullion_engine::model::names::{WINDOWS_BUILD_LABEL, WINDOWS_RELEASE_LABEL};
    use mullion_policy::{PolicyFile, PolicyFiles};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::state::StoredPolicies;

    const OURS: &str = "os=windows:NoSchedule";
    const LABELS: &str = r#""labels":{"mullion.dev/windows-release":"ltsc2022"}"#;

    fn raw(text: &str) -> Value {
        let taint = Taint::parse(text).unwrap();
        json!({"key": taint.key, "value": taint.value, "effect": taint.effect})
    }

    fn record(taint: &str) -> String {
        format!("{{{LABELS},\"taint\":{}}}", raw(taint))
    }

    fn node(record: Option<&str>, taints: &[&str]) -> NodeFacts {
        let labels = [("kubernetes.io/os", "windows"), (WINDOWS_RELEASE_LABEL, "ltsc2022"), ("team", "a")];
        NodeFacts {
            name: "w".to_owned(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            annotations: record.map(|text| (OWNED_ANNOTATION.to_owned(), text.to_owned())).into_iter().collect(),
            taints: taints.iter().map(|taint| raw(taint)).collect(),
            ..NodeFacts::default()
        }
    }

    fn built_in() -> BTreeSet<Taint> {
        known_taints(&[], &MullionState::default())
    }

    #[test]
    fn own_changes_are_removed_and_others_stay() {
        let ours = record(OURS);
        let forged = record("dedicated=vault:NoSchedule");
        let removed_taint = record("os=windows:NoExecute");
        let quarantined = record("windows=quarantine:NoExecute");
        let in_no_policy = Some(KeptTaint::InNoPolicy(Taint::parse("dedicated=vault:NoSchedule").unwrap()));
        let not_recorded = || Some(KeptTaint::NotRecorded(Taint::parse(OURS).unwrap()));
        let release = "label mullion.dev/windows-release";
        let annotation = "annotation mullion.dev/owned";
        let ours_goes = "taint os=windows:NoSchedule";
        for (record, taints, left, removed, kept_taint) in [
            (
                Some(&*ours),
                &["a:NoExecute", OURS, "b=c:NoSchedule"][..],
                &["a:NoExecute", "b=c:NoSchedule"][..],
                vec![ours_goes, release, annotation],
                None,
            ),
            // Another writer has already removed it.
            (Some(&*removed_taint), &["a:NoExecute"], &["a:NoExecute"], vec![release, annotation], None),
            (Some("{}"), &[OURS], &[OURS], vec![release, annotation], None),
            // A kubelet that tries to have a taint removed, also one that the built-in patterns match.
            (
                Some(&*quarantined),
                &["windows=quarantine:NoExecute"],
                &["windows=quarantine:NoExecute"],
                vec![release],
                Some(KeptTaint::InNoPolicy(Taint::parse("windows=quarantine:NoExecute").unwrap())),
            ),
            (
                Some(&*forged),
                &["dedicated=vault:NoSchedule"],
                &["dedicated=vault:NoSchedule"],
                vec![release],
                in_no_policy,
            ),
            (Some(&*forged), &["other:NoSchedule"], &["other:NoSchedule"], vec![release, annotation], None),
            (Some("{"), &[OURS], &[OURS], vec![release, annotation], not_recorded()),
            (None, &[OURS, "a:NoSchedule"], &[OURS, "a:NoSchedule"], vec![release], not_recorded()),
            (None, &["os=Windows:NoSchedule"], &["os=Windows:NoSchedule"], vec![release], None),
        ] {
            let facts = node(record, taints);
            let plan = plan(&facts, &built_in());
            let after = plan.patch.as_ref().unwrap().apply(&facts);
            let left: Vec<Value> = left.iter().map(|taint| raw(taint)).collect();
            assert_eq!(after.taints, left, "{record:?} {taints:?}");
            assert_eq!(plan.removed, removed, "{record:?} {taints:?}");
            assert_eq!(plan.kept_taint, kept_taint, "{record:?} {taints:?}");
            assert_eq!(after.labels.keys().collect::<Vec<_>>(), ["kubernetes.io/os", "team"]);
        }
    }

    #[test]
    fn nodes_without_anything_of_ours_get_nothing() {
        let mut bare = node(None, &[OURS]);
        bare.labels.remove(WINDOWS_RELEASE_LABEL);
        assert_eq!(plan(&bare, &built_in()), NodeWithdrawal::default());
        // Nothing but a claim, which is reported.
        bare.annotations.insert(OWNED_ANNOTATION.to_owned(), record("a=b:NoSchedule"));
        bare.taints = vec![raw("a=b:NoSchedule")];
        let NodeWithdrawal { patch, kept_taint, .. } = plan(&bare, &built_in());
        assert_eq!((patch, kept_taint), (None, Some(KeptTaint::InNoPolicy(Taint::parse("a=b:NoSchedule").unwrap()))));
        let ours = record(OURS);
        let mut linux = node(Some(&ours), &[OURS]);
        linux.labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
        assert_eq!(plan(&linux, &built_in()), NodeWithdrawal::default());
        let mut virtual_node = node(Some(&ours), &[OURS]);
        virtual_node.labels.insert("type".to_owned(), "virtual-kubelet".to_owned());
        assert_eq!(plan(&virtual_node, &built_in()), NodeWithdrawal::default());
    }

    #[test]
    fn policies_and_state_name_our_taints() {
        let platform = Taint::parse("example.com/platform=nt:NoExecute").unwrap();
        let text = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\n\
            spec: {taint: {key: example.com/platform, value: nt, effect: NoExecute}}\n";
        let file = PolicyFile { name: "n.yaml".to_owned(), bytes: text.into() };
        let policy = PolicySet::load(&PolicyFiles { texts: vec![file.clone()], problems: vec![] }).unwrap().nodes;
        let stored = |file| StoredPolicies { release: None, files: vec![file] };
        let found = || MullionState { found: true, ..MullionState::default() };
        // The states of an earlier release, which has no list of Mullion's own taints.
        let kept = MullionState { policies: stored(file.clone()), ..found() };
        let earlier = MullionState { earlier_policies: stored(file.clone()), ..found() };
        let broken = PolicyFile { name: "b.yaml".to_owned(), bytes: "kind: Nonsense".into() };
        let broken = MullionState { policies: stored(broken), ..found() };
        let at_create = MullionState { taint_on_create: Some(platform.clone()), ..found() };
        // Kubelets choose the taints with which they register.
        let mut seen = found();
        seen.seen.taints.insert(platform.clone());
        let listed = MullionState { own_taints: Some([platform.clone()].into()), ..found() };
        // This list is complete.
        let unlisted = MullionState { own_taints: Some(BTreeSet::new()), policies: stored(file), ..found() };
        let record = record("example.com/platform=nt:NoExecute");
        let facts = node(Some(&record), &["example.com/platform=nt:NoExecute"]);
        for (given, known) in [
            (built_in(), false),
            (known_taints(&[policy], &unlisted), true),
            (known_taints(&[], &kept), true),
            (known_taints(&[], &earlier), true),
            (known_taints(&[], &at_create), true),
            (known_taints(&[], &seen), false),
            (known_taints(&[], &broken), false),
            (known_taints(&[], &listed), true),
            (known_taints(&[], &unlisted), false),
        ] {
            let plan = plan(&facts, &given);
            assert_eq!(plan.patch.unwrap().apply(&facts).taints.is_empty(), known);
            assert_eq!(plan.kept_taint, (!known).then(|| KeptTaint::InNoPolicy(platform.clone())));
        }
    }

    #[test]
    fn kept_taints_come_with_a_remedy() {
        let taint = Taint::parse(OURS).unwrap();
        let (why, help) = KeptTaint::NotRecorded(taint.clone()).explain("w1");
        assert!(why.contains(OURS) && help.contains("kubectl taint node w1 os=windows:NoSchedule-"), "{why}; {help}");
        let (why, help) = KeptTaint::InNoPolicy(taint).explain("w1");
        assert!(why.contains(OURS) && help.contains("kubectl annotate node w1 mullion.dev/owned-"), "{why}; {help}");
    }

    #[test]
    fn leases_are_vacant_without_a_holder_or_renewals() {
        let seconds = Duration::from_secs;
        for (holder, lasts, unchanged, vacant) in [
            (None, Some(15), 0, true),
            (Some(""), Some(15), 0, true),
            (Some("a"), Some(15), 0, false),
            (Some("a"), Some(15), 15, false),
            (Some("a"), Some(15), 16, true),
            (Some("a"), Some(i32::MAX), 3_000, false),
            (Some("a"), None, 1, true),
            (Some("a"), Some(-5), 1, true),
        ] {
            assert_eq!(is_vacant(holder, lasts, seconds(unchanged)), vacant, "{holder:?} {lasts:?} {unchanged}");
        }
    }

    proptest! {
        /// Whatever a kubelet writes into the record, other labels and annotations, taints that do not mark Windows
        /// nodes, and the order of the rest stay; a second plan is empty.
        #[test]
        fn a_record_never_removes_what_others_set(
            key in "(os|dedicated|team)", value in "(windows|vault|)", effect in "(NoSchedule|NoExecute)",
            label in "(mullion.dev/windows-release|node.kubernetes.io/windows-build|team|kubernetes.io/os)",
            labelled in "(ltsc2022|a|windows)",
            present in prop::collection::btree_set("(os=windows|dedicated=vault|team|os):(NoSchedule|NoExecute)", 0..5),
        ) {
            let record = json!({"labels": {label: labelled}, "taint": {"key": key, "value": value, "effect": effect}});
            let present: Vec<&str> = present.iter().map(String::as_str).collect();
            let mut facts = node(Some(&record.to_string()), &present);
            facts.labels.insert(WINDOWS_BUILD_LABEL.to_owned(), "10.0.20348".to_owned());
            let after = plan(&facts, &built_in()).patch.map_or_else(|| facts.clone(), |patch| patch.apply(&facts));
            let others = |taints: &[Value]| -> Vec<Value> {
                taints.iter().filter(|taint| taint["value"] != "windows").cloned().collect()
            };
            prop_assert_eq!(others(&after.taints), others(&facts.taints));
            prop_assert!(facts.taints.len() - after.taints.len() <= 1);
            let foreign = |labels: &BTreeMap<String, String>| {
                labels.iter().filter(|(key, _)| !key.starts_with("mullion.dev/")).map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
            };
            prop_assert_eq!(foreign(&after.labels), foreign(&facts.labels));
            prop_assert_eq!(plan(&after, &built_in()).patch, None);
        }
    }
}
