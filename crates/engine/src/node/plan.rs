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
//! or replace these taints, and the [labels that Mullion manages](crate::node::MANAGED_LABELS), on its own node.

use std::collections::BTreeSet;

use serde_json::json;

use crate::model::cluster::Taint;
use crate::model::names::{OWNED_ANNOTATION, WINDOWS_BUILD_LABEL};
use crate::model::settings::{ApplyTaint, Mode, NodeSettings, policy_taint};
use crate::model::text::list;
use crate::model::windows::Build;
use crate::node::facts::{NodeFacts, is_windows_node};
use crate::node::managed::{LabelFacts, MANAGED_LABELS};
use crate::node::node_patch::{NodePatch, NodePlan, TaintHold};
use crate::node::owned_record::Owned;
use crate::node::taint_blockers::TaintBlocker;
use crate::node::taint_decision::{TaintDecision, contested, decide, is_recorded};

/// What one node gets under `policy` at `now` (seconds since 1970). `blockers`: what does not tolerate the policy's
/// taint and would be worse off with it. They matter only if the plan without them has a [taint](NodePlan::taint).
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
    if !is_windows_node(node) {
        return NodePlan::default();
    }
    let (before, unproved) = Owned::recorded_on(node).proved(own_taints);
    let mut draft = Draft { node, policy, before, owned: Owned::default(), plan: NodePlan::default() };
    draft.plan.unproved = unproved.filter(|unproved| node.has_taint(unproved));
    if let Some(unproved) = &draft.plan.unproved {
        draft.plan.reasons.push(format!(
            "taint {unproved} stays: only the node's own record names it as Mullion's; if an earlier NodePolicy set it, \
             remove it by hand"
        ));
    }
    let mut patch = NodePatch::default();
    draft.set_labels(&mut patch);
    draft.set_taint(&mut patch, own_taints, blockers, now);
    draft.finish(patch)
}

/// The patch that removes everything of Mullion from a node: its taint, its labels, its annotation.
pub fn withdraw_node(node: &NodeFacts, own_taints: &BTreeSet<Taint>) -> Option<NodePatch> {
    let disabled = NodeSettings { mode: Mode::Disabled, ..NodeSettings::default() };
    let mut patch = plan_node(node, &disabled, own_taints, &[], 0).patch.unwrap_or_default();
    if is_windows_node(node) {
        patch.labels.extend(own_labels(node).map(|key| (key.to_owned(), None)));
    }
    Some(patch).filter(|patch| *patch != NodePatch::default())
}

/// The labels of a node that are in Mullion's own domain, and therefore Mullion's without a record.
pub fn own_labels(node: &NodeFacts) -> impl Iterator<Item = &'static str> {
    let own = MANAGED_LABELS.iter().filter(|label| label.own_domain).map(|label| label.key);
    own.filter(|key| node.labels.contains_key(*key))
}

/// The taint that a node's own record names as Mullion's; an error if the record cannot be read. A kubelet can write
/// anything there.
pub fn recorded_taint(node: &NodeFacts) -> serde_json::Result<Option<Taint>> {
    let Some(text) = node.annotations.get(OWNED_ANNOTATION) else { return Ok(None) };
    let owned: Owned = serde_json::from_str(text)?;
    Ok(owned.taint)
}

struct Draft<'a> {
    node: &'a NodeFacts,
    policy: &'a NodeSettings,
    /// What Mullion owned before the change.
    before: Owned,
    /// What Mullion owns after the change.
    owned: Owned,
    plan: NodePlan,
}

impl Draft<'_> {
    fn set_labels(&mut self, patch: &mut NodePatch) {
        let standing = |key: &str| self.node.labels.get(key);
        // A build that Mullion set may be out of date after an upgrade in place.
        let recorded = self.before.labels.get(WINDOWS_BUILD_LABEL);
        let foreign = standing(WINDOWS_BUILD_LABEL).filter(|label| Some(*label) != recorded);
        let kernel = Build::from_kernel_version(&self.node.kernel_version);
        let build = foreign.and_then(|label| Build::from_label(label)).or(kernel.map(|(build, _)| build));
        let facts = LabelFacts { policy: self.policy, kernel, build };
        for label in MANAGED_LABELS.iter().filter(|label| label.is_selected(self.policy)) {
            let (standing, recorded) = (standing(label.key), self.before.labels.get(label.key));
            let is_ours = standing.is_some() && standing == recorded;
            if standing.is_some() && !is_ours && !label.own_domain {
                continue;
            }
            let wanted = (label.value)(&facts);
            // A label whose value is unknown for now stays as it is.
            let Some(value) = wanted.or_else(|| recorded.filter(|_| is_ours).cloned()) else { continue };
            if standing != Some(&value) {
                self.plan.reasons.push(format!("label {}={value}", label.key));
                patch.labels.insert(label.key.to_owned(), Some(value.clone()));
            }
            self.owned.labels.insert(label.key.to_owned(), value);
        }
        for (key, value) in &self.before.labels {
            if !self.owned.labels.contains_key(key) && standing(key) == Some(value) {
                self.plan.reasons.push(format!("remove label {key}: the NodePolicy does not set it"));
                patch.labels.insert(key.clone(), None);
            }
        }
    }

    fn set_taint(&mut self, patch: &mut NodePatch, own_taints: &BTreeSet<Taint>, blockers: &[TaintBlocker], now: u64) {
        let mut taints = self.node.taints.clone();
        let reason = match decide(self.node, self.policy, &self.before) {
            TaintDecision::Nothing => return,
            TaintDecision::Keep(ours) => {
                self.owned.taint = Some(ours);
                self.owned.removed = self.before.removed.take();
                return;
            }
            TaintDecision::Foreign(taint) => {
                return self.plan.reasons.push(format!("no taint added: {taint} marks the node already"));
            }
            TaintDecision::Taken { by, ours } => {
                self.owned.taint = ours;
                return self.plan.reasons.push(format!(
                    "no taint added: {by} has the key and effect of {}, and a node can have each such pair once; \
                     remove it, or choose another taint.key in the NodePolicy",
                    policy_taint(self.policy)
                ));
            }
            TaintDecision::Remove { ours, why } => {
                let gone = taints.remove(ours);
                let gone = Taint::from_json(&gone).map_or_else(String::new, |taint| taint.to_string());
                format!("remove taint {gone}: {why}")
            }
            TaintDecision::Set { taint, ours } if !is_recorded(&taint, self.policy, own_taints) => {
                self.owned.removed = self.before.removed.take();
                let why = format!("taint {taint} waits until it is recorded as Mullion's");
                return self.hold_taint(TaintHold::NotRecorded, why, ours);
            }
            TaintDecision::Set { taint, ours } => {
                self.owned.removed = self.before.removals(self.node, &taint, now);
                if let Some(removed) = self.owned.removed.as_ref().filter(|removed| removed.contested()) {
                    let why = contested(&taint, removed, &self.node.name);
                    return self.hold_taint(TaintHold::Contested, why, None);
                }
                if self.policy.taint.apply == ApplyTaint::WhenTolerated && !blockers.is_empty() {
                    let why = format!("taint {taint} waits for {}", list(blockers));
                    return self.hold_taint(TaintHold::Waiting, why, ours);
                }
                let raw = json!({ "key": taint.key, "value": taint.value, "effect": taint.effect });
                match ours.and_then(|at| taints.get_mut(at)) {
                    Some(place) => *place = raw,
                    None => taints.push(raw),
                }
                self.plan.taint = Some(taint.clone());
                self.owned.taint = Some(taint.clone());
                format!("taint {taint}")
            }
        };
        self.plan.reasons.push(reason);
        patch.taints = Some(taints);
    }

    /// Does not set the taint. An older taint of Mullion, which is at `ours`, stays.
    fn hold_taint(&mut self, hold: TaintHold, why: String, ours: Option<usize>) {
        self.plan.hold = hold;
        self.plan.reasons.push(why);
        self.owned.taint = self.before.taint.take().filter(|_| ours.is_some());
    }

    fn finish(self, mut patch: NodePatch) -> NodePlan {
        let Self { node, policy, owned, mut plan, .. } = self;
        let record = owned.text();
        // An unproved claim stays exactly as it is, and is reported until someone resolves it.
        let stays = plan.unproved.is_some() && owned.taint.is_none();
        if !stays && record.as_ref() != node.annotations.get(OWNED_ANNOTATION) {
            patch.owned = Some(record);
        }
        if policy.mode == Mode::Audit {
            for reason in &mut plan.reasons {
                reason.insert_str(0, "would: ");
            }
            plan.withheld = !patch.labels.is_empty() || patch.taints.is_some() || plan.hold != TaintHold::None;
            plan.hold = TaintHold::None;
        } else {
            plan.patch = Some(patch).filter(|patch| *patch != NodePatch::default());
        }
        plan
    }
}

#[cfg(test)]
mod tests;
