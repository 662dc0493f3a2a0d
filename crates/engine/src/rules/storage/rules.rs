//! The rules of this family.

use crate::rules::rule::rules;

rules! {
    /// an nfs volume on a Windows pod
    NFS_VOLUME {
        code: "MUL301", name: "nfs-volume", default: Deny,
        why: "the kubelet of a Windows node mounts no NFS: the pod never starts",
        instead: "use an SMB share by a CSI driver",
    }

    /// volumeDevices on a Windows container
    BLOCK_VOLUME {
        code: "MUL302", name: "block-volume", default: Deny,
        why: "the kubelet of a Windows node maps no block devices: the pod never starts",
        instead: "use volumeMounts, with volumeMode: Filesystem in the claim",
    }

    /// huge pages on a Windows pod
    HUGE_PAGES {
        code: "MUL303", name: "huge-pages", default: Deny,
        why: "Windows nodes offer no huge pages: the pod never starts",
        instead: "leave them out",
    }

    /// mountPropagation on a Windows container
    MOUNT_PROPAGATION {
        code: "MUL304", name: "mount-propagation", default: Warn,
        why: "Windows mounts are private: nothing propagates",
        instead: "leave it out",
        repair: true,
    }

    /// an emptyDir in memory on a Windows pod
    MEMORY_VOLUME {
        code: "MUL305", name: "memory-volume", default: Warn,
        why: "Windows has no volumes in memory: this is a directory on disk",
        instead: "leave medium out, and store no secrets in this volume",
    }

    /// a Linux path as hostPath on a Windows pod
    LINUX_HOST_PATH {
        code: "MUL306", name: "linux-host-path", default: Warn,
        why: "on a Windows node this Linux path is usually an empty directory",
        instead: "write the path that the node has (C:\\…), or leave the volume out",
    }

    /// a Unix socket as hostPath on a Windows pod
    UNIX_SOCKET {
        code: "MUL307", name: "unix-socket", default: Warn,
        why: "Windows services listen on named pipes, not on this socket",
        instead: "mount the named pipe of the service (\\\\.\\pipe\\…)",
    }

    /// a terminationMessagePath of its own on a Windows container
    TERMINATION_MESSAGE_PATH {
        code: "MUL308", name: "termination-message-path", default: Allow,
        why: "Kubernetes promises only the default path on Windows",
        instead: "leave it out: /dev/termination-log works",
        hint: true,
    }

    /// a file mode that Windows does not enforce
    FILE_MODE {
        code: "MUL309", name: "file-mode", default: Warn,
        why: "Windows ignores file modes: this protects nothing",
        instead: "leave it out, and mount the volume only where it may be read",
    }

    /// an owner of mounted files that Windows does not set
    FILE_OWNER {
        code: "MUL310", name: "file-owner", default: Warn,
        why: "Windows nodes set no file owner: it protects nothing",
        instead: "leave it out, and mount the volume only where it may be read",
    }

    /// bindMountOptions on a Windows container
    BIND_MOUNT_OPTIONS {
        code: "MUL311", name: "bind-mount-options", default: Warn,
        why: "Windows ignores mount options: they protect nothing",
        instead: "leave it out",
    }
}
