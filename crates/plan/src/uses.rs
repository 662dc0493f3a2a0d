//! What a workload uses, and which of that makes its move delicate.

use std::collections::{BTreeMap, BTreeSet};

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::image::{ImageOs, ImageRef};
use mullion_engine::model::json_pointer::{escape, field_path};
use mullion_engine::model::names::COMMAND_LINES;
use mullion_engine::model::pod_view::{Container, Pod};
use mullion_engine::model::text::list_with;
use serde_json::Value;

use crate::report::Risk;
use crate::scope::MoveScope;
use crate::workload_move::WorkloadMove;
use mullion_engine::model::MinorVersion;
use mullion_survey::analysis::{ContainerPlace, Fleet, FleetNode, WorkloadView};
use mullion_survey::facts::behavior_changes::Use;
use mullion_survey::inventory::{SERVICE_ACCOUNT, program_names};

/// CSI drivers whose volumes Windows nodes mount by SMB. Azure Files has NFS too, but not for Windows
/// (kubernetes-sigs/azurefile-csi-driver docs/driver-parameters.md).
const SMB_DRIVERS: [&str; 2] = ["smb.csi.k8s.io", "file.csi.azure.com"];

/// The beginnings of the names of storage classes whose volumes are mounted by SMB: those that AKS has for Azure Files, as
/// `azurefile-csi-premium`, and `smb`, as the examples of the SMB driver name theirs (kubernetes-csi/csi-driver-smb
/// deploy/example/storageclass-smb.yaml).
const SMB_CLASSES: [&str; 2] = ["azurefile", "smb"];

/// Devices for graphics, and what the names of others begin with: device plugins of Windows, NVIDIA, AMD and Intel.
const GPU_RESOURCES: [&str; 4] = ["microsoft.com/directx", "nvidia.com/", "amd.com/gpu", "gpu.intel.com/"];

/// Fields of a security context that only Linux has.
const LINUX_FIELDS: [&str; 6] =
    ["runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions", "seccompProfile"];

/// Bytes to pull from which a pull alone may last longer than the ten minutes for which AKS waits for a node to drain
/// (Azure/AKS#2114): 4 GiB take about six minutes at 100 Mbit/s, and then they are unpacked.
const LARGE_IMAGE: u64 = 4 << 30;

/// What a workload uses, with the field that shows it. `live`: the object as it is in the cluster.
pub(crate) fn uses(view: &WorkloadView<'_>, live: &Value) -> BTreeMap<Use, String> {
    let mut found = Uses { view, found: BTreeMap::new() };
    found.add_images();
    if view.object.kind == "StatefulSet" {
        found.add(Use::StatefulSet, "kind".to_owned());
    }
    let claims = live.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).into_iter().flatten();
    for (at, claim) in claims.enumerate().filter(|_| view.kind == WorkloadKind::StatefulSet) {
        found.add(Use::PersistentVolume, format!("spec.volumeClaimTemplates[{at}]"));
        found.add_storage_class(claim.pointer("/spec"), &format!("spec.volumeClaimTemplates[{at}].spec"));
    }
    if let Some(pod) = Pod::of(view.kind, live) {
        found.add_pod(pod);
        found.add_volumes(pod);
        for container in pod.containers() {
            found.add_container(pod, &container);
        }
    }
    found.found
}

/// Collects uses; the first field that shows one counts.
struct Uses<'a> {
    view: &'a WorkloadView<'a>,
    found: BTreeMap<Use, String>,
}

impl Uses<'_> {
    fn add(&mut self, what: Use, path: String) {
        self.found.entry(what).or_insert(path);
    }

    /// Adds a field below the pod, by its JSON pointer.
    fn add_field(&mut self, what: Use, pointer: &str) {
        self.add(what, self.view.path(&field_path(pointer)));
    }

    fn add_images(&mut self) {
        let view = self.view;
        for container in &view.containers {
            if container.os == ImageOs::Linux || container.place == ContainerPlace::Ephemeral {
                continue;
            }
            let path = || view.image_path(container);
            let Ok(image) = ImageRef::parse(&container.report.image) else { continue };
            let name = format!("{}:{}", image.repository(), image.tag().unwrap_or_default()).to_ascii_lowercase();
            // HostProcess containers run with the files of the host.
            if !view.host_process {
                self.add(base_of(&image, &name), path());
            }
            if name.contains("dotnet/framework/") || name.contains("dotnet-framework") {
                self.add(Use::DotnetFramework, path());
            }
        }
    }

    fn add_pod(&mut self, pod: Pod<'_>) {
        if let Some(pointer) = pod.host_process_field() {
            self.add_field(Use::HostProcess, &pointer);
        }
        if pod.get("/spec/resources").is_some_and(|resources| resources.as_object().is_some_and(|all| !all.is_empty()))
        {
            self.add_field(Use::PodResources, "/spec/resources");
        }
        self.add_security("/spec/securityContext", pod.get("/spec/securityContext"));
    }

    fn add_security(&mut self, pointer: &str, context: Option<&Value>) {
        let is_set = |field: &str| {
            let value = context.and_then(|context| context.pointer(field));
            value.is_some_and(|value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()))
        };
        for field in ["/windowsOptions/gmsaCredentialSpecName", "/windowsOptions/gmsaCredentialSpec"] {
            if is_set(field) {
                self.add_field(Use::Gmsa, &format!("{pointer}{field}"));
            }
        }
        for field in LINUX_FIELDS {
            if is_set(&format!("/{field}")) {
                self.add_field(Use::RunAsUser, &format!("{pointer}/{field}"));
            }
        }
    }

    fn add_volumes(&mut self, pod: Pod<'_>) {
        for (at, volume) in pod.items("/spec/volumes").iter().enumerate() {
            let pointer = format!("/spec/volumes/{at}");
            let text = |field: &str| volume.pointer(field).and_then(Value::as_str).unwrap_or_default();
            let has = |field: &str| volume.get(field).is_some_and(Value::is_object);
            if has("persistentVolumeClaim") {
                self.add_field(Use::PersistentVolume, &format!("{pointer}/persistentVolumeClaim"));
            }
            if has("ephemeral") {
                self.add_field(Use::PersistentVolume, &format!("{pointer}/ephemeral"));
                let spec = "/ephemeral/volumeClaimTemplate/spec";
                let path = self.view.path(&field_path(&format!("{pointer}{spec}")));
                self.add_storage_class(volume.pointer(spec), &path);
            }
            if SMB_DRIVERS.contains(&text("/csi/driver")) {
                self.add_field(Use::SmbVolume, &format!("{pointer}/csi/driver"));
            }
            let driver = text("/flexVolume/driver").to_ascii_lowercase();
            if ["smb", "cifs"].iter().any(|name| driver.contains(name)) {
                self.add_field(Use::SmbVolume, &format!("{pointer}/flexVolume/driver"));
            }
            if has("azureFile") {
                self.add_field(Use::SmbVolume, &format!("{pointer}/azureFile"));
            }
        }
    }

    fn add_storage_class(&mut self, claim: Option<&Value>, path: &str) {
        let class = claim.and_then(|claim| claim.get("storageClassName")).and_then(Value::as_str);
        if class.is_some_and(|class| SMB_CLASSES.iter().any(|start| class.starts_with(start))) {
            self.add(Use::SmbVolume, format!("{path}.storageClassName"));
        }
    }

    fn add_container(&mut self, pod: Pod<'_>, container: &Container<'_>) {
        let pointer = container.pointer();
        self.add_security(&format!("{pointer}/securityContext"), container.get("/securityContext"));
        for list in ["limits", "requests"] {
            let resources = container.get(&format!("/resources/{list}")).and_then(Value::as_object);
            let is_gpu = |key: &&String| GPU_RESOURCES.iter().any(|known| key.starts_with(known));
            if let Some(key) = resources.into_iter().flat_map(|all| all.keys()).find(is_gpu) {
                self.add_field(Use::Gpu, &format!("{pointer}/resources/{list}/{}", escape(key)));
            }
        }
        for (at, mount) in container.get("/volumeMounts").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let path = mount.get("mountPath").and_then(Value::as_str).unwrap_or_default();
            if is_drive_root(path) {
                self.add_field(Use::DriveRootMount, &format!("{pointer}/volumeMounts/{at}/mountPath"));
            }
            if pod.host_process() && path != SERVICE_ACCOUNT {
                self.add_field(Use::HostProcessVolume, &format!("{pointer}/volumeMounts/{at}"));
            }
        }
        for field in COMMAND_LINES {
            for name in container.get(field).map(program_names).unwrap_or_default() {
                let what = match name {
                    // `pwsh` is PowerShell 7, which comes with the image and not with Windows.
                    "powershell" => Use::PowerShell,
                    "wmic" => Use::Wmic,
                    "cscript" | "wscript" | ".vbs" => Use::VbScript,
                    _ => continue,
                };
                self.add_field(what, &format!("{pointer}{field}"));
            }
        }
    }
}

/// The base that the name of an image states. `name`: repository and tag in lower case.
fn base_of(image: &ImageRef<'_>, name: &str) -> Use {
    // Tags of .NET without a base have Nano Server (dotnet/dotnet-docker documentation/supported-tags.md).
    let path = image.microsoft_path().unwrap_or_default();
    let is_dotnet = path.starts_with("dotnet/") && !path.starts_with("dotnet/framework/");
    if image.microsoft_path() == Some("windows") {
        Use::FullWindows
    } else if name.contains("nanoserver") || (is_dotnet && !name.contains("windowsservercore")) {
        Use::NanoServer
    } else {
        Use::ServerCore
    }
}

/// `D:`, `D:\`, `Z:/`.
fn is_drive_root(path: &str) -> bool {
    matches!(path.as_bytes(), [letter, b':'] | [letter, b':', b'\\' | b'/'] if letter.is_ascii_alphabetic())
}

/// What makes the move delicate.
pub(crate) fn risks(
    one: &WorkloadMove,
    view: &WorkloadView<'_>,
    live: &Value,
    fleet: &Fleet<'_>,
    scope: &MoveScope,
) -> Vec<Risk> {
    let mut risks = Vec::new();
    let mut add = |name: &str, what: String, path: String| risks.push(Risk { name: name.to_owned(), what, path });
    for (what, path) in &one.uses {
        let (name, text) = match what {
            Use::StatefulSet => ("statefulSet", "It is a StatefulSet: its pods move one after the other.".to_owned()),
            Use::PersistentVolume => (
                "persistentVolume",
                "It has persistent volumes: new nodes need their driver, and must be in the zone of the volumes."
                    .to_owned(),
            ),
            Use::SmbVolume => (
                "smbVolume",
                "It has an SMB volume: the new node mounts it, with the security settings of its release.".to_owned(),
            ),
            Use::Gmsa => (
                "gmsa",
                "It uses a group managed service account: the new nodes need access to its credentials.".to_owned(),
            ),
            Use::Gpu => {
                ("gpu", "It uses a graphics device: the new nodes need one, with its device plugin.".to_owned())
            }
            Use::HostProcess => {
                ("hostProcess", "It runs HostProcess containers, which change the node itself.".to_owned())
            }
            Use::HostProcessVolume => ("hostProcessVolume", host_process_volume(view, fleet, scope)),
            Use::DriveRootMount => match drive_root_mount(view, fleet, scope) {
                Some(text) => ("driveRootMount", text),
                None => continue,
            },
            _ => continue,
        };
        add(name, text, path.clone());
    }
    if view.object.kind == "Pod" {
        add(
            "barePod",
            "It is a pod without a controller: `kubectl drain` stops at it, and nothing creates it again.".to_owned(),
            "metadata.ownerReferences".to_owned(),
        );
    }
    let replicas = live.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    if matches!(view.kind, WorkloadKind::Deployment | WorkloadKind::StatefulSet) && replicas == 1 {
        let text = if starts_new_pod_first(view.kind, live) {
            "It has one replica: its rolling update starts the new pod before the old one ends, but a drain interrupts it."
        } else {
            "It has one replica: it is not available while its pod moves."
        };
        add("oneReplica", text.to_owned(), "spec.replicas".to_owned());
    }
    if let Some(path) = host_port(view, live) {
        add("hostPort", "It uses a port of the node, so one node runs one of its pods.".to_owned(), path);
    }
    for (of, planned) in one.report.images() {
        if let Some(bytes) = planned.pull_bytes.filter(|bytes| *bytes >= LARGE_IMAGE) {
            let (gib, of, name) = (bytes >> 30, of.name(), &planned.name);
            add(
                "largeImage",
                format!("A new node pulls more than {gib} GiB for the {of} {name}."),
                format!("image of {of} {name}"),
            );
        }
    }
    risks
}

/// Whether an update starts a new pod before it ends the only old one: the default of Deployments, `maxSurge` of 25 %, is
/// rounded up (kubernetes/kubernetes `pkg/apis/apps/v1/defaults.go`, `pkg/controller/deployment/util/deployment_util.go`).
fn starts_new_pod_first(kind: WorkloadKind, live: &Value) -> bool {
    let is_rolling =
        live.pointer("/spec/strategy/type").is_none_or(|strategy| strategy.as_str() == Some("RollingUpdate"));
    let has_surge = match live.pointer("/spec/strategy/rollingUpdate/maxSurge") {
        Some(Value::Number(number)) => number.as_u64() != Some(0),
        Some(Value::String(percent)) => percent.trim_end_matches('%') != "0",
        _ => true,
    };
    kind == WorkloadKind::Deployment && is_rolling && has_surge
}

/// A volume at the root of a drive, unless all nodes that are known can mount it (Azure/AKS#3471, containerd/containerd#6589).
fn drive_root_mount(view: &WorkloadView<'_>, fleet: &Fleet<'_>, scope: &MoveScope) -> Option<String> {
    const FIRST: MinorVersion = MinorVersion::new(1, 7);
    let version = |node: &FleetNode<'_>| MinorVersion::of_containerd(&node.node.container_runtime);
    let is_old = |node: &FleetNode<'_>| version(node).is_some_and(|own| own < FIRST);
    let present: Vec<&FleetNode<'_>> = view.pods.iter().filter_map(|pod| fleet.node(pod.node.as_deref()?)).collect();
    let existing = scope.new_pools.iter().filter_map(|pool| fleet.pools.get(pool.existing?));
    let mut existing = existing.flat_map(|pool| fleet.nodes_of(pool));
    let start = "A volume is mounted at the root of a drive: containerd before 1.7";
    if existing.any(is_old) {
        return Some(format!("{start}, which nodes of the new pool have, cannot mount it."));
    }
    if present.iter().any(|node| is_old(node)) {
        return Some(format!("{start}, which its present nodes have, cannot mount it."));
    }
    let all_can = !present.is_empty() && present.iter().all(|node| version(node).is_some());
    (!all_can).then(|| format!("{start} cannot mount it."))
}

/// containerd 1.7 changed where HostProcess containers find their volumes (Azure/AKS#3885, #4196; KEP-1981).
fn host_process_volume(view: &WorkloadView<'_>, fleet: &Fleet<'_>, scope: &MoveScope) -> String {
    let nodes = view.pods.iter().filter_map(|pod| fleet.node(pod.node.as_deref()?));
    let old: BTreeSet<&str> =
        nodes.map(|node| &*node.node.container_runtime).filter(|runtime| !runtime.is_empty()).collect();
    let existing = scope.new_pools.iter().filter_map(|pool| fleet.pools.get(pool.existing?));
    let nodes = existing.flat_map(|pool| fleet.nodes_of(pool));
    let new: BTreeSet<&str> =
        nodes.map(|node| &*node.node.container_runtime).filter(|runtime| !runtime.is_empty()).collect();
    let mut text = "Its HostProcess containers mount volumes, whose paths changed with containerd 1.7".to_owned();
    if !old.is_empty() {
        text = format!("{text}; its nodes have {} now", list_with(old, "and"));
    }
    if !new.is_empty() {
        text = format!("{text}, the new ones {}", list_with(new, "and"));
    }
    text + "."
}

/// A port of the node, in pods that do not use the network of the node: there every port is one. A DaemonSet has one pod
/// on a node anyway.
fn host_port(view: &WorkloadView<'_>, live: &Value) -> Option<String> {
    let pod = Pod::of(view.kind, live).filter(|_| view.kind != WorkloadKind::DaemonSet)?;
    if pod.get("/spec/hostNetwork").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    pod.containers().find_map(|container| {
        let ports = container.get("/ports").and_then(Value::as_array)?;
        let at =
            ports.iter().position(|port| port.get("hostPort").and_then(Value::as_u64).is_some_and(|port| port > 0))?;
        Some(view.path(&field_path(&format!("{}/ports/{at}/hostPort", container.pointer()))))
    })
}

#[cfg(test)]
mod tests;
