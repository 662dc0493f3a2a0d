//! The taint of a Windows node at its CREATE, when the controller cannot wait for workloads that do not tolerate it.
//!
//! The controller computes [`taint_on_create`] in advance from everything it knows: the taint that new nodes may get,
//! whatever their labels will be. The webhook calls [`plan_create`] with that taint for each new node.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::cluster::Taint;
use crate::model::json_pointer::escape;
use crate::model::names::{OLD_OS_LABEL, OS_LABEL, OWNED_ANNOTATION};
use crate::model::scheduling::{Expression, SchedulingConstraints, Term, requirement_holds};
use crate::model::settings::{ApplyTaint, NodeSettings, possible_taint};
use crate::model::{Cause, Change, Edit};
use crate::node::facts::NodeFacts;
use crate::node::managed::is_managed_label;
use crate::node::node_patch::NodePatch;
use crate::node::plan::plan_node;
use crate::node::taint_blockers::{DaemonSetFacts, TaintBlocker};

/// The DaemonSets that may be for Windows nodes, as far as the controller knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claimants {
    /// Hash of the policies under which they were determined.
    pub policies: String,
    /// Every DaemonSet that may be for Windows nodes.
    pub daemons: Arc<Vec<DaemonSetFacts>>,
    /// What the taints of nodes currently wait for.
    pub waited_for: BTreeSet<TaintBlocker>,
}

/// The taint that a new Windows node may get with its CREATE; `None` if the taint must be set later, or never.
///
/// Under `WhenTolerated` no DaemonSet may be kept off a node that is not known yet. Any selector except that of an OS
/// may match the node. A DaemonSet without an OS selector counts if its decision is for Windows too, or if a taint
/// waits for it, which is the case while it has a Ready pod on that node. Otherwise the controller would not wait for
/// it on the new node either, where it cannot have a Ready pod yet.
pub fn taint_on_create(policy: &NodeSettings, claimants: &Claimants) -> Option<Taint> {
    let taint = possible_taint(policy)?;
    let stranded = |daemon_set: &DaemonSetFacts| {
        !daemon_set.placement.tolerates(&taint)
            && match os_demand(&daemon_set.placement) {
                OsDemand::Elsewhere => false,
                OsDemand::Windows => true,
                OsDemand::Any => daemon_set.belongs || claimants.waits_for(daemon_set),
            }
    };
    let when_tolerated = policy.taint.apply == ApplyTaint::WhenTolerated;
    if when_tolerated && claimants.daemons.iter().any(stranded) { None } else { Some(taint) }
}

/// What a node gets at its CREATE: everything from [`plan_node`], if its taint is the `allowed` one.
///
/// NodeRestriction checks the node again after this, as if its kubelet had written it (`admitNode` in
/// `plugin/pkg/admission/noderestriction/admission.go`): at CREATE a kubelet may set taints, annotations, labels
/// outside of `kubernetes.io` and `k8s.io`, and those of `node.kubernetes.io` (`IsKubeletLabel` in
/// `pkg/kubelet/apis/well_known_labels.go`). A plan sets no others.
pub fn plan_create(node: &NodeFacts, policy: &NodeSettings, allowed: &Taint) -> Option<NodePatch> {
    // Without the label, it is not the node that the controller assumed.
    let expected = node.labels.get(OS_LABEL).is_some_and(|os| os == "windows");
    if !expected || possible_taint(policy).as_ref() != Some(allowed) {
        return None;
    }
    // At CREATE a kubelet may set any taint or none, so a forged record gives it nothing.
    plan_node(node, policy, &BTreeSet::from([allowed.clone()]), &[], 0).patch
}

/// The patch as edits of the whole object.
pub fn changes(patch: &NodePatch) -> Vec<Change> {
    let member = |parent: &str, key: &str, value: Option<&String>| {
        let pointer = format!("/metadata/{parent}/{}", escape(key));
        match value {
            Some(value) => Edit::Set { pointer, value: value.as_str().into() },
            None => Edit::Remove { pointer },
        }
    };
    let labels = patch.labels.iter().map(|(key, value)| member("labels", key, value.as_ref()));
    let owned = patch.owned.iter().map(|value| member("annotations", OWNED_ANNOTATION, value.as_ref()));
    let taints = patch.taints.iter();
    let taints = taints.map(|taints| Edit::Set { pointer: "/spec/taints".to_owned(), value: taints.clone().into() });
    let edits = labels.chain(owned).chain(taints);
    edits.map(|edit| Change { cause: Cause::Placement("a new Windows node"), edit }).collect()
}

impl Claimants {
    fn waits_for(&self, daemon_set: &DaemonSetFacts) -> bool {
        self.waited_for.iter().any(|blocker| match blocker {
            TaintBlocker::DaemonSet(name) => *name == daemon_set.name,
            TaintBlocker::Pod(_) => false,
            TaintBlocker::Unknown(_) => true,
        })
    }
}

/// The OS that a template requires of nodes with unknown other labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OsDemand {
    /// No Windows node matches.
    Elsewhere,
    /// A Windows node can match that would not match if it ran Linux.
    Windows,
    /// A Windows node can match, and would also match if it ran Linux.
    Any,
}

fn os_demand(placement: &SchedulingConstraints) -> OsDemand {
    let affinity = placement.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let terms = affinity.and_then(|affinity| affinity.required.as_ref());
    let terms: Vec<Option<&Term>> = match terms {
        Some(terms) => terms.node_selector_terms.iter().flatten().map(Some).collect(),
        None => vec![None],
    };
    let mut os_demand = OsDemand::Elsewhere;
    for term in terms {
        for old_label in [true, false] {
            let may =
                |os| selector_may(placement, NewNode { os, old_label }) && term_may(term, NewNode { os, old_label });
            match (may("windows"), may("linux")) {
                (false, _) => {}
                (true, false) => return OsDemand::Windows,
                (true, true) => os_demand = OsDemand::Any,
            }
        }
    }
    os_demand
}

/// What is known of a node: its OS, and whether it also has the older OS label.
#[derive(Debug, Clone, Copy)]
struct NewNode {
    os: &'static str,
    old_label: bool,
}

fn selector_may(placement: &SchedulingConstraints, node: NewNode) -> bool {
    placement.node_selector.iter().flatten().all(|(key, value)| may_hold(key, "In", &[value], node))
}

/// An empty term matches no node. Fields select only names, and the new node may have any name.
fn term_may(term: Option<&Term>, node: NewNode) -> bool {
    let Some(term) = term else { return true };
    let expressions = || term.match_expressions.iter().flatten();
    let may = |wanted: &Expression| {
        may_hold(&wanted.key, &wanted.operator, wanted.values.as_deref().unwrap_or_default(), node)
    };
    (expressions().next().is_some() || term.match_fields.iter().flatten().next().is_some()) && expressions().all(may)
}

fn may_hold(key: &str, operator: &str, values: &[impl AsRef<str>], node: NewNode) -> bool {
    if !["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"].contains(&operator) {
        return true;
    }
    let holds = |value: Option<&str>| requirement_holds(operator, values, value);
    match key {
        OS_LABEL => holds(Some(node.os)),
        OLD_OS_LABEL => holds(Some(node.os).filter(|_| node.old_label)),
        // No Linux node has these labels.
        _ if node.os == "linux" && is_managed_label(key) => holds(None),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
