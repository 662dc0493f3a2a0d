//! 5xx: image builds against node builds.

use super::{Context, Rule};
use crate::engine::build::build_matters;
use crate::engine::finding::Finding;
use crate::engine::windows::release_name;
use crate::policy::Action;

/// The rules of this file.
pub static RULES: [Rule; 2] = [
    rule!(
        "MUL501",
        "no-common-build",
        Action::Deny,
        "images of one pod that no Windows host can run together",
        "no Windows build runs all of its images",
        "use tags of one Windows release for all containers",
    ),
    rule!(
        "MUL502",
        "no-node-for-build",
        Action::Warn,
        "no node of the cluster runs the pod's Windows build",
        "no Windows node runs the build of its image",
        "add nodes, or use a tag for one of these",
    ),
];

/// Findings about builds of a Windows pod.
pub fn check(cx: &Context<'_>, out: &mut Vec<Finding>) {
    let Context { builds, nodes, .. } = *cx;
    if !build_matters(&cx.pod, cx.world) {
        return;
    }
    let [no_common_build, no_node_for_build] = &RULES;
    let Some(first) = builds.known.first() else { return };
    let pointer = cx.at(&first.container, "/image");
    if builds.hosts.is_empty() {
        let images: Vec<String> =
            builds.known.iter().map(|image| format!("{} is for {}", image.image, list(&image.facts.builds))).collect();
        let mut found = cx.finding(no_common_build, pointer, no_common_build.why);
        found.help = format!("{}; {}", images.join(", "), no_common_build.instead);
        out.push(found);
        return;
    }
    let Some(live) = cx.world.nodes.as_ref().map(crate::engine::world::Nodes::windows_builds) else { return };
    let expected = nodes.expected_pools.iter().map(|pool| &pool.build);
    if live.is_empty() || live.iter().chain(expected).any(|build| builds.hosts.contains(build)) {
        return;
    }
    let releases: Vec<_> = live.iter().map(|build| release_name(*build, &nodes.releases)).collect();
    let message = format!("no node runs {}; Windows nodes have {}", list(&first.facts.builds), releases.join(", "));
    let mut found = cx.finding(no_node_for_build, pointer, message);
    found.help = format!("the pod waits; {} instead of {}", no_node_for_build.instead, first.image);
    out.push(found);
}

fn list(builds: &[crate::engine::windows::Build]) -> String {
    builds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
