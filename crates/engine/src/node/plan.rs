//! The plan for a Windows node: labels, a taint, and a record of what Mullion added.
//!
//! [`plan_node`] is a pure function of the node's current state, so a second plan changes nothing, and two controllers
//! that race get the same result. What Mullion added to a node is recorded on the node itself (`OWNED_ANNOTATION`), and
//! Mullion removes nothing else. Everything else, including taints of unknown tools, stays where it is, in its order,
//! with every member it has.
//!
//! Kubelets can write that record, and `NodeRestriction` forbids them to change taints (`admitNode` in
//! `plugin/pkg/admission/noderestriction/admission.go`). A kubelet must not be able to make Mullion remove taints for
//! it, so a recorded taint counts as Mullion's only if it is one of `own_taints`: the exact taints that policies have ever
//! set, which kubelets cannot write. No taint is set before it is one of them. Through Mullion, a kubelet can only remove
//! or replace these taints, and Mullion's three labels, on its own node.

use std::collections::BTreeSet;

use crate::model::cluster::Taint;
use crate::model::names::{OWNED_ANNOTATION, WINDOWS_RELEASE_LABEL, WINDOWS_REVISION_LABEL};
use crate::model::settings::{Mode, NodeSettings};
use crate::node::draft::draft;
use crate::node::facts::{NodeFacts, is_windows_node};
use crate::node::node_patch::{NodePatch, NodePlan};
use crate::node::owned_record::Owned;
use crate::node::taint_blockers::TaintBlocker;
use crate::node::taint_decision::{TaintDecision, decide, is_recorded};

/// What one node gets under `policy` at `now` (seconds since 1970). `blockers`: what does not tolerate the policy's
/// taint and would be worse off with it; see [`wanted_taint`] for when that matters.
///
/// Nodes that are not Windows nodes and virtual-kubelet nodes are not changed. `mode: Audit` only returns reasons.
/// `mode: Disabled` removes what Mullion added. If others remove Mullion's taint, Mullion sets it again. After the
/// third removal within an hour it stops, until the policy has another taint, someone sets the taint again, or the
/// annotation is removed.
pub fn plan_node(
    node: &NodeFacts,
    policy: &NodeSettings,
    own_taints: &BTreeSet<Taint>,
    blockers: &[TaintBlocker],
    now: u64,
) -> NodePlan {
    if is_windows_node(node) { draft(node, policy, own_taints, blockers, now) } else { NodePlan::default() }
}

/// The taint that [`plan_node`] would add to this node if nothing blocks it; `None` if it would add none.
pub fn wanted_taint(node: &NodeFacts, policy: &NodeSettings, own_taints: &BTreeSet<Taint>) -> Option<Taint> {
    if !is_windows_node(node) {
        return None;
    }
    let (owned, _) = Owned::read(node).proved(own_taints);
    match decide(node, policy, &owned) {
        // Independent of the time: only the record counts, and the next plan may still find the taint contested.
        TaintDecision::Set { taint, .. } if is_recorded(&taint, policy, own_taints) => {
            let removed = owned.removed.filter(|removed| removed.contested() && removed.is_of(&taint));
            removed.is_none().then_some(taint)
        }
        _ => None,
    }
}

/// The patch that removes everything of Mullion from a node: its taint, its labels, its annotation.
pub fn withdraw_node(node: &NodeFacts, own_taints: &BTreeSet<Taint>) -> Option<NodePatch> {
    let disabled = NodeSettings { mode: Mode::Disabled, ..NodeSettings::default() };
    let mut patch = plan_node(node, &disabled, own_taints, &[], 0).patch.unwrap_or_default();
    // Mullion's own domain: these labels are Mullion's even if their record was lost.
    let own = [WINDOWS_RELEASE_LABEL, WINDOWS_REVISION_LABEL].into_iter().filter(|key| node.labels.contains_key(*key));
    patch.labels.extend(own.filter(|_| is_windows_node(node)).map(|key| (key.to_owned(), None)));
    Some(patch).filter(|patch| *patch != NodePatch::default())
}

/// The taint that a node's own record names as Mullion's; an error if the record cannot be read. A kubelet can write
/// anything there.
pub fn recorded_taint(node: &NodeFacts) -> serde_json::Result<Option<Taint>> {
    let Some(text) = node.annotations.get(OWNED_ANNOTATION) else { return Ok(None) };
    let owned: Owned = serde_json::from_str(text)?;
    Ok(owned.taint)
}

#[cfg(test)]
mod tests;
