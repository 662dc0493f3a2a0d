//! Tolerations for the taints that mark the nodes of an operating system.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::model::cluster::{ClusterSnapshot, Excess, Taint, TolerationsWhitelist, Unusable, UnusableFact};
use crate::model::pod_view::Pod;
use crate::model::scheduling::{includes, marks, tolerated, toleration_of, toleration_value, toleration_word};
use crate::model::settings::{NodeSettings, TolerationsMode, possible_taint};
use crate::model::{DecisionAnnotation, Edit, Os};
use crate::place::context::WorkloadContext;
use crate::place::placement_changes::PlacementChanges;

/// The most taints seen on nodes for which a pod gets tolerations. One to three taints mark the nodes of an operating
/// system in the clusters that are known, and each toleration adds up to 500 bytes to the patch of every pod.
pub const LEARNED_TAINTS: usize = 32;

/// The taints that mark nodes of an operating system.
#[derive(Debug, Default)]
pub struct MarkerTaints {
    /// Seen now or earlier, at most [`LEARNED_TAINTS`] of them, expected, or Mullion's own.
    pub taints: BTreeSet<Taint>,
    /// How many more were seen. Those that the fewest nodes have are left out, first those that no node has any more.
    pub left_out: usize,
}

impl MarkerTaints {
    /// The taints without tolerations, if there are any.
    fn unusable_fact(&self, os: Os) -> Option<UnusableFact> {
        let excess = Excess { size: LEARNED_TAINTS + self.left_out, limit: LEARNED_TAINTS, unit: "taint" };
        let value = || format!("the set of taints that mark {} nodes", os.title());
        (self.left_out > 0).then(|| UnusableFact::new("Node", "", value(), &Unusable::TooLarge(excess)))
    }
}

/// A toleration that a pod needs and does not have.
#[derive(Debug)]
pub(crate) struct MissingToleration {
    /// The toleration as in a pod spec.
    pub(crate) value: Value,
    /// Its entry in the decision annotation.
    pub(crate) word: String,
    /// The reason, as a clause.
    pub(crate) why: &'static str,
}

impl MissingToleration {
    fn new(value: Value, why: &'static str) -> Self {
        Self { word: toleration_word(&value), value, why }
    }
}

/// Adds the tolerations that the pod needs and does not have, except those that its namespace would reject.
pub(crate) fn add_tolerations(cx: &WorkloadContext<'_>, os: Os, placed: &mut PlacementChanges<'_>) {
    let missing = missing_tolerations(cx, os);
    if missing.is_empty() {
        return;
    }
    let whitelist = tolerations_whitelist(cx);
    for MissingToleration { value, word, why } in missing.into_iter().filter(|it| !whitelist.rejects(&it.value)) {
        let edit = Edit::Append { pointer: cx.input.pod.at("/spec/tolerations"), value };
        placed.push(why, edit, word);
    }
}

/// The tolerations that the namespace admits for the pod, after an update has restored its earlier tolerations.
pub(crate) fn tolerations_whitelist<'a>(cx: &WorkloadContext<'a>) -> TolerationsWhitelist<'a> {
    let present = cx.input.pod.items("/spec/tolerations").iter().chain(earlier_tolerations(cx));
    TolerationsWhitelist::of(cx.input.namespace, present)
}

/// The tolerations that Mullion had added to the template of a DaemonSet before this update, and that it keeps.
pub(crate) fn earlier_tolerations<'c>(cx: &'c WorkloadContext<'_>) -> impl Iterator<Item = &'c Value> {
    let annotation = cx.input.earlier_placement.map(|earlier| earlier.annotation);
    let stands = |annotation: &&DecisionAnnotation| {
        cx.decision.decided().is_none_or(|os| Os::from_name(&annotation.os) == Some(os))
    };
    let old = cx.input.request.old.and_then(|old| Pod::of(cx.input.request.workload.kind, old));
    annotation.filter(stands).zip(old).into_iter().flat_map(|(annotation, old)| {
        old.items("/spec/tolerations").iter().filter(|toleration| annotation.placed_toleration(toleration))
    })
}

/// The tolerations that the pod needs and does not have: for the taints that mark nodes of that OS, and those that
/// the policy lists.
pub(crate) fn missing_tolerations(cx: &WorkloadContext<'_>, os: Os) -> Vec<MissingToleration> {
    let present = cx.input.pod.items("/spec/tolerations");
    let mut missing: Vec<MissingToleration> = Vec::new();
    if cx.input.settings.tolerations == TolerationsMode::Learn {
        let taints = find_marker_taints(os, cx.input.snapshot, cx.node_settings).taints;
        let lacking = taints.iter().filter(|taint| !tolerated(present, taint)).map(toleration_of);
        missing.extend(
            lacking.map(|value| MissingToleration::new(value, "nodes of that operating system carry this taint")),
        );
    }
    if os == Os::Windows && cx.input.settings.tolerations != TolerationsMode::Never {
        let learned = missing.len();
        for value in cx.input.settings.add_tolerations.iter().map(toleration_value) {
            let mut wider = present.iter().chain(missing.iter().take(learned).map(|it| &it.value));
            if !wider.any(|wide| includes(wide, &value)) && !missing.iter().any(|it| it.value == value) {
                missing.push(MissingToleration::new(value, "a policy lists it under place.tolerations.add"));
            }
        }
    }
    missing
}

/// A predicate: whether pods of that OS need a toleration, or one that it includes.
pub(crate) fn wanted_tolerations(cx: &WorkloadContext<'_>, os: Os) -> impl Fn(&Value) -> bool + use<> {
    let mode = cx.input.settings.tolerations;
    let markers = if mode == TolerationsMode::Learn {
        find_marker_taints(os, cx.input.snapshot, cx.node_settings).taints
    } else {
        BTreeSet::new()
    };
    let by_policy = os == Os::Windows && mode != TolerationsMode::Never;
    let listed = cx.input.settings.add_tolerations.iter().filter(|_| by_policy);
    let listed: Vec<Value> = listed.map(toleration_value).collect();
    move |toleration| {
        let pod = std::slice::from_ref(toleration);
        markers.iter().any(|taint| tolerated(pod, taint)) || listed.iter().any(|one| includes(toleration, one))
    }
}

/// The most bytes that the tolerations for [marker taints](find_marker_taints) take in a review: as JSON, as changes, in the
/// patch and in the response.
pub fn learned_size(snapshot: &ClusterSnapshot) -> usize {
    /// A toleration as JSON is a map with four entries, in an allocation of 640 bytes, and eight texts of 32 bytes and
    /// more.
    const TOLERATION: usize = 640 + 8 * 32;
    const COPIES: usize = 4;
    fn size<'t>(taints: impl Iterator<Item = &'t Taint>) -> usize {
        let (number, longest) =
            taints.fold((0_usize, 0), |(number, longest), taint| (number + 1, longest.max(taint.size())));
        number.min(LEARNED_TAINTS) * COPIES * (TOLERATION + longest)
    }
    let nodes = snapshot.nodes.as_ref();
    let linux = nodes.into_iter().flat_map(|nodes| nodes.linux_taints().iter().map(|(taint, _)| taint));
    let windows = nodes.into_iter().flat_map(|nodes| nodes.windows_taints().iter().map(|(taint, _)| taint));
    size(linux).max(size(windows.chain(&snapshot.seen_taints)))
}

/// Whether [`find_unlearned_taints`] can find any: the number of all taints, which is known, exceeds [`LEARNED_TAINTS`].
pub(crate) fn has_many_taints(snapshot: &ClusterSnapshot) -> bool {
    let of_nodes = snapshot.nodes.as_ref().map_or(0, |all| {
        let [linux, windows] = [all.linux_taints(), all.windows_taints()].map(|taints| taints.iter().len());
        linux.max(windows)
    });
    of_nodes + snapshot.seen_taints.len() > LEARNED_TAINTS
}

/// The taints that mark nodes of that operating system and get no tolerations, if there are any.
pub fn find_unlearned_taints(os: Os, snapshot: &ClusterSnapshot, nodes: &NodeSettings) -> Option<UnusableFact> {
    find_marker_taints(os, snapshot, nodes).unusable_fact(os)
}

/// The taints that mark nodes of that operating system. They never include spot, GPU or tenant taints.
pub fn find_marker_taints(os: Os, snapshot: &ClusterSnapshot, nodes: &NodeSettings) -> MarkerTaints {
    let patterns = if os == Os::Linux { &nodes.linux_taints } else { &nodes.windows_taints };
    let live = snapshot.nodes.iter().flat_map(|all| match os {
        Os::Linux => all.linux_taints().iter(),
        Os::Windows => all.windows_taints().iter(),
    });
    let mut seen: BTreeMap<&Taint, usize> = live.filter(|(taint, _)| marks(patterns, taint)).collect();
    let mut taints = BTreeSet::new();
    if os == Os::Windows {
        for taint in snapshot.seen_taints.iter().filter(|taint| marks(patterns, taint)) {
            seen.entry(taint).or_default();
        }
        let expected = nodes.expected_pools.iter().flat_map(|pool| &pool.taints);
        let expected = expected.filter_map(|taint| Taint::parse(taint));
        taints.extend(expected.filter(|taint| marks(patterns, taint)).chain(possible_taint(nodes)));
    }
    let left_out = seen.len().saturating_sub(LEARNED_TAINTS);
    let mut seen: Vec<(&Taint, usize)> = seen.into_iter().collect();
    if left_out > 0 {
        seen.sort_by_key(|(_, nodes)| Reverse(*nodes));
        seen.truncate(LEARNED_TAINTS);
    }
    taints.extend(seen.into_iter().map(|(taint, _)| taint.clone()));
    MarkerTaints { taints, left_out }
}
