//! The draft of a node's change: from its current labels, taints and record to what the policy sets.

use std::collections::BTreeSet;

use serde_json::json;

use crate::model::cluster::Taint;
use crate::model::names::{OWNED_ANNOTATION, WINDOWS_BUILD_LABEL, WINDOWS_RELEASE_LABEL, WINDOWS_REVISION_LABEL};
use crate::model::settings::{ApplyTaint, Mode, NodeLabel, NodeSettings, policy_taint};
use crate::model::text::list;
use crate::model::windows::Build;
use crate::node::facts::{NodeFacts, release};
use crate::node::node_patch::{NodePatch, NodePlan, TaintHold};
use crate::node::owned_record::Owned;
use crate::node::taint_blockers::TaintBlocker;
use crate::node::taint_decision::{TaintDecision, contested, decide, is_recorded};

struct Draft<'a> {
    node: &'a NodeFacts,
    policy: &'a NodeSettings,
    own_taints: &'a BTreeSet<Taint>,
    patch: NodePatch,
    reasons: Vec<String>,
    /// What Mullion owns on the node after the change.
    owned: Owned,
    hold: TaintHold,
    /// See [`NodePlan::unproved`].
    unproved: Option<Taint>,
}

/// Drafts the change of one node, from its record of what Mullion owns.
pub(crate) fn draft(
    node: &NodeFacts,
    policy: &NodeSettings,
    own_taints: &BTreeSet<Taint>,
    blockers: &[TaintBlocker],
    now: u64,
) -> NodePlan {
    let (before, unproved) = Owned::read(node).proved(own_taints);
    let mut draft = Draft {
        node,
        policy,
        own_taints,
        patch: NodePatch::default(),
        reasons: Vec::new(),
        owned: Owned::default(),
        hold: TaintHold::None,
        unproved: unproved.filter(|unproved| node.has_taint(unproved)),
    };
    if let Some(unproved) = &draft.unproved {
        draft.reasons.push(format!(
            "taint {unproved} stays: only the node's own record names it as Mullion's; if an earlier NodePolicy set it, \
             remove it by hand"
        ));
    }
    draft.labels(&before);
    draft.taint(&before, blockers, now);
    draft.finish()
}

impl Draft<'_> {
    fn labels(&mut self, before: &Owned) {
        let wanted = self.wanted_labels(before);
        for (key, value) in wanted {
            let stands = self.node.labels.get(key) == Some(&value);
            if !stands {
                self.reasons.push(format!("label {key}={value}"));
                self.patch.labels.insert(key.to_owned(), Some(value.clone()));
            }
            // A label of Mullion's own domain is Mullion's even if its record was lost; the kubelet's label is not.
            if !stands || key != WINDOWS_BUILD_LABEL || before.labels.get(key) == Some(&value) {
                self.owned.labels.insert(key.to_owned(), value);
            }
        }
        for (key, value) in &before.labels {
            if !self.owned.labels.contains_key(key)
                && !self.patch.labels.contains_key(key)
                && self.node.labels.get(key) == Some(value)
                && !self.is_kept(key)
            {
                self.reasons.push(format!("remove label {key}: the NodePolicy does not set it"));
                self.patch.labels.insert(key.clone(), None);
            } else if self.is_kept(key) && self.node.labels.get(key) == Some(value) {
                self.owned.labels.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// Whether the policy keeps a label with a value that is unknown for now (a node whose kubelet has not reported
    /// yet). The label stays as it is.
    fn is_kept(&self, key: &str) -> bool {
        self.policy.mode != Mode::Disabled
            && match key {
                WINDOWS_RELEASE_LABEL => self.policy.labels.contains(&NodeLabel::Release),
                WINDOWS_REVISION_LABEL => self.policy.labels.contains(&NodeLabel::Revision),
                _ => true,
            }
    }

    fn wanted_labels(&self, before: &Owned) -> Vec<(&'static str, String)> {
        if self.policy.mode == Mode::Disabled {
            return Vec::new();
        }
        let kernel = Build::from_kernel_version(&self.node.kernel_version);
        let standing = self.node.labels.get(WINDOWS_BUILD_LABEL);
        // A label that Mullion set may be out of date after an upgrade in place. A label that anyone else set is
        // correct by definition, because selectors use it.
        let ours = standing.is_some() && standing == before.labels.get(WINDOWS_BUILD_LABEL);
        let foreign = standing.filter(|_| !ours);
        let mut wanted = Vec::new();
        if let (None, Some((build, _))) = (foreign, kernel) {
            wanted.push((WINDOWS_BUILD_LABEL, build.to_string()));
        }
        let build = foreign.and_then(|label| Build::from_label(label)).or(kernel.map(|(build, _)| build));
        if let Some(build) = build.filter(|_| self.policy.labels.contains(&NodeLabel::Release)) {
            wanted.push((WINDOWS_RELEASE_LABEL, release(build, self.policy)));
        }
        let revision = kernel.and_then(|(_, revision)| revision);
        if let Some(revision) = revision.filter(|_| self.policy.labels.contains(&NodeLabel::Revision)) {
            wanted.push((WINDOWS_REVISION_LABEL, revision.to_string()));
        }
        wanted
    }

    fn taint(&mut self, before: &Owned, blockers: &[TaintBlocker], now: u64) {
        let mut taints = self.node.taints.clone();
        match decide(self.node, self.policy, before) {
            TaintDecision::Nothing => return,
            TaintDecision::Keep(ours) => {
                self.owned.taint = Some(ours);
                self.owned.removed.clone_from(&before.removed);
                return;
            }
            TaintDecision::Foreign(taint) => {
                self.reasons.push(format!("no taint added: {taint} marks the node already"));
                return;
            }
            TaintDecision::Taken { by, ours } => {
                self.reasons.push(format!(
                    "no taint added: {by} has the key and effect of {}, and a node can have each such pair once; \
                     remove it, or choose another taint.key in the NodePolicy",
                    policy_taint(self.policy)
                ));
                self.owned.taint = ours;
                return;
            }
            TaintDecision::Remove { ours, why } => {
                let gone = taints.remove(ours);
                self.reasons.push(format!(
                    "remove taint {}: {why}",
                    Taint::from_json(&gone).map_or_else(String::new, |t| t.to_string())
                ));
            }
            TaintDecision::Set { taint, ours } if !is_recorded(&taint, self.policy, self.own_taints) => {
                self.reasons.push(format!("taint {taint} waits until it is recorded as Mullion's"));
                self.owned.taint = before.taint.clone().filter(|_| ours.is_some());
                self.owned.removed.clone_from(&before.removed);
                self.hold = TaintHold::NotRecorded;
                return;
            }
            TaintDecision::Set { taint, ours } => {
                self.owned.removed = before.removals(self.node, &taint, now);
                if let Some(removed) = self.owned.removed.as_ref().filter(|removed| removed.contested()) {
                    self.reasons.push(contested(&taint, removed, &self.node.name));
                    self.hold = TaintHold::Contested;
                    return;
                }
                if self.policy.taint.apply == ApplyTaint::WhenTolerated && !blockers.is_empty() {
                    self.reasons.push(format!("taint {taint} waits for {}", list(blockers)));
                    self.owned.taint = before.taint.clone().filter(|_| ours.is_some());
                    self.hold = TaintHold::Waiting;
                    return;
                }
                self.reasons.push(format!("taint {taint}"));
                let raw = json!({ "key": taint.key, "value": taint.value, "effect": taint.effect });
                match ours.and_then(|at| taints.get_mut(at)) {
                    Some(place) => *place = raw,
                    None => taints.push(raw),
                }
                self.owned.taint = Some(taint);
            }
        }
        self.patch.taints = Some(taints);
    }

    fn finish(mut self) -> NodePlan {
        let owned = self.owned.text();
        // An unproved claim stays exactly as it is, and is reported until someone resolves it.
        let stays = self.unproved.is_some() && self.owned.taint.is_none();
        if !stays && owned.as_ref() != self.node.annotations.get(OWNED_ANNOTATION) {
            self.patch.owned = Some(owned);
        }
        let audit = self.policy.mode == Mode::Audit;
        if audit {
            for reason in &mut self.reasons {
                reason.insert_str(0, "would: ");
            }
        }
        let acts = !self.patch.labels.is_empty() || self.patch.taints.is_some() || self.hold != TaintHold::None;
        let patch = Some(self.patch).filter(|patch| !audit && *patch != NodePatch::default());
        let hold = if audit { TaintHold::None } else { self.hold };
        NodePlan { patch, reasons: self.reasons, hold, withheld: audit && acts, unproved: self.unproved }
    }
}
