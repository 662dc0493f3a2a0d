//! 1xx: the workload's operating system, if its fields contradict each other or decide too little.

use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::os_intent::rules::{
    CONFLICTING_OS, DEPRECATED_OS_KEY, IMAGE_FOR_OTHER_OS, LINUX_COMMAND, LINUX_ONLY_IMAGE, MIXED_OS_CONTAINERS,
    NO_DEFAULT, OS_LABEL_MISMATCH, TOLERATES_EVERYTHING, UNDONE, UNKNOWN_OS, WINDOWS_OPTIONS_ON_LINUX,
};
use crate::rules::os_intent::{conflict, images, linux_commands, linux_images, names, undecided, undone};

/// Findings about the workload's operating system.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    conflict::placements(cx, &CONFLICTING_OS, out);
    images::mixed(cx, &MIXED_OS_CONTAINERS, out);
    conflict::windows_options_on_linux(cx, &WINDOWS_OPTIONS_ON_LINUX, out);
    images::other_os(cx, &IMAGE_FOR_OTHER_OS, out);
    images::volumes_for_other_os(cx, &IMAGE_FOR_OTHER_OS, out);
    names::label(cx, &OS_LABEL_MISMATCH, out);
    names::deprecated(cx, &DEPRECATED_OS_KEY, out);
    undecided::tolerates_everything(cx, &TOLERATES_EVERYTHING, out);
    undecided::no_default(cx, &NO_DEFAULT, out);
    names::unknown(cx, &UNKNOWN_OS, out);
    undone::check(cx, &UNDONE, out);
    linux_commands::check(cx, &LINUX_COMMAND, out);
    linux_images::check(cx, &LINUX_ONLY_IMAGE, out);
}

/// Findings about the images and commands of new ephemeral containers.
pub(crate) fn check_ephemeral(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    images::ephemeral(cx, &IMAGE_FOR_OTHER_OS, out);
    linux_commands::check(cx, &LINUX_COMMAND, out);
}
