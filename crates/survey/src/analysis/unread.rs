//! What a report cannot contain, because it was not read or is left out on purpose.

use std::collections::BTreeSet;

use mullion_engine::model::text::counted;

use crate::evidence::{ListEvidence, Statement};
use crate::inventory::{Inventory, PodRecord};
use crate::report::{Coverage, FirstObjects, ObjectRef, Unknown};

/// What is not known of the pods of these pools, if pods were not read. Their numbers are `null` in the JSON.
pub fn unread_pods<'a>(coverage: &Coverage, pools: impl Iterator<Item = &'a str>) -> Option<Unknown> {
    let ListEvidence::Missing(why) = Statement::Pods.evidence(coverage) else { return None };
    let pools: BTreeSet<&str> = pools.collect();
    Unknown::of(
        format!("Which pods run in these pools, and whether they are stuck or misplaced, is not known: {why}."),
        "Read the pods too, as with kubectl get nodes,pods --all-namespaces -o json.",
        pools.into_iter().map(|name| ObjectRef::cluster_wide("NodePool", name)).collect(),
    )
}

/// That it is not known what Mullion would change.
pub(crate) fn unread_changes(evidence: &ListEvidence) -> Option<Unknown> {
    let ListEvidence::Missing(why) = evidence else { return None };
    Unknown::of(
        format!("What Mullion would change is not known: {why}."),
        "Read the namespaces too, as with kubectl get nodes,pods,namespaces --all-namespaces -o json.",
        FirstObjects::from_iter([ObjectRef::cluster_wide("Cluster", "changes")]),
    )
}

/// Nodes without a kubelet of their own, which are in no pool, and the number of their pods.
pub fn virtual_nodes(inventory: &Inventory) -> Option<Unknown> {
    let nodes = &inventory.virtual_nodes;
    let is_there = |pod: &&PodRecord| pod.node.as_deref().is_some_and(|node| nodes.contains(node));
    let pods = inventory.pods.iter().filter(is_there).count();
    Unknown::of(
        format!(
            "Which operating systems these virtual nodes have is not known: their provider decides it, so they are in no pool. {} {} on them.",
            counted(pods, "pod"),
            if pods == 1 { "is" } else { "are" },
        ),
        "See the documentation of the virtual kubelet.",
        nodes.iter().map(|name| ObjectRef::cluster_wide("Node", &**name)).collect(),
    )
}
