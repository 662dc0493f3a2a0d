//! What a report cannot contain, because it was not read or is left out on purpose.

use std::collections::BTreeSet;

use mullion_engine::model::text::counted;

use crate::evidence::{ListEvidence, Statement};
use crate::inventory::{Inventory, PodRecord};
use crate::report::{Coverage, ObjectRef, Unknown};

/// The maximum number of objects that an entry lists.
const MAX_OBJECTS: usize = 50;

/// What is not known of the pods of these pools, if pods were not read. Their numbers are `null` in the JSON.
pub fn unread_pods<'a>(coverage: &Coverage, pools: impl Iterator<Item = &'a str>) -> Option<Unknown> {
    let ListEvidence::Missing(why) = Statement::Pods.evidence(coverage) else { return None };
    let pools: BTreeSet<&str> = pools.collect();
    Some(Unknown {
        what: format!("Which pods run in these pools, and whether they are stuck or misplaced, is not known: {why}."),
        resolve: "Read the pods too, as with kubectl get nodes,pods --all-namespaces -o json.".to_owned(),
        objects: pools.iter().take(MAX_OBJECTS).map(|name| object("NodePool", name)).collect(),
        all: pools.len(),
    })
}

/// That it is not known what Mullion would change.
pub(crate) fn unread_changes(evidence: &ListEvidence) -> Option<Unknown> {
    let ListEvidence::Missing(why) = evidence else { return None };
    Some(Unknown {
        what: format!("What Mullion would change is not known: {why}."),
        resolve: "Read the namespaces too, as with kubectl get nodes,pods,namespaces --all-namespaces -o json."
            .to_owned(),
        objects: vec![object("Cluster", "changes")],
        all: 1,
    })
}

/// Nodes without a kubelet of their own, which are in no pool, and the number of their pods.
pub fn virtual_nodes(inventory: &Inventory) -> Option<Unknown> {
    let nodes = &inventory.virtual_nodes;
    let is_there = |pod: &&PodRecord| pod.node.as_deref().is_some_and(|node| nodes.contains(node));
    let pods = inventory.pods.iter().filter(is_there).count();
    (!nodes.is_empty()).then(|| Unknown {
        what: format!(
            "Which operating systems these virtual nodes have is not known: their provider decides it, so they are in no pool. {} {} on them.",
            counted(pods, "pod"),
            if pods == 1 { "is" } else { "are" },
        ),
        resolve: "See the documentation of the virtual kubelet.".to_owned(),
        objects: nodes.iter().take(MAX_OBJECTS).map(|name| object("Node", name)).collect(),
        all: nodes.len(),
    })
}

fn object(kind: &str, name: &str) -> ObjectRef {
    ObjectRef { namespace: String::new(), kind: kind.to_owned(), name: name.to_owned() }
}
