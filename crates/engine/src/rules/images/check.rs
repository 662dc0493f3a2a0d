//! 5xx: image builds compared with node builds.

use crate::detect::VolumeImage;
use crate::model::text::list_first;
use crate::model::windows::Build;
use crate::place::{WorkloadContext, runs_on};
use crate::rules::finding::Finding;
use crate::rules::images::rules::{
    BUILD_END_OF_LIFE, FLOATING_WINDOWS_TAG, IMAGE_VOLUME_BUILD, NO_COMMON_BUILD, NO_NODE_FOR_BUILD,
};
use crate::rules::images::{hosts, left_out, selected_builds, tags};

/// Findings about builds of a Windows pod.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if !cx.builds.known.is_empty() && cx.build_matters() {
        if cx.builds.common {
            let before = out.len();
            hosts::no_node_for_build(cx, &NO_NODE_FOR_BUILD, out);
            // If no node runs it, only that is reported.
            if out.len() == before {
                left_out::check(cx, out);
            }
        } else {
            hosts::no_common_build(cx, &NO_COMMON_BUILD, out);
        }
    }
    // What no node of this cluster runs is reported with these nodes.
    if !out.iter().any(|found| found.code == NO_NODE_FOR_BUILD.code) {
        selected_builds::check(cx, out);
    }
    tags::build_end_of_life(cx, &BUILD_END_OF_LIFE, out);
    tags::floating_windows_tag(cx, &FLOATING_WINDOWS_TAG, out);
    volumes(cx, out);
}

/// How many builds a message lists.
const LISTED: usize = 4;

/// Images of volumes whose layers no node of the pod runs. The node pulls them by its own build, whatever the isolation of
/// the containers is; an index without an entry for it fails. It pulls a single manifest in any case, and neither
/// Kubernetes nor containerd documents whether it mounts layers of another build, so these images constrain no placement.
fn volumes(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if cx.input.volume_images.is_empty() {
        return;
    }
    let Some(nodes) = cx.input.snapshot.nodes.as_ref().filter(|nodes| !nodes.has_unknown_build()) else { return };
    let matters = cx.build_matters();
    let runs_containers = |build: &&Build| !matters || cx.builds.known.is_empty() || cx.builds.hosts.contains(build);
    let hosts: Vec<Build> = nodes.windows_builds().iter().filter(runs_containers).copied().collect();
    if hosts.is_empty() {
        return;
    }
    // Images for HostProcess containers often have one manifest with a build that means nothing.
    let counts = |image: &&VolumeImage<'_>| matters || image.facts.platforms.as_ref().is_some_and(|all| all.index);
    for image in cx.input.volume_images.iter().filter(counts).filter(|image| !image.facts.builds.is_empty()) {
        let builds = &image.facts.builds;
        if !hosts.iter().any(|host| runs_on(*host, builds, cx.input.snapshot, cx.node_settings)) {
            let (own, theirs) = (list_first(builds, LISTED), list_first(&hosts, LISTED));
            let message = format!("its layers are for {own}, and the nodes that run the pod have {theirs}");
            out.push(cx.finding(&IMAGE_VOLUME_BUILD, cx.input.pod.at(&image.pointer()), message));
        }
    }
}
