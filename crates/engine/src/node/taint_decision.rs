//! What becomes of the taint on one node.

use crate::model::cluster::taint::Taint;
use crate::model::names::OWNED_ANNOTATION;
use crate::model::settings::node_settings::{ApplyTaint, NodeSettings, marks_windows, policy_taint};
use crate::model::settings::workload_settings::Mode;
use crate::node::facts::NodeFacts;
use crate::node::owned_record::{Owned, OwnedTaint, Removed};

/// What is to be done. `ours`: where the taint stands that Mullion put there.
pub(crate) enum TaintDecision {
    /// Nothing: it is not wanted, and none of ours stands.
    Nothing,
    /// Ours stands and is right.
    Keep(OwnedTaint),
    /// Ours has to go.
    Remove { ours: usize, why: String },
    /// Somebody else's taint does the work.
    Foreign(Taint),
    /// Another taint has the same key and effect: the API server takes each such pair once. An older one of ours stays.
    Taken { by: Taint, ours: Option<OwnedTaint> },
    /// To be set, in place of ours or at the end.
    Set { taint: Taint, ours: Option<usize> },
}

pub(crate) fn decide(node: &NodeFacts, policy: &NodeSettings, owned: &Owned) -> TaintDecision {
    let owned = owned.taint.as_ref();
    let ours = owned.and_then(|owned| node.taints.iter().position(|raw| owned.is(raw)));
    let standing = owned.filter(|_| ours.is_some());
    let wanted = policy_taint(policy);
    if policy.mode == Mode::Disabled || policy.taint.apply == ApplyTaint::Never {
        let disabled = policy.mode == Mode::Disabled;
        let why = if disabled { "the NodePolicy is disabled" } else { "the NodePolicy wants none" };
        return ours.map_or(TaintDecision::Nothing, |ours| TaintDecision::Remove { ours, why: why.to_owned() });
    }
    let others = || {
        let foreign = node.taints.iter().enumerate().filter(|(at, _)| Some(*at) != ours);
        foreign.filter_map(|(_, raw)| Taint::from_json(raw))
    };
    // Also one that came later: two tools' taints would ask every pod for two tolerations.
    if let Some(found) = others().find(|taint| repels(taint) && marks_windows(taint, policy)) {
        return match ours {
            Some(ours) => TaintDecision::Remove { ours, why: format!("{found} marks the node already") },
            None => TaintDecision::Foreign(found),
        };
    }
    if let Some(standing) = standing.filter(|standing| standing.same(&wanted)) {
        return TaintDecision::Keep(standing.clone());
    }
    if let Some(by) = others().find(|taint| taint.key == wanted.key && taint.effect == wanted.effect) {
        return TaintDecision::Taken { by, ours: standing.cloned() };
    }
    TaintDecision::Set { taint: wanted, ours }
}

/// Whether it keeps pods away; `PreferNoSchedule` only discourages.
fn repels(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

/// Why a taint is left alone, and how that ends.
pub(crate) fn contested(taint: &Taint, removed: &Removed, node: &str) -> String {
    format!(
        "taint {taint} is left off: somebody removed it {} times within an hour. Find out who (kubectl get node {node} \
         -o yaml --show-managed-fields); it is Mullion's again once kubectl annotate node {node} {}- was run or the \
         NodePolicy has another taint, and kubectl taint node {node} {taint} sets it by hand",
        removed.count(),
        OWNED_ANNOTATION
    )
}
