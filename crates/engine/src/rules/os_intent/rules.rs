//! The rules of this family.

use crate::model::settings::Action;
use crate::rules::rule::{Rule, rule};

/// The rules of this family.
pub(crate) static RULES: [Rule; 10] = [
    rule!(
        "MUL101",
        "conflicting-os",
        Action::Deny,
        "two placements require different operating systems",
        "no node can satisfy both",
        "keep the one that is meant and remove the other",
    ),
    rule!(
        "MUL102",
        "mixed-os-containers",
        Action::Warn,
        "containers of one pod have images for different operating systems",
        "all containers of a pod share one operating system",
        "put them into two pods, or use images for one system",
    ),
    rule!(
        "MUL103",
        "windows-options-on-linux",
        Action::Deny,
        "windowsOptions on a pod that is placed on Linux",
        "Linux nodes ignore windowsOptions",
        "remove windowsOptions, or place the pod on Windows",
        depends: Some("Deny with `spec.os.name: linux`, otherwise Warn"),
    ),
    rule!(
        "MUL104",
        "image-for-other-os",
        Action::Warn,
        "an image is for another operating system than the pod",
        "a node cannot run an image for another operating system",
        "use an image for that system, or place the pod on the other",
    ),
    rule!(
        "MUL105",
        "os-label-mismatch",
        Action::Deny,
        "the pod's label kubernetes.io/os names another operating system",
        "the kubelet rejects a pod whose label names another operating system than its node's",
        "remove the label: a nodeSelector places pods",
        depends: Some("Deny on Windows pods, Warn on Linux pods"),
    ),
    rule!(
        "MUL106",
        "deprecated-os-key",
        Action::Warn,
        "a node label under beta.kubernetes.io, deprecated since Kubernetes 1.14",
        "the label is deprecated since Kubernetes 1.14",
        "use the label that replaced it",
        hint: true,
    ),
    rule!(
        "MUL107",
        "tolerates-everything",
        Action::Warn,
        "tolerates every taint and selects no operating system",
        "it may land on nodes of either operating system: no taint keeps it off",
        "add nodeSelector kubernetes.io/os: linux (or windows), or annotation mullion.dev/os: any",
    ),
    rule!(
        "MUL108",
        "no-default",
        Action::Warn,
        "no operating system is set, and Linux could not be assumed",
        "no operating system is set, and Linux could not be assumed",
        "add nodeSelector kubernetes.io/os: linux, or kubernetes.io/os: windows",
    ),
    rule!(
        "MUL109",
        "unknown-os",
        Action::Warn,
        "an operating system that Kubernetes does not know",
        "Kubernetes knows linux and windows, in lower case",
        "write linux or windows",
    ),
    rule!(
        "MUL110",
        "undone",
        Action::Warn,
        "another webhook or policy removed what Mullion had added",
        "another webhook or policy removed it after Mullion had added it",
        "have its configuration sort before mullion, or leave Windows pods alone",
        depends: Some("Warn; Deny if both `spec.os` and the nodeSelector were removed"),
    ),
];

/// The code of the rule about what others removed.
pub(crate) const UNDONE: &str = "MUL110";
