//! 1xx: the workload's operating system, if its fields contradict each other or decide too little.

use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::os_intent::rules::RULES;
use crate::rules::os_intent::{conflict, images, names, undecided, undone};

/// Findings about the workload's operating system.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let [conflicting, mixed, options, image, label, deprecated, tolerates, no_default, unknown, undone] = &RULES;
    conflict::placements(cx, conflicting, out);
    images::mixed(cx, mixed, out);
    conflict::windows_options_on_linux(cx, options, out);
    images::other_os(cx, image, out);
    names::label(cx, label, out);
    names::deprecated(cx, deprecated, out);
    undecided::tolerates_everything(cx, tolerates, out);
    undecided::no_default(cx, no_default, out);
    names::unknown(cx, unknown, out);
    undone::check(cx, undone, out);
}

/// Findings about the images of new ephemeral containers.
pub(crate) fn check_ephemeral(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let [_, _, _, image, ..] = &RULES;
    images::ephemeral(cx, image, out);
}
