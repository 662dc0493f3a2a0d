//! Tolerations for the taints that mark the nodes of an operating system.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::model::cluster::{Nodes, Taint, TolerationsWhitelist};
use crate::model::pod_view::Pod;
use crate::model::scheduling::{includes, marks, tolerated, toleration_of, toleration_value, toleration_word};
use crate::model::settings::{TolerationsMode, possible_taint};
use crate::model::{DecisionAnnotation, Edit, Os};
use crate::place::context::WorkloadContext;
use crate::place::placement_changes::PlacementChanges;

/// A toleration that a pod needs and does not have.
#[derive(Debug)]
pub struct MissingToleration {
    /// The toleration as in a pod spec.
    pub value: Value,
    /// Its entry in the decision annotation.
    pub word: String,
    /// The reason, as a clause.
    pub why: &'static str,
}

impl MissingToleration {
    fn new(value: Value, why: &'static str) -> Self {
        Self { word: toleration_word(&value), value, why }
    }
}

impl WorkloadContext<'_> {
    /// Adds the tolerations that the pod needs and does not have, except those that its namespace would reject.
    pub fn add_tolerations(&self, os: Os, placed: &mut PlacementChanges<'_>) {
        let missing = self.missing_tolerations(os);
        if missing.is_empty() {
            return;
        }
        let whitelist = self.whitelist();
        for MissingToleration { value, word, why } in missing.into_iter().filter(|it| !whitelist.rejects(&it.value)) {
            let edit = Edit::Append { pointer: self.input.pod.at("/spec/tolerations"), value };
            placed.push(why, edit, word);
        }
    }

    /// The tolerations that the namespace admits for the pod, after an update has restored its earlier tolerations.
    pub fn whitelist(&self) -> TolerationsWhitelist {
        let present = self.input.pod.items("/spec/tolerations").iter().chain(self.earlier_tolerations());
        TolerationsWhitelist::of(self.input.namespace, present)
    }

    /// The tolerations that Mullion had added to the template of a DaemonSet before this update, and that it keeps.
    pub fn earlier_tolerations(&self) -> impl Iterator<Item = &Value> {
        let annotation = self.input.earlier_placement.map(|earlier| earlier.annotation);
        let stands = |annotation: &&DecisionAnnotation| {
            self.decision.decided().is_none_or(|os| Os::from_name(&annotation.os) == Some(os))
        };
        let old = self.input.request.old.and_then(|old| Pod::of(self.input.request.workload.kind, old));
        annotation.filter(stands).zip(old).into_iter().flat_map(|(annotation, old)| {
            old.items("/spec/tolerations").iter().filter(|toleration| annotation.placed_toleration(toleration))
        })
    }

    /// The tolerations that the pod needs and does not have: for the taints that mark nodes of that OS, and those that
    /// the policy lists.
    pub fn missing_tolerations(&self, os: Os) -> Vec<MissingToleration> {
        let present = self.input.pod.items("/spec/tolerations");
        let mut missing: Vec<MissingToleration> = Vec::new();
        if self.input.settings.tolerations == TolerationsMode::Learn {
            let taints = self.marker_taints(os);
            let lacking = taints.iter().filter(|taint| !tolerated(present, taint)).map(toleration_of);
            missing.extend(
                lacking.map(|value| MissingToleration::new(value, "nodes of that operating system carry this taint")),
            );
        }
        if os == Os::Windows && self.input.settings.tolerations != TolerationsMode::Never {
            let learned = missing.len();
            for value in self.input.settings.add_tolerations.iter().map(toleration_value) {
                let mut wider = present.iter().chain(missing.iter().take(learned).map(|it| &it.value));
                if !wider.any(|wide| includes(wide, &value)) && !missing.iter().any(|it| it.value == value) {
                    missing.push(MissingToleration::new(value, "a policy lists it under place.tolerations.add"));
                }
            }
        }
        missing
    }

    /// A predicate: whether pods of that OS need a toleration, or one that it includes.
    pub fn wanted_tolerations(&self, os: Os) -> impl Fn(&Value) -> bool + use<> {
        let mode = self.input.settings.tolerations;
        let markers = if mode == TolerationsMode::Learn { self.marker_taints(os) } else { BTreeSet::new() };
        let by_policy = os == Os::Windows && mode != TolerationsMode::Never;
        let listed = self.input.settings.add_tolerations.iter().filter(|_| by_policy);
        let listed: Vec<Value> = listed.map(toleration_value).collect();
        move |toleration| {
            let pod = std::slice::from_ref(toleration);
            markers.iter().any(|taint| tolerated(pod, taint)) || listed.iter().any(|one| includes(toleration, one))
        }
    }

    /// Taints that mark nodes of that OS: seen now or earlier, expected, or Mullion's own. They never include spot, GPU
    /// or tenant taints.
    pub fn marker_taints(&self, os: Os) -> BTreeSet<Taint> {
        let (snapshot, nodes) = (self.input.snapshot, self.node_settings);
        let live = snapshot.nodes.iter();
        match os {
            Os::Linux => {
                let seen = live.flat_map(Nodes::linux_taints);
                seen.filter(|taint| marks(&nodes.linux_taints, taint)).cloned().collect()
            }
            Os::Windows => {
                let seen = live.flat_map(Nodes::windows_taints).chain(&snapshot.seen_taints).cloned();
                let expected = nodes.expected_pools.iter().flat_map(|pool| &pool.taints);
                let mut all: BTreeSet<Taint> = seen
                    .chain(expected.filter_map(|taint| Taint::parse(taint)))
                    .filter(|taint| marks(&nodes.windows_taints, taint))
                    .collect();
                all.extend(possible_taint(nodes));
                all
            }
        }
    }
}
