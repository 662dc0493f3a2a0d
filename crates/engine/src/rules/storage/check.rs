//! 3xx: volumes that work differently on Windows, or not at all.
//!
//! Only volumes that a container mounts count, because the kubelet sets up no others
//! (`pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go`, `processPodVolumes`).

use std::cell::OnceCell;
use std::collections::HashSet;

use serde_json::Value;

use crate::model::json_pointer::{escape, field_path};
use crate::model::pod_view::Container;
use crate::model::quantity::Quantity;
use crate::model::settings::Action;
use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::storage::rules::{
    BIND_MOUNT_OPTIONS, BLOCK_VOLUME, HUGE_PAGES, MEMORY_VOLUME, MOUNT_PROPAGATION, NFS_VOLUME,
    TERMINATION_MESSAGE_PATH,
};
use crate::rules::storage::volume::{Volume, by_kubelet};
use crate::rules::storage::{file_attributes, host_path};

/// The API server's default (`pkg/apis/core/v1/defaults.go`, `SetDefaults_Container`).
const DEFAULT_TERMINATION_MESSAGE_PATH: &str = "/dev/termination-log";

/// Findings about volumes of a Windows pod.
pub(crate) fn check(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if cx.is_whole_pod() {
        volumes(cx, out);
    }
    for container in cx.containers() {
        block_devices(&container, cx, out);
        huge_pages(&container, cx, out);
        propagation(&container, cx, out);
        bind_mount_options(&container, cx, out);
        termination_message_path(&container, cx, out);
    }
}

fn volumes(cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    // Computed once, when first needed: a pod may have thousands of volumes, of mounts and of containers.
    let mounted = OnceCell::new();
    for (index, value) in cx.input.pod.items("/spec/volumes").iter().enumerate() {
        let before = out.len();
        check_volume(Volume { index, value }, cx, out);
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
fn mounted_names<'a>(cx: &WorkloadContext<'a>) -> HashSet<&'a str> {
    cx.input
        .pod
        .containers()
        .flat_map(|container| ["/volumeMounts", "/volumeDevices"].map(|list| container.items(list)))
        .flatten()
        .filter_map(|mount| mount.get("name")?.as_str())
        .collect()
}

/// Block devices: in `pkg/volume/util/volumepathhandler/volume_path_handler_unsupported.go` every call returns an
/// error.
fn block_devices(container: &Container<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    if !container.items("/volumeDevices").is_empty() {
        out.push(by_kubelet(cx.finding(&BLOCK_VOLUME, cx.at(container, "/volumeDevices"), BLOCK_VOLUME.why)));
    }
}

/// Huge pages: no Windows node offers them, so a pod with them is not scheduled, and a kubelet that receives one
/// rejects it.
pub(crate) fn huge_pages(container: &Container<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let members = |list| container.get(list).and_then(Value::as_object);
    let limits = members("/resources/limits");
    for (list, members) in [("limits", limits), ("requests", members("/resources/requests"))] {
        for (name, value) in members.into_iter().flatten() {
            let asks = name.starts_with("hugepages-") && !Quantity::of(value).is_some_and(Quantity::is_zero);
            // The API server copies limits to requests.
            let reported = list == "requests" && limits.is_some_and(|limits| limits.contains_key(name));
            if asks && !reported {
                let name = escape(name);
                let pointer = cx.at(container, &format!("/resources/{list}/{name}"));
                out.push(by_kubelet(cx.finding(&HUGE_PAGES, pointer, HUGE_PAGES.why)));
            }
        }
    }
}

/// Mount propagation: it is private on Windows, whatever the field (`pkg/kubelet/kubelet_pods.go`,
/// `translateMountPropagation`).
fn propagation(container: &Container<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    for (index, mount) in container.items("/volumeMounts").iter().enumerate() {
        let mode = mount.get("mountPropagation").and_then(Value::as_str).unwrap_or_default();
        if !matches!(mode, "HostToContainer" | "Bidirectional") {
            continue;
        }
        let pointer = cx.at(container, &format!("/volumeMounts/{index}/mountPropagation"));
        let mut found = cx.finding(&MOUNT_PROPAGATION, pointer, MOUNT_PROPAGATION.why);
        if mode == "Bidirectional" {
            // The API server accepts it on privileged containers only (`validateMountPropagation`). A Windows container
            // is not privileged, or no longer privileged after the repair of `privileged`.
            let privileged = container.get("/securityContext/privileged").and_then(Value::as_bool) == Some(true);
            if !privileged || cx.input.pod.has_windows_os_field() {
                found.rejected_by = RejectedBy::ApiServer;
                // The API server's field path has no index for it.
                found.path = field_path(&cx.at(container, "/volumeMounts/mountPropagation"));
            }
            found.quiet = found.action == Action::Allow;
            found.action = found.action.max(Action::Repair);
        }
        out.push(found);
    }
}

/// Options of bind mounts (`VolumeMount.BindMountOptions` in pkg/apis/core/types.go: no effect on Windows nodes). They are
/// new in Kubernetes 1.37, behind the feature gate `VolumeBindMountOptions`. With the gate on, the scheduler also looks for
/// a node that declares the feature, which no kubelet does with containerd up to 2.4.
fn bind_mount_options(container: &Container<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    for (index, mount) in container.items("/volumeMounts").iter().enumerate() {
        let options = mount.get("bindMountOptions").and_then(Value::as_array);
        if options.is_some_and(|options| !options.is_empty()) {
            let pointer = cx.at(container, &format!("/volumeMounts/{index}/bindMountOptions"));
            out.push(cx.finding(&BIND_MOUNT_OPTIONS, pointer, BIND_MOUNT_OPTIONS.why));
        }
    }
}

/// The path of the termination message. containerd mounts single files, so it works; the documentation calls it
/// limited.
fn termination_message_path(container: &Container<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let path = container.get("/terminationMessagePath").and_then(Value::as_str).unwrap_or_default();
    if !path.is_empty() && path != DEFAULT_TERMINATION_MESSAGE_PATH {
        let pointer = cx.at(container, "/terminationMessagePath");
        out.push(cx.finding(&TERMINATION_MESSAGE_PATH, pointer, TERMINATION_MESSAGE_PATH.why));
    }
}

fn check_volume(volume: Volume<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    // `mount_windows.go` of k8s.io/mount-utils, `MountSensitive`: it supports SMB and existing directories, and returns
    // an error for anything else.
    if volume.source("nfs").is_some() {
        out.push(by_kubelet(cx.finding(&NFS_VOLUME, volume.at(cx, "/nfs"), NFS_VOLUME.why)));
    }
    // `pkg/volume/emptydir/empty_dir.go`, `SetUpAt`: on Windows a mount for Memory is a directory (the same
    // `MountSensitive`), and a mount for HugePages an error. The same applies to HostProcess pods.
    let medium = volume.text("emptyDir", "medium");
    if medium == "Memory" {
        out.push(cx.finding(&MEMORY_VOLUME, volume.at(cx, "/emptyDir/medium"), MEMORY_VOLUME.why));
    } else if medium.starts_with("HugePages") {
        out.push(by_kubelet(cx.finding(&HUGE_PAGES, volume.at(cx, "/emptyDir/medium"), HUGE_PAGES.why)));
    }
    host_path::check(volume, cx, out);
    file_attributes::check(volume, cx, out);
}
