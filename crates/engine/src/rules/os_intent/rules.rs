//! The rules of this family.

use crate::rules::rule::rules;

rules! {
    /// two placements require different operating systems
    CONFLICTING_OS {
        code: "MUL101", name: "conflicting-os", default: Deny,
        why: "no node can satisfy both",
        instead: "keep the one that is meant and remove the other",
    }

    /// containers of one pod have images for different operating systems
    MIXED_OS_CONTAINERS {
        code: "MUL102", name: "mixed-os-containers", default: Warn,
        why: "all containers of a pod share one operating system",
        instead: "put them into two pods, or use images for one system",
        about_whole: true,
    }

    /// windowsOptions on a pod that is placed on Linux
    WINDOWS_OPTIONS_ON_LINUX {
        code: "MUL103", name: "windows-options-on-linux", default: Deny,
        why: "Linux nodes ignore windowsOptions",
        instead: "remove windowsOptions, or place the pod on Windows",
        depends: Some("Deny with `spec.os.name: linux`, otherwise Warn"),
    }

    /// an image is for another operating system than the pod
    IMAGE_FOR_OTHER_OS {
        code: "MUL104", name: "image-for-other-os", default: Warn,
        why: "a node cannot run an image for another operating system",
        instead: "use an image for that system, or place the pod on the other",
        about_whole: true,
    }

    /// the pod's label kubernetes.io/os names another operating system
    OS_LABEL_MISMATCH {
        code: "MUL105", name: "os-label-mismatch", default: Deny,
        why: "the kubelet rejects a pod whose label names another operating system than its node's",
        instead: "remove the label: a nodeSelector places pods",
        depends: Some("Deny on Windows pods, Warn on Linux pods"),
    }

    /// a node label under beta.kubernetes.io, deprecated since Kubernetes 1.14
    DEPRECATED_OS_KEY {
        code: "MUL106", name: "deprecated-os-key", default: Warn,
        why: "the label is deprecated since Kubernetes 1.14",
        instead: "use the label that replaced it",
        hint: true,
    }

    /// tolerates every taint and selects no operating system
    TOLERATES_EVERYTHING {
        code: "MUL107", name: "tolerates-everything", default: Warn,
        why: "it may land on nodes of either operating system: no taint keeps it off",
        instead: "add nodeSelector kubernetes.io/os: linux (or windows), or annotation mullion.dev/os: any",
        about_whole: true,
    }

    /// no operating system is set, and Linux could not be assumed
    NO_DEFAULT {
        code: "MUL108", name: "no-default", default: Warn,
        why: "no operating system is set, and Linux could not be assumed",
        instead: "add nodeSelector kubernetes.io/os: linux, or kubernetes.io/os: windows",
        about_whole: true,
    }

    /// an operating system that Kubernetes does not know
    UNKNOWN_OS {
        code: "MUL109", name: "unknown-os", default: Warn,
        why: "Kubernetes knows linux and windows, in lower case",
        instead: "write linux or windows",
    }

    /// another webhook or policy removed what Mullion had added
    UNDONE {
        code: "MUL110", name: "undone", default: Warn,
        why: "another webhook or policy removed it after Mullion had added it",
        instead: "have its configuration sort before mullion, or leave Windows pods alone",
        about_whole: true,
        depends: Some("Warn; Deny if both `spec.os` and the nodeSelector were removed"),
    }

    /// a program or path of Linux in a command of a Windows container
    LINUX_COMMAND {
        code: "MUL111", name: "linux-command", default: Warn,
        why: "no Windows base image contains it",
        instead: "use a program of Windows, such as cmd or powershell",
    }

    /// an image that is published for Linux only in a Windows pod
    LINUX_ONLY_IMAGE {
        code: "MUL112", name: "linux-only-image", default: Warn,
        why: "all containers of a pod run on one node, and Windows nodes cannot pull it",
        instead: "run it in a pod of its own, or use an image for Windows",
    }
}
