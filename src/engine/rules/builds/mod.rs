//! 5xx: image builds against node builds, and what becomes of them.

mod hosts;
mod tags;

use super::{Context, Rule};
use crate::engine::build::build_matters;
use crate::engine::finding::Finding;
use crate::engine::windows::Build;
use crate::policy::Action;

/// The rules of this folder.
pub static RULES: [Rule; 4] = [
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
    rule!(
        "MUL503",
        "build-end-of-life",
        Action::Warn,
        "a Windows release that gets no security updates any more",
        "its Windows release gets no security updates any more",
        "use a tag for a later release",
    ),
    rule!(
        "MUL504",
        "floating-windows-tag",
        Action::Warn,
        "a tag that names no Windows release and has meant others before",
        "its tag names no Windows release, and moves",
        "use a tag that names the release",
    ),
];

/// Findings about builds of a Windows pod.
pub fn check(cx: &Context<'_>, out: &mut Vec<Finding>) {
    let [no_common_build, no_node_for_build, build_end_of_life, floating_windows_tag] = &RULES;
    if !cx.builds.known.is_empty() && build_matters(&cx.pod, cx.world) {
        if cx.builds.common {
            hosts::no_node_for_build(cx, no_node_for_build, out);
        } else {
            hosts::no_common_build(cx, no_common_build, out);
        }
    }
    tags::build_end_of_life(cx, build_end_of_life, out);
    tags::floating_windows_tag(cx, floating_windows_tag, out);
}

/// `10.0.17763, 10.0.20348`.
fn list<'b>(builds: impl IntoIterator<Item = &'b Build>) -> String {
    builds.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
