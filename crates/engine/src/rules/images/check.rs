//! 5xx: image builds compared with node builds.

use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::images::rules::RULES;
use crate::rules::images::{hosts, left_out, selected_builds, tags};

/// Findings about builds of a Windows pod.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let [no_common_build, no_node_for_build, build_end_of_life, floating_windows_tag] = &RULES;
    if !cx.builds.known.is_empty() && cx.build_matters() {
        if cx.builds.common {
            let before = out.len();
            hosts::no_node_for_build(cx, no_node_for_build, out);
            // If no node runs it, only that is reported.
            if out.len() == before {
                left_out::check(cx, out);
            }
        } else {
            hosts::no_common_build(cx, no_common_build, out);
        }
    }
    // What no node of this cluster runs is reported with these nodes.
    if !out.iter().any(|found| found.code == no_node_for_build.code) {
        selected_builds::check(cx, out);
    }
    tags::build_end_of_life(cx, build_end_of_life, out);
    tags::floating_windows_tag(cx, floating_windows_tag, out);
}
