//! 5xx: nodes on which a DaemonSet has no pod that runs.

use crate::detect::ContainerImage;
use crate::model::text::{list, thousands};
use crate::model::windows::{Build, release_name};
use crate::place::{WorkloadContext, runs_on};
use crate::rules::finding::Finding;
use crate::rules::images::rules::NODES_LEFT_OUT;

/// Reports which nodes are left out, and the releases that the image is for.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let Some(left_out) = cx.left_out else { return };
    let name = |build: &Build| release_name(*build, &cx.node_settings.releases);
    let (snapshot, nodes) = (cx.input.snapshot, cx.node_settings);
    let misfits = |image: &&&ContainerImage<'_>| {
        left_out.builds.keys().any(|host| !runs_on(*host, &image.facts.builds, snapshot, nodes))
    };
    let Some(image) = cx.builds.known.iter().find(misfits) else { return };
    let more = left_out.count.saturating_sub(left_out.names.len());
    let more = if more > 0 { format!(" and {} more", thousands(more)) } else { String::new() };
    let message = format!(
        "its image for {} does not run on {} of {} Windows nodes: {}{more} ({})",
        list(image.facts.builds.iter().map(name)),
        thousands(left_out.count),
        thousands(left_out.of),
        list(&left_out.names),
        list(left_out.builds.keys().map(name)),
    );
    out.push(cx.finding(&NODES_LEFT_OUT, cx.at(&image.container, "/image"), message));
}
