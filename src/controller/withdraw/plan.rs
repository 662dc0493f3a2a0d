//! What goes, decided from plain data.

use std::time::Duration;

use mullion_engine::model::cluster::taint::Taint;
use mullion_engine::model::names::{OWNED_ANNOTATION, WINDOWS_RELEASE_LABEL, WINDOWS_REVISION_LABEL};
use mullion_engine::model::settings::node_settings;
use mullion_engine::model::settings::node_settings::NodeSettings;
use mullion_engine::node::facts::NodeFacts;
use mullion_engine::node::node_patch::{NodePatch, Trust};
use mullion_engine::node::plan;
use mullion_policy::policy_file::PolicyFiles;
use mullion_policy::policy_set::PolicySet;

use crate::cluster::state::document::State;

/// Which taints are known to be Mullion's where a node says so: those of the policies given, of the policies that
/// controllers kept, of the built-in ones, and every OS taint that was ever seen.
pub(crate) fn trust(given: &[NodeSettings], states: &[State]) -> Trust {
    let kept = states.iter().filter_map(|state| {
        let files = PolicyFiles { texts: state.policies.clone(), problems: Vec::new() };
        PolicySet::load(&files).ok().map(|set| set.nodes)
    });
    let policies = given.iter().cloned().chain(kept).chain([PolicySet::built_in().nodes]).collect();
    Trust { policies, seen: states.iter().flat_map(|state| state.seen.taints.clone()).collect() }
}

/// What is to be done about one node.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) patch: Option<NodePatch>,
    /// What the patch takes off, in words.
    pub(crate) removed: Vec<String>,
    pub(crate) doubt: Option<Doubt>,
}

/// A taint that stays because nobody can tell whose it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The node says it is Mullion's, and nothing else does.
    Unknown(Taint),
    /// It looks like Mullion's, and the node has no record that can be read.
    Unrecorded(Taint),
}

/// What goes from one node.
pub(crate) fn plan(facts: &NodeFacts, trust: &Trust) -> Plan {
    let Some(mut patch) = plan::withdraw_node(facts, trust) else { return Plan::default() };
    let record = plan::recorded_taint(facts);
    let stands = |taint: &Taint| facts.taints.iter().filter_map(Taint::from_json).any(|standing| standing == *taint);
    let own_label =
        || [WINDOWS_RELEASE_LABEL, WINDOWS_REVISION_LABEL].iter().any(|key| facts.labels.contains_key(*key));
    let doubt = match &record {
        Ok(Some(taint)) if stands(taint) && !trust.knows(taint) => Some(Doubt::Unknown(taint.clone())),
        Ok(Some(_)) => None,
        Ok(None) if facts.annotations.contains_key(OWNED_ANNOTATION) || !own_label() => None,
        Ok(None) | Err(_) => {
            let standing = facts.taints.iter().filter_map(Taint::from_json);
            let sets =
                |taint: &Taint| trust.policies.iter().any(|policy| node_settings::policy_taint(policy) == *taint);
            standing.into_iter().find(sets).map(Doubt::Unrecorded)
        }
    };
    if matches!(doubt, Some(Doubt::Unknown(_))) {
        // The record stays as well: who looks again is told again.
        patch.owned = None;
    }
    let gone = record.ok().flatten().filter(|_| patch.taints.is_some()).map(|taint| format!("taint {taint}"));
    let labels = patch.labels.keys().map(|key| format!("label {key}"));
    let record = patch.owned.is_some().then(|| format!("annotation {OWNED_ANNOTATION}"));
    let removed = gone.into_iter().chain(labels).chain(record).collect();
    Plan { patch: Some(patch).filter(|patch| *patch != NodePatch::default()), removed, doubt }
}

impl Doubt {
    /// Why it stays, and what to do.
    pub(crate) fn explain(&self, node: &str) -> (String, String) {
        match self {
            Self::Unknown(taint) => (
                format!("it says that taint {taint} is Mullion's, and no policy known here has such a taint"),
                format!(
                    "if a NodePolicy had it, run again with --policies and its directory; if not, run \
                     kubectl annotate node {node} {OWNED_ANNOTATION}-"
                ),
            ),
            Self::Unrecorded(taint) => (
                format!("nothing on it says whether Mullion or somebody else set taint {taint}"),
                format!("if nobody else did, run kubectl taint node {node} {taint}-"),
            ),
        }
    }
}

/// Whether the holder of a lease can be taken for gone.
pub(crate) fn is_vacant(holder: Option<&str>, duration: Option<i32>, unchanged_for: Duration) -> bool {
    let lasts = u64::try_from(duration.unwrap_or(0)).unwrap_or(0);
    holder.is_none_or(str::is_empty) || unchanged_for > Duration::from_secs(lasts)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::collections::BTreeMap;

    use mullion_engine::model::names::WINDOWS_BUILD_LABEL;
    use mullion_policy::policy_file::PolicyFile;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

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

    fn built_in() -> Trust {
        trust(&[], &[])
    }

    #[test]
    fn what_goes_and_what_stays() {
        let ours = record(OURS);
        let forged = record("dedicated=vault:NoSchedule");
        let gone = record("os=windows:NoExecute");
        let unknown = Some(Doubt::Unknown(Taint::parse("dedicated=vault:NoSchedule").unwrap()));
        let unrecorded = || Some(Doubt::Unrecorded(Taint::parse(OURS).unwrap()));
        let release = "label mullion.dev/windows-release";
        let annotation = "annotation mullion.dev/owned";
        let ours_goes = "taint os=windows:NoSchedule";
        for (record, taints, left, removed, doubt) in [
            (
                Some(&*ours),
                &["a:NoExecute", OURS, "b=c:NoSchedule"][..],
                &["a:NoExecute", "b=c:NoSchedule"][..],
                vec![ours_goes, release, annotation],
                None,
            ),
            // Somebody took it off already.
            (Some(&*gone), &["a:NoExecute"], &["a:NoExecute"], vec![release, annotation], None),
            (Some("{}"), &[OURS], &[OURS], vec![release, annotation], None),
            // A kubelet that wants to be rid of a taint.
            (Some(&*forged), &["dedicated=vault:NoSchedule"], &["dedicated=vault:NoSchedule"], vec![release], unknown),
            (Some(&*forged), &["other:NoSchedule"], &["other:NoSchedule"], vec![release, annotation], None),
            (Some("{"), &[OURS], &[OURS], vec![release, annotation], unrecorded()),
            (None, &[OURS, "a:NoSchedule"], &[OURS, "a:NoSchedule"], vec![release], unrecorded()),
            (None, &["os=Windows:NoSchedule"], &["os=Windows:NoSchedule"], vec![release], None),
        ] {
            let facts = node(record, taints);
            let plan = plan(&facts, &built_in());
            let after = plan.patch.as_ref().unwrap().apply(&facts);
            let left: Vec<Value> = left.iter().map(|taint| raw(taint)).collect();
            assert_eq!(after.taints, left, "{record:?} {taints:?}");
            assert_eq!(plan.removed, removed, "{record:?} {taints:?}");
            assert_eq!(plan.doubt, doubt, "{record:?} {taints:?}");
            assert_eq!(after.labels.keys().collect::<Vec<_>>(), ["kubernetes.io/os", "team"]);
        }
    }

    #[test]
    fn nodes_without_anything_of_ours_get_nothing() {
        let mut bare = node(None, &[OURS]);
        bare.labels.remove(WINDOWS_RELEASE_LABEL);
        assert_eq!(plan(&bare, &built_in()), Plan::default());
        let ours = record(OURS);
        let mut linux = node(Some(&ours), &[OURS]);
        linux.labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
        assert_eq!(plan(&linux, &built_in()), Plan::default());
        let mut away = node(Some(&ours), &[OURS]);
        away.labels.insert("type".to_owned(), "virtual-kubelet".to_owned());
        assert_eq!(plan(&away, &built_in()), Plan::default());
    }

    #[test]
    fn policies_and_memory_say_which_taints_are_ours() {
        let platform = Taint::parse("example.com/platform=nt:NoExecute").unwrap();
        let text = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\n\
            spec: {taint: {key: example.com/platform, value: nt, effect: NoExecute}}\n";
        let file = PolicyFile { name: "n.yaml".to_owned(), bytes: text.into() };
        let policy = PolicySet::load(&PolicyFiles { texts: vec![file.clone()], problems: vec![] }).unwrap().nodes;
        let kept = State { policies: vec![file], ..State::default() };
        let mut seen = State::default();
        seen.seen.taints.insert(platform.clone());
        let broken = PolicyFile { name: "b.yaml".to_owned(), bytes: "kind: Nonsense".into() };
        let broken = State { policies: vec![broken], ..State::default() };
        let record = record("example.com/platform=nt:NoExecute");
        let facts = node(Some(&record), &["example.com/platform=nt:NoExecute"]);
        for (given, known) in [
            (built_in(), false),
            (trust(&[policy], &[]), true),
            (trust(&[], &[State::default(), kept]), true),
            (trust(&[], &[seen]), true),
            (trust(&[], &[broken]), false),
        ] {
            let plan = plan(&facts, &given);
            assert_eq!(plan.patch.unwrap().apply(&facts).taints.is_empty(), known);
            assert_eq!(plan.doubt, (!known).then(|| Doubt::Unknown(platform.clone())));
        }
    }

    #[test]
    fn doubts_say_what_to_do() {
        let taint = Taint::parse(OURS).unwrap();
        let (why, help) = Doubt::Unrecorded(taint.clone()).explain("w1");
        assert!(why.contains(OURS) && help.contains("kubectl taint node w1 os=windows:NoSchedule-"), "{why}; {help}");
        let (why, help) = Doubt::Unknown(taint).explain("w1");
        assert!(why.contains(OURS) && help.contains("kubectl annotate node w1 mullion.dev/owned-"), "{why}; {help}");
    }

    #[test]
    fn leases_are_vacant_without_a_holder_or_a_sign_of_one() {
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
        /// Whatever a kubelet writes into the record: other labels and annotations, taints that nobody would call a
        /// Windows node's, and the order of the rest stay; and a second time there is nothing to do.
        #[test]
        fn a_record_gives_away_nothing_of_others(
            key in "(os|dedicated|team)", value in "(windows|vault|)", effect in "(NoSchedule|NoExecute)",
            label in "(mullion.dev/windows-release|node.kubernetes.io/windows-build|team|kubernetes.io/os)",
            labelled in "(ltsc2022|a|windows)",
            standing in prop::collection::btree_set("(os=windows|dedicated=vault|team|os):(NoSchedule|NoExecute)", 0..5),
        ) {
            let record = json!({"labels": {label: labelled}, "taint": {"key": key, "value": value, "effect": effect}});
            let standing: Vec<&str> = standing.iter().map(String::as_str).collect();
            let mut facts = node(Some(&record.to_string()), &standing);
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
