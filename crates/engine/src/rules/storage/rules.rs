//! The rules of this family.

use crate::model::settings::Action;
use crate::rules::rule::{Rule, rule};

/// The rules of this file.
pub(crate) static RULES: [Rule; 9] = [
    rule!(
        "MUL301",
        "nfs-volume",
        Action::Deny,
        "an nfs volume on a Windows pod",
        "the kubelet of a Windows node mounts no NFS: the pod never starts",
        "use an SMB share by a CSI driver",
    ),
    rule!(
        "MUL302",
        "block-volume",
        Action::Deny,
        "volumeDevices on a Windows container",
        "the kubelet of a Windows node maps no block devices: the pod never starts",
        "use volumeMounts, with volumeMode: Filesystem in the claim",
    ),
    rule!(
        "MUL303",
        "huge-pages",
        Action::Deny,
        "huge pages on a Windows pod",
        "Windows nodes offer no huge pages: the pod never starts",
        "leave them out",
    ),
    rule!(
        "MUL304",
        "mount-propagation",
        Action::Warn,
        "mountPropagation on a Windows container",
        "Windows mounts are private: nothing propagates",
        "leave it out",
        repair: true,
    ),
    rule!(
        "MUL305",
        "memory-volume",
        Action::Warn,
        "an emptyDir in memory on a Windows pod",
        "Windows has no volumes in memory: this is a directory on disk",
        "leave medium out, and store no secrets in this volume",
    ),
    rule!(
        "MUL306",
        "linux-host-path",
        Action::Warn,
        "a Linux path as hostPath on a Windows pod",
        "on a Windows node this Linux path is usually an empty directory",
        "write the path that the node has (C:\\…), or leave the volume out",
    ),
    rule!(
        "MUL307",
        "unix-socket",
        Action::Warn,
        "a Unix socket as hostPath on a Windows pod",
        "Windows services listen on named pipes, not on this socket",
        "mount the named pipe of the service (\\\\.\\pipe\\…)",
    ),
    rule!(
        "MUL308",
        "termination-message-path",
        Action::Allow,
        "a terminationMessagePath of its own on a Windows container",
        "Kubernetes promises only the default path on Windows",
        "leave it out: /dev/termination-log works",
        hint: true,
    ),
    rule!(
        "MUL309",
        "file-mode",
        Action::Warn,
        "a file mode that Windows does not enforce",
        "Windows ignores file modes: this protects nothing",
        "leave it out, and mount the volume only where it may be read",
    ),
];
