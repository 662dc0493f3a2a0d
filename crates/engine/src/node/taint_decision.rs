//! The decision about the taint of one node.

use std::collections::BTreeSet;

use crate::model::cluster::Taint;
use crate::model::names::OWNED_ANNOTATION;
use crate::model::settings::{ApplyTaint, Mode, NodeSettings, marks_windows, policy_taint};
use crate::node::facts::NodeFacts;
use crate::node::owned_record::{Owned, Removed};

/// What to do with the taint. `ours`: the position of the taint that Mullion set.
pub(crate) enum TaintDecision {
    /// No taint is wanted, and the node does not have Mullion's.
    Nothing,
    /// The node has Mullion's taint, and it is the wanted one.
    Keep(Taint),
    /// Mullion's taint must be removed.
    Remove { ours: usize, why: String },
    /// A taint of someone else already marks the node.
    Foreign(Taint),
    /// Another taint has the same key and effect, and the API server accepts each such pair once. An older taint of
    /// Mullion stays.
    Taken { by: Taint, ours: Option<Taint> },
    /// The taint must be set, in place of Mullion's or at the end.
    Set { taint: Taint, ours: Option<usize> },
}

pub(crate) fn decide(node: &NodeFacts, policy: &NodeSettings, owned: &Owned) -> TaintDecision {
    let owned = owned.taint.as_ref();
    let ours = owned.and_then(|owned| node.taints.iter().position(|raw| Taint::from_json(raw).as_ref() == Some(owned)));
    let standing = owned.filter(|_| ours.is_some());
    let wanted = policy_taint(policy);
    if policy.mode == Mode::Disabled || policy.taint.apply == ApplyTaint::Never {
        let disabled = policy.mode == Mode::Disabled;
        let why = if disabled { "the NodePolicy is disabled" } else { "the NodePolicy sets no taint" };
        return ours.map_or(TaintDecision::Nothing, |ours| TaintDecision::Remove { ours, why: why.to_owned() });
    }
    let others = || {
        let foreign = node.taints.iter().enumerate().filter(|(at, _)| Some(*at) != ours);
        foreign.filter_map(|(_, raw)| Taint::from_json(raw))
    };
    // This includes a marker that was added later: with the taints of two tools every pod would need two tolerations.
    if let Some(marker) = others().find(|taint| repels(taint) && marks_windows(taint, policy)) {
        return match ours {
            Some(ours) => TaintDecision::Remove { ours, why: format!("{marker} marks the node already") },
            None => TaintDecision::Foreign(marker),
        };
    }
    if let Some(standing) = standing.filter(|standing| **standing == wanted) {
        return TaintDecision::Keep(standing.clone());
    }
    if let Some(by) = others().find(|taint| taint.key == wanted.key && taint.effect == wanted.effect) {
        return TaintDecision::Taken { by, ours: standing.cloned() };
    }
    TaintDecision::Set { taint: wanted, ours }
}

/// Whether the taint can be set now: it is one of Mullion's own taints, so that the next controller knows it. Under `mode:
/// Audit` it would become one.
pub(crate) fn is_recorded(taint: &Taint, policy: &NodeSettings, own_taints: &BTreeSet<Taint>) -> bool {
    policy.mode == Mode::Audit || own_taints.contains(taint)
}

/// Whether it repels pods; `PreferNoSchedule` only discourages.
fn repels(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

/// The reason why a contested taint is not set again, and how to change that.
pub(crate) fn contested(taint: &Taint, removed: &Removed, node: &str) -> String {
    format!(
        "taint {taint} is not set again: it was removed {} times within an hour. Find out who removes it (kubectl get \
         node {node} -o yaml --show-managed-fields). Mullion sets it again after kubectl annotate node {node} {}-, or if \
         the NodePolicy has another taint; to set it by hand: kubectl taint node {node} {taint}",
        removed.count(),
        OWNED_ANNOTATION
    )
}
