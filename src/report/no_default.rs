//! Why an undecided workload does not get the Linux default, as a sentence.

use mullion_engine::admission::Review;
use mullion_engine::detect::NoDefault;
use mullion_engine::model::Os;
use mullion_engine::model::cluster::{ClusterSnapshot, Node, Nodes, Taint};
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
    let list = |count: usize, causes: &mut dyn Iterator<Item = String>| match count {
        0 => String::new(),
        // Those that do not fit are not rendered.
        _ => format!(": {}", list_within(causes, count, ", ", NAMES)),
    };
    let marked = || of(Some(Os::Linux)).filter_map(|node| Some((node, linux_taint(node, policies)?)));
    let causes = match reason {
        NoDefault::LinuxIsMarked => {
            list(marked().count(), &mut marked().map(|(node, taint)| format!("{} has {taint}", node.name)))
        }
        NoDefault::UnlabelledNode => list(of(None).count(), &mut of(None).map(|node| node.name.clone())),
        _ => String::new(),
    };
    let advice = format!("; write nodeSelector {OS_LABEL}: {} or {}", Os::Linux.name(), Os::Windows.name());
    let advice = if reason.needs_author() { &*advice } else { "" };
    Some(format!("{}{causes}{advice}", reason.clause()))
}

/// The first taint that marks the node as Linux.
fn linux_taint<'n>(node: &'n Node, policies: &PolicySet) -> Option<&'n Taint> {
    node.taints.parsed()?.iter().find(|taint| marks(&policies.nodes.linux_taints, taint))
}
