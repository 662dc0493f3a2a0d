//! 3xx: volumes that come to something else on Windows, or to nothing.
//!
//! Only volumes that a container mounts: the kubelet sets up no other
//! (`pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go`, `processPodVolumes`).

mod file_mode;
mod host_path;

use std::cell::OnceCell;
use std::collections::HashSet;

use serde_json::Value;

use super::{Context, Reach, Rule};
use crate::engine::constraint::escape;
use crate::engine::finding::{Finding, RefusedBy, field_path};
use crate::engine::pod::Container;
use crate::engine::quantity::Quantity;
use crate::policy::Action;

/// The rules of this file.
pub static RULES: [Rule; 9] = [
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
    Rule {
        repair: true,
        ..rule!(
            "MUL304",
            "mount-propagation",
            Action::Warn,
            "mountPropagation on a Windows container",
            "Windows mounts are private: nothing propagates",
            "leave it out",
        )
    },
    rule!(
        "MUL305",
        "memory-volume",
        Action::Warn,
        "an emptyDir in memory on a Windows pod",
        "Windows has no volumes in memory: this is a directory on disk",
        "leave medium out, and keep secrets off it",
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
    Rule {
        advice: true,
        ..rule!(
            "MUL308",
            "termination-message-path",
            Action::Allow,
            "a terminationMessagePath of its own on a Windows container",
            "Kubernetes promises only the default path on Windows",
            "leave it out: /dev/termination-log works",
        )
    },
    rule!(
        "MUL309",
        "file-mode",
        Action::Warn,
        "a file mode that Windows does not enforce",
        "Windows ignores file modes: this guards nothing",
        "leave it out, and mount the volume only where it may be read",
    ),
];

/// What the API server writes where nothing was said (`pkg/apis/core/v1/defaults.go`, `SetDefaults_Container`).
const DEFAULT_TERMINATION_MESSAGE_PATH: &str = "/dev/termination-log";

/// Findings about volumes of a Windows pod.
pub fn check(cx: &Context<'_>, out: &mut Vec<Finding>) {
    if cx.reach == Reach::Everything {
        volumes(cx, out);
    }
    for container in cx.containers() {
        block_devices(&container, cx, out);
        huge_pages(&container, cx, out);
        propagation(&container, cx, out);
        termination_message_path(&container, cx, out);
    }
}

fn volumes(cx: &Context<'_>, out: &mut Vec<Finding>) {
    // Found out when first asked for, and once: a pod may have thousands of volumes, of mounts and of containers.
    let mounted = OnceCell::new();
    let host_process = OnceCell::new();
    for (index, value) in cx.pod.items("/spec/volumes").iter().enumerate() {
        let before = out.len();
        Volume { index, value }.check(|| *host_process.get_or_init(|| cx.pod.host_process()), cx, out);
        let is_mounted = || {
            let name = value.get("name").and_then(Value::as_str);
            name.is_some_and(|name| mounted.get_or_init(|| mounted_names(cx)).contains(name))
        };
        if out.len() > before && !is_mounted() {
            out.truncate(before);
        }
    }
}

/// Names of the volumes that containers mount, as file systems or as devices.
fn mounted_names<'a>(cx: &Context<'a>) -> HashSet<&'a str> {
    cx.pod
        .containers()
        .flat_map(|container| ["/volumeMounts", "/volumeDevices"].map(|list| items(&container, list)))
        .flatten()
        .filter_map(|mount| mount.get("name")?.as_str())
        .collect()
}

/// One of the pod's volumes.
#[derive(Clone, Copy)]
struct Volume<'a> {
    index: usize,
    value: &'a Value,
}

impl<'a> Volume<'a> {
    /// What the volume is, if it is of that kind; null counts as absent.
    fn source(self, kind: &str) -> Option<&'a Value> {
        self.value.get(kind).filter(|source| !source.is_null())
    }

    /// A text of that source; empty if there is none.
    fn text(self, kind: &str, field: &str) -> &'a str {
        self.source(kind).and_then(|source| source.get(field)).and_then(Value::as_str).unwrap_or_default()
    }

    /// The absolute pointer of `below`, which counts from the volume.
    fn at(self, cx: &Context<'_>, below: &str) -> String {
        cx.pod.at(&format!("/spec/volumes/{}{below}", self.index))
    }

    fn check(self, host_process: impl Fn() -> bool, cx: &Context<'_>, out: &mut Vec<Finding>) {
        let [nfs_volume, _, huge_pages, _, memory_volume, ..] = &RULES;
        // `mount_windows.go` of k8s.io/mount-utils, `MountSensitive`: SMB and what is a directory already, or an error.
        if self.source("nfs").is_some() {
            out.push(by_kubelet(cx.finding(nfs_volume, self.at(cx, "/nfs"), nfs_volume.why)));
        }
        // `pkg/volume/emptydir/empty_dir.go`, `SetUpAt`: what is mounted for Memory is a directory on Windows (same
        // `MountSensitive`), for HugePages an error. HostProcess pods get the same.
        let medium = self.text("emptyDir", "medium");
        if medium == "Memory" {
            out.push(cx.finding(memory_volume, self.at(cx, "/emptyDir/medium"), memory_volume.why));
        } else if medium.starts_with("HugePages") {
            out.push(by_kubelet(cx.finding(huge_pages, self.at(cx, "/emptyDir/medium"), huge_pages.why)));
        }
        host_path::check(self, host_process, cx, out);
        file_mode::check(self, cx, out);
    }
}

/// The items of a list below a container.
fn items<'a>(container: &Container<'a>, list: &str) -> &'a [Value] {
    container.get(list).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The same finding, where the kubelet never starts the pod.
fn by_kubelet(finding: Finding) -> Finding {
    Finding { refused_by: RefusedBy::Kubelet, ..finding }
}

/// `pkg/volume/util/volumepathhandler/volume_path_handler_unsupported.go`: every call is an error.
fn block_devices(container: &Container<'_>, cx: &Context<'_>, out: &mut Vec<Finding>) {
    let [_, block_volume, ..] = &RULES;
    if !items(container, "/volumeDevices").is_empty() {
        out.push(by_kubelet(cx.finding(block_volume, cx.at(container, "/volumeDevices"), block_volume.why)));
    }
}

/// No Windows node has them to offer, so nothing schedules the pod; a kubelet that is given it refuses it.
fn huge_pages(container: &Container<'_>, cx: &Context<'_>, out: &mut Vec<Finding>) {
    let [_, _, huge_pages, ..] = &RULES;
    let members = |list| container.get(list).and_then(Value::as_object);
    let limits = members("/resources/limits");
    for (list, members) in [("limits", limits), ("requests", members("/resources/requests"))] {
        for (name, value) in members.into_iter().flatten() {
            let asks = name.starts_with("hugepages-") && !Quantity::of(value).is_some_and(Quantity::is_zero);
            // The API server copies limits to requests.
            let said = list == "requests" && limits.is_some_and(|limits| limits.contains_key(name));
            if asks && !said {
                let name = escape(name);
                let pointer = cx.at(container, &format!("/resources/{list}/{name}"));
                out.push(by_kubelet(cx.finding(huge_pages, pointer, huge_pages.why)));
            }
        }
    }
}

/// `pkg/kubelet/kubelet_pods.go`, `translateMountPropagation`: private on Windows, whatever is asked for.
fn propagation(container: &Container<'_>, cx: &Context<'_>, out: &mut Vec<Finding>) {
    let [_, _, _, mount_propagation, ..] = &RULES;
    for (index, mount) in items(container, "/volumeMounts").iter().enumerate() {
        let mode = mount.get("mountPropagation").and_then(Value::as_str).unwrap_or_default();
        if !matches!(mode, "HostToContainer" | "Bidirectional") {
            continue;
        }
        let pointer = cx.at(container, &format!("/volumeMounts/{index}/mountPropagation"));
        let mut found = cx.finding(mount_propagation, pointer, mount_propagation.why);
        if mode == "Bidirectional" {
            // The API server takes it on privileged containers only (`validateMountPropagation`), and a Windows
            // container is none, or is none any more once `privileged` is repaired.
            let privileged = container.get("/securityContext/privileged").and_then(Value::as_bool) == Some(true);
            if !privileged || cx.pod.says_windows_os() {
                found.refused_by = RefusedBy::ApiServer;
                // The server names no position here.
                found.path = field_path(&cx.at(container, "/volumeMounts/mountPropagation"));
            }
            found.quiet = found.action == Action::Allow;
            found.action = found.action.max(Action::Repair);
        }
        out.push(found);
    }
}

/// containerd mounts single files, so that it works; documentation has it as limited.
fn termination_message_path(container: &Container<'_>, cx: &Context<'_>, out: &mut Vec<Finding>) {
    let [.., termination_message_path, _] = &RULES;
    let path = container.get("/terminationMessagePath").and_then(Value::as_str).unwrap_or_default();
    if !path.is_empty() && path != DEFAULT_TERMINATION_MESSAGE_PATH {
        let pointer = cx.at(container, "/terminationMessagePath");
        out.push(cx.finding(termination_message_path, pointer, termination_message_path.why));
    }
}
