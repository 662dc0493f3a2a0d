//! The taints that are Mullion's own: key `own-taints` of ConfigMap `mullion-state`.
//!
//! The record on a node claims that a taint is Mullion's, and its kubelet can write that record. A claim is true if the
//! policies have set exactly this taint, which only the controller writes down, before the first node gets it.

use std::collections::BTreeSet;

use mullion_engine::model::cluster::Taint;
use mullion_engine::model::settings::possible_taint;
use mullion_policy::{PolicyFiles, PolicySet};

use crate::cluster::state::MullionState;

/// Mullion's own taints. In a state of an earlier release, which did not store them, these are the taints of the stored
/// policies, or of the built-in ones if none are stored. The taints that nodes have had prove nothing, because a kubelet
/// chooses the taints with which it registers.
pub(crate) fn own_taints(state: &MullionState) -> BTreeSet<Taint> {
    if let Some(own_taints) = &state.own_taints {
        return own_taints.clone();
    }
    if !state.found {
        return BTreeSet::new();
    }
    let stored = [&state.policies, &state.earlier_policies].into_iter().filter(|stored| !stored.files.is_empty());
    let mut sets: Vec<PolicySet> = stored
        .filter_map(|stored| {
            let files = PolicyFiles { texts: stored.files.clone(), problems: Vec::new() };
            PolicySet::load(&files).ok()
        })
        .collect();
    if state.policies.files.is_empty() {
        sets.push(PolicySet::built_in());
    }
    sets.iter().filter_map(|set| possible_taint(&set.nodes)).chain(state.taint_on_create.clone()).collect()
}
