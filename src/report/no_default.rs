//! Why an undecided workload does not get the Linux default, as a sentence.

use mullion_engine::admission::Review;
use mullion_engine::detect::NoDefault;
use mullion_engine::model::Os;
use mullion_engine::model::cluster::{ClusterSnapshot, Node, Nodes};
use mullion_engine::model::names::OS_LABEL;
use mullion_engine::model::scheduling::marks;
use mullion_engine::model::text::list_within;
use mullion_policy::PolicySet;

/// The maximum length of the names of nodes.
const NAMES: usize = 100;

/// Why the workload does not get the Linux default, on account of which nodes, and what to write instead; `None` if
/// something decided, or if the evidence says it.
pub(crate) fn no_default(review: &Review, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Option<String> {
    let reason = review.no_default.filter(|reason| !matches!(reason, NoDefault::Decided | NoDefault::LooksWindows))?;
    let nodes = || snapshot.nodes.iter().flat_map(Nodes::iter);
    let of = |os: Option<Os>| nodes().filter(move |node| node.os == os);
    let causes: Vec<String> = match reason {
        NoDefault::LinuxIsMarked => of(Some(Os::Linux)).filter_map(|node| marked(node, policies)).collect(),
        NoDefault::UnlabelledNode => of(None).map(|node| node.name.clone()).collect(),
        _ => Vec::new(),
    };
    let causes = if causes.is_empty() {
        String::new()
    } else {
        format!(": {}", list_within(&causes, causes.len(), ", ", NAMES))
    };
    let advice = format!("; write nodeSelector {OS_LABEL}: {} or {}", Os::Linux.name(), Os::Windows.name());
    let advice = if reason.needs_author() { &*advice } else { "" };
    Some(format!("{}{causes}{advice}", reason.clause()))
}

/// `lin1 has cattle.io/os=linux:NoSchedule`, if a taint marks the node as Linux.
fn marked(node: &Node, policies: &PolicySet) -> Option<String> {
    let patterns = &policies.nodes.linux_taints;
    let taint = node.taints.parsed()?.iter().find(|taint| marks(patterns, taint))?;
    Some(format!("{} has {taint}", node.name))
}
