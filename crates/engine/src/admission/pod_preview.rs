//! A preview of a workload's pods: how they are placed once they are created, and where they could run then.
//!
//! A template at its own request is changed only where the API server would reject it; its pods are placed one by one,
//! when their controller creates them.

use serde::Deserialize;

use crate::admission::response::{Endpoint, respond};
use crate::admission::review::{Review, review};
use crate::model::ReviewRequest;
use crate::model::cluster::{ClusterSnapshot, Node};
use crate::model::pod_view::Pod;
use crate::model::scheduling::SchedulingConstraints;
use crate::model::settings::ReviewSettings;

/// The review with the changes of the pods: for a template, what its pods get.
pub fn review_pods(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, settings: &ReviewSettings<'_>) -> Review {
    review(&ReviewRequest { into_templates: true, ..*request }, snapshot, settings)
}

/// The nodes of the snapshot on which the scheduler could put the pods with Mullion's changes; `None` if the snapshot
/// contains no nodes.
pub fn find_nodes<'w>(
    request: &ReviewRequest<'_>,
    snapshot: &'w ClusterSnapshot,
    settings: &ReviewSettings<'_>,
) -> Option<Vec<&'w str>> {
    let nodes = snapshot.nodes.as_ref()?;
    let workload = &request.workload;
    let mut placed = workload.object.clone();
    let patch = respond(&review_pods(request, snapshot, settings), &placed, Endpoint::Mutate).patch;
    // If the patch does not apply, the object stays as its author wrote it.
    let applied = json_patch::patch(&mut placed, &patch).is_ok();
    let object = if applied { &placed } else { workload.object };
    let pod = Pod::of(workload.kind, object)?;
    let mut placement = SchedulingConstraints::deserialize(pod.get("/spec")?).ok()?;
    let class = pod.text("/spec/runtimeClassName").and_then(|name| snapshot.runtime_class(name));
    if class.is_some_and(|class| !placement.takes_over(class)) {
        return Some(Vec::new());
    }
    let takes = |node: &&Node| {
        let repelled = node.taints.iter().any(|t| t.effect != "PreferNoSchedule" && !placement.tolerates(t));
        !node.unschedulable && !repelled && placement.fits(&node.name, |key| node.labels.get(key))
    };
    Some(nodes.iter().filter(takes).map(|node| node.name.as_str()).collect())
}
