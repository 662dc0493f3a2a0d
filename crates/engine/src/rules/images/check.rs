//! 5xx: image builds compared with node builds.

use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::images::rules::{BUILD_END_OF_LIFE, FLOATING_WINDOWS_TAG, NO_COMMON_BUILD, NO_NODE_FOR_BUILD};
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
}
