//! 5xx: image builds against node builds.

use super::{Actions, Rule, finding};
use crate::engine::build::PodBuilds;
use crate::engine::finding::Finding;
use crate::engine::pod::Pod;
use crate::engine::windows::release_name;
use crate::engine::world::World;
use crate::policy::{Action, NodePolicy};

/// The rules of this file.
pub static RULES: [Rule; 2] = [
    Rule {
        code: "MUL501",
        name: "no-common-build",
        summary: "no Windows build runs all images of the pod",
        default: Action::Deny,
        repair: false,
        why: "no Windows build runs all of its images",
        instead: "use tags of one Windows release for all containers",
    },
    Rule {
        code: "MUL502",
        name: "no-node-for-build",
        summary: "no node of the cluster runs the pod's Windows build",
        default: Action::Warn,
        repair: false,
        why: "no Windows node runs the build of its image",
        instead: "add nodes, or use a tag for one of these",
    },
];

/// Findings about builds of a Windows pod.
pub fn check(
    pod: &Pod<'_>,
    builds: &PodBuilds<'_>,
    world: &World,
    nodes: &NodePolicy,
    actions: Actions<'_>,
    out: &mut Vec<Finding>,
) {
    let Some(first) = builds.known.first() else { return };
    let pointer = pod.at(&(first.container.pointer() + "/image"));
    if builds.hosts.is_empty() {
        let images: Vec<String> =
            builds.known.iter().map(|image| format!("{} is for {}", image.image, list(&image.facts.builds))).collect();
        let mut found = finding(&RULES[0], actions, pointer, RULES[0].why.to_owned());
        found.help = format!("{}; {}", images.join(", "), RULES[0].instead);
        out.push(found);
        return;
    }
    let Some(live) = world.nodes.as_ref().map(crate::engine::world::Nodes::windows_builds) else { return };
    let expected = nodes.expected_pools.iter().map(|pool| &pool.build);
    if live.is_empty() || live.iter().chain(expected).any(|build| builds.hosts.contains(build)) {
        return;
    }
    let releases: Vec<_> = live.iter().map(|build| release_name(*build, &nodes.releases)).collect();
    let message = format!("no node runs {}; Windows nodes have {}", list(&first.facts.builds), releases.join(", "));
    let mut found = finding(&RULES[1], actions, pointer, message);
    found.help = format!("the pod waits; {} instead of {}", RULES[1].instead, first.image);
    out.push(found);
}

fn list(builds: &[crate::engine::windows::Build]) -> String {
    builds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
