//! Finds the nodes that a DaemonSet leaves out.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::model::cluster::{Nodes, Taint};
use crate::model::names::WINDOWS_BUILD_LABEL;
use crate::model::scheduling::{MAX_COMPARISONS, NodeConstraints, constrains, tolerated};
use crate::model::windows::Build;
use crate::model::{BUILD, DecisionAnnotation, Os};
use crate::place::build_constraints::has_unknown_class;
use crate::place::context::WorkloadContext;
use crate::place::left_out_nodes::{LeftOutNodes, MOST_BUILDS, MOST_NAMES};
use crate::place::tolerations::{earlier_tolerations, missing_tolerations};

/// The nodes that the DaemonSet leaves out; `None` if there are none, or if they are unknown. Builds that Mullion
/// excludes are left out; builds that the author excludes do not count.
pub(crate) fn find_left_out_nodes(cx: &WorkloadContext<'_>) -> Option<LeftOutNodes> {
    let nodes = cx.input.snapshot.nodes.as_ref().filter(|_| is_for_builds(cx))?;
    let cannot = |build: &Build| cx.builds.incompatible.contains(build);
    if !nodes.windows_builds().iter().any(cannot) {
        return None;
    }
    let pod = &cx.input.pod;
    let written = DecisionAnnotation::of(cx.input.object());
    let earlier = cx.input.earlier_placement.map(|earlier| earlier.annotation);
    let ours = earlier.into_iter().chain(&written).any(|annotation| annotation.has_placed(BUILD));
    let required = if ours || !constrains(pod, WINDOWS_BUILD_LABEL) {
        NodeConstraints::of(pod, std::iter::empty())
    } else {
        NodeConstraints::with_excluded_builds(pod)
    };
    if !required.comparable_with_all(nodes) {
        return None;
    }
    let repelling = repelling_taints(nodes, &tolerations_with_missing(cx))?;
    let mut found = LeftOutNodes::default();
    for node in nodes.iter().filter(|node| node.os == Some(Os::Windows) && required.fit(node)) {
        // Taints that are too large to use may keep the pods off.
        if node.taints.parsed().is_none_or(|taints| taints.iter().any(|taint| repelling.contains(taint))) {
            continue;
        }
        found.of += 1;
        let Some(build) = node.build.filter(cannot) else { continue };
        found.count += 1;
        if found.names.len() < MOST_NAMES {
            found.names.push(node.name.clone());
        }
        if found.builds.len() < MOST_BUILDS || found.builds.contains_key(&build) {
            *found.builds.entry(build).or_default() += 1;
        }
    }
    (found.count > 0).then_some(found)
}

/// Whether it is a Windows DaemonSet for which the nodes' builds matter, and whose known images run on some of
/// them.
fn is_for_builds(cx: &WorkloadContext<'_>) -> bool {
    cx.input.is_daemon_set()
        && cx.is_whole_pod()
        && cx.placed_on() == Some(Os::Windows)
        && cx.build_matters()
        && !has_unknown_class(cx)
        && cx.builds.common
        && cx.input.pod.text("/spec/nodeName").is_none()
}

/// The tolerations of the pod, those that Mullion adds, and those that it restores.
fn tolerations_with_missing(cx: &WorkloadContext<'_>) -> Vec<Value> {
    let present = cx.input.pod.items("/spec/tolerations").iter().cloned();
    let missing = missing_tolerations(cx, Os::Windows).into_iter().map(|missing| missing.value);
    present.chain(missing).chain(earlier_tolerations(cx).cloned()).collect()
}

/// The taints of Windows nodes that keep the DaemonSet's pods off a node for as long as the node exists; `None` if they
/// are too many to be compared with the tolerations within a review. They are compared once, because thousands of nodes
/// have the same taints.
fn repelling_taints<'n>(nodes: &'n Nodes, tolerations: &[Value]) -> Option<BTreeSet<&'n Taint>> {
    let taints = nodes.windows_taints();
    if taints.left_out() > 0 || taints.iter().len().saturating_mul(tolerations.len()) > MAX_COMPARISONS {
        return None;
    }
    let lasting = taints
        .iter()
        .map(|(taint, _)| taint)
        .filter(|taint| taint.effect != "PreferNoSchedule" && !taint.describes_state());
    Some(lasting.filter(|taint| !tolerated(tolerations, taint)).collect())
}
