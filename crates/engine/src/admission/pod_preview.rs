//! A preview of a workload's pods: how they are placed once they are created, and where they could run then.
//!
//! Mullion changes a template at the template's own request only where the API server would reject it. Its pods are
//! placed one by one, when their controller creates them.

use serde::Deserialize;

use crate::admission::response::{Endpoint, respond};
use crate::admission::review::{Review, review};
use crate::detect::images_of;
use crate::model::cluster::{ClusterSnapshot, Node, RuntimeClass};
use crate::model::image::ImageOs;
use crate::model::pod_view::Pod;
use crate::model::scheduling::SchedulingConstraints;
use crate::model::settings::ReviewSettings;
use crate::model::{Os, ReviewRequest};
use crate::place::pod_builds;

/// The review with the changes of the pods: for a template, what its pods get.
pub fn review_pods(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, settings: &ReviewSettings<'_>) -> Review {
    review(&ReviewRequest { into_templates: true, ..*request }, snapshot, settings)
}

/// The nodes for the pods of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodNodes<'w> {
    /// The nodes on which the scheduler, or the DaemonSet controller, may put the pods.
    pub schedulable: Vec<&'w str>,
    /// The schedulable nodes that can run the pods: their operating system and Windows build fit all images that are
    /// known.
    pub runnable: Vec<&'w str>,
}

/// The nodes of the snapshot for the pods with Mullion's changes; `None` if the snapshot contains no nodes.
pub fn find_nodes<'w>(
    request: &ReviewRequest<'_>,
    snapshot: &'w ClusterSnapshot,
    settings: &ReviewSettings<'_>,
) -> Option<PodNodes<'w>> {
    let nodes = snapshot.nodes.as_ref()?;
    let workload = &request.workload;
    let mut placed = workload.object.clone();
    let review = review_pods(request, snapshot, settings);
    let patch = respond(&review, &placed, Endpoint::Mutate).patch;
    // If the patch does not apply, the object stays unchanged.
    let applied = json_patch::patch(&mut placed, &patch).is_ok();
    let object = if applied { &placed } else { workload.object };
    let pod = Pod::of(workload.kind, object)?;
    let mut placement = SchedulingConstraints::deserialize(pod.get("/spec")?).ok()?;
    let class = pod.text("/spec/runtimeClassName").and_then(|name| snapshot.runtime_class(name));
    if class.is_some_and(|class| !placement.takes_over(class)) {
        return Some(PodNodes::default());
    }
    let takes = |node: &&Node| {
        let repelled = node.taints.iter().any(|t| t.effect != "PreferNoSchedule" && !placement.tolerates(t));
        !node.unschedulable && !repelled && placement.fits(&node.name, |key| node.labels.get(key))
    };
    let images = images_of(&pod, &review.settings, request.images, snapshot);
    let builds = pod_builds(&images, snapshot, settings.nodes);
    let by_build = !pod.host_process() && !class.is_some_and(RuntimeClass::is_hypervisor);
    let runs = |node: &Node| {
        let other = |os: Os| images.iter().any(|image| image.facts.os == ImageOs::from(os));
        let decided = review.decision.decided();
        match node.os {
            None => true,
            Some(Os::Linux) => decided != Some(Os::Windows) && !other(Os::Windows),
            Some(Os::Windows) => {
                let runs_build =
                    node.build.is_none_or(|build| builds.known.is_empty() || builds.hosts.contains(&build));
                decided != Some(Os::Linux) && !other(Os::Linux) && (!by_build || runs_build)
            }
        }
    };
    let schedulable: Vec<&Node> = nodes.iter().filter(takes).collect();
    let runnable = schedulable.iter().filter(|node| runs(node)).map(|node| node.name.as_str()).collect();
    Some(PodNodes { schedulable: schedulable.into_iter().map(|node| node.name.as_str()).collect(), runnable })
}
