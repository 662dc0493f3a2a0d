//! What is known of the image of a container or a volume.

use std::collections::BTreeSet;
use std::sync::Arc;

use mullion_engine::model::cluster::RuntimeClass;
use mullion_engine::model::image::{ImageOs, Platforms};
use mullion_engine::model::windows::Build;

use mullion_survey::analysis::{RunningImages, ViewImage, WorkloadView};
use mullion_survey::inventory::Inventory;
use mullion_survey::report::Knowledge;

/// What is known of the image of a container or a volume.
pub(super) struct ImageEvidence<'a> {
    /// As the workload writes it.
    pub(super) image: &'a str,
    pub(super) os: ImageOs,
    pub(super) builds: Vec<Build>,
    pub(super) known_from: Knowledge,
    pub(super) platforms: Option<Arc<Platforms>>,
    /// The hosts on which containers with the image ran: with process isolation those whose build limits the image, otherwise
    /// all that pulled it; of a volume those that pulled or mounted it.
    pub(super) hosts: BTreeSet<Build>,
    pub(super) isolation: Isolation,
    pub(super) has_pods: bool,
}

/// How the containers of a workload are isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    /// By process: the image must be for a build that the host runs.
    Process,
    /// Not at all: they are processes of the host.
    HostProcess,
    /// By a virtual machine.
    VirtualMachine,
    /// By process or virtual machine: the RuntimeClass was not read.
    UnreadRuntimeClass,
    /// The image of a volume, which runs nothing. However the containers are isolated, the node pulls the image by its own
    /// build (containerd `internal/cri/server/container_image_mount.go`).
    Volume,
}

impl Isolation {
    pub(super) fn of(view: &WorkloadView<'_>, inventory: &Inventory) -> Self {
        if view.host_process {
            return Self::HostProcess;
        }
        match (runtime_class(view), inventory.runtime_class(runtime_class(view))) {
            (Some(_), None) => Self::UnreadRuntimeClass,
            (_, Some(class)) if RuntimeClass::is_hypervisor(class) => Self::VirtualMachine,
            _ => Self::Process,
        }
    }
}

/// The RuntimeClass of its pods; without pods that of its template.
pub(super) fn runtime_class<'v>(view: &'v WorkloadView<'_>) -> Option<&'v str> {
    match view.pods.first() {
        Some(pod) => pod.shape.runtime_class.as_deref(),
        None => view.runtime_class.as_deref(),
    }
}

impl<'a> ImageEvidence<'a> {
    pub(super) fn new(
        image: &'a str,
        view: &WorkloadView<'_>,
        running: &RunningImages,
        inventory: &Inventory,
        isolation: Isolation,
    ) -> Self {
        let ViewImage { os, builds, known_from, platforms } = view.image(image, running, inventory);
        let hosts = match isolation {
            Isolation::Process => running.hosts(image).collect(),
            Isolation::HostProcess | Isolation::VirtualMachine | Isolation::UnreadRuntimeClass => {
                running.pulled_on(image).collect()
            }
            Isolation::Volume => running.pulled_on(image).chain(running.mounted_on(image)).collect(),
        };
        let has_pods = view.pods.iter().any(|pod| !pod.ended);
        Self { image, os, builds, known_from, platforms, hosts, isolation, has_pods }
    }

    /// Whether every node pulls the image, whatever its build: a single manifest, or an entry without `os.version`
    /// (windows.md of the reference, sections 2.4 and 2.6). The value says which.
    pub(super) fn pulled_everywhere(&self) -> Option<&'static str> {
        let platforms = self.platforms.as_ref().filter(|platforms| platforms.windows().next().is_some())?;
        if !platforms.index {
            return Some("Its image is a single manifest, which every node pulls");
        }
        let without_version =
            platforms.windows().any(|entry| entry.os_version.as_deref().unwrap_or_default().is_empty());
        without_version.then_some("Its image has an entry without os.version, which every node pulls")
    }
}
