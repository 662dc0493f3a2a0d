//! What shows that a pod can never start on its node.

use mullion_engine::model::Os;
use mullion_engine::model::image::ImageOs;

use crate::analysis::{FleetNode, FleetRules, RunningImages, WorkloadView, is_process_isolated};
use crate::inventory::{Inventory, PodRecord};
use crate::messages::{Envelope, MessageClass, Translation, translate};
use crate::repair::started_images::StartedImages;
use crate::repair::stuck_pod::StuckEvidence;
use crate::report::Knowledge;

/// The facts that a pod is compared with.
pub(super) struct EvidenceContext<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) running: &'a RunningImages,
    pub(super) started: &'a StartedImages,
    pub(super) rules: FleetRules<'a>,
}

impl EvidenceContext<'_> {
    /// What shows that no node of this kind runs an image of the pod: what states its platform, or a message of this pod.
    pub(super) fn exclusion(
        &self,
        view: &WorkloadView<'_>,
        pod: &PodRecord,
        node: &FleetNode<'_>,
    ) -> Option<StuckEvidence> {
        self.by_image(view, pod, node)
            .or_else(|| self.by_volume_image(view, pod, node))
            .or_else(|| self.by_message(pod))
    }

    fn by_image(&self, view: &WorkloadView<'_>, pod: &PodRecord, node: &FleetNode<'_>) -> Option<StuckEvidence> {
        let os = node.node.os?;
        let host = node.node.build.filter(|_| os == Os::Windows && is_process_isolated(&pod.shape, self.inventory));
        pod.shape.containers.iter().filter(|container| !container.ephemeral).find_map(|container| {
            let image = view.image(&container.image, self.running, self.inventory);
            let name = container.image.to_string();
            if image.os == ImageOs::from(os.other()) && !self.started.has(&container.image, os, None) {
                return Some(StuckEvidence::ImageSystem { image: name, os: os.other(), known_from: image.known_from });
            }
            // That it started on other builds excludes none.
            let host = host.filter(|_| image.known_from != Knowledge::Running && !image.builds.is_empty())?;
            let is_excluded =
                !self.rules.runs(host, &image.builds) && !self.started.has(&container.image, os, Some(host));
            let of_build =
                || StuckEvidence::ImageBuild { image: name, builds: image.builds, host, known_from: image.known_from };
            is_excluded.then(of_build)
        })
    }

    /// A volume for which the node finds no files: its image is for the other system, or is an index without an entry for the
    /// node. The node chooses the entry, whatever the isolation of the containers is.
    fn by_volume_image(&self, view: &WorkloadView<'_>, pod: &PodRecord, node: &FleetNode<'_>) -> Option<StuckEvidence> {
        let os = node.node.os?;
        let started = |image, build| self.started.has(image, os, build);
        pod.shape.image_volumes.iter().find_map(|volume| {
            let image = view.image(&volume.image, self.running, self.inventory);
            let (name, known_from) = (volume.image.to_string(), image.known_from);
            if image.os == ImageOs::from(os.other()) && !started(&volume.image, None) {
                return Some(StuckEvidence::ImageSystem { image: name, os: os.other(), known_from });
            }
            let host = node.node.build.filter(|_| os == Os::Windows && image.is_index() && !image.builds.is_empty())?;
            let is_excluded = !self.rules.runs(host, &image.builds) && !started(&volume.image, Some(host));
            is_excluded.then_some(StuckEvidence::ImageBuild { image: name, builds: image.builds, host, known_from })
        })
    }

    fn by_message(&self, pod: &PodRecord) -> Option<StuckEvidence> {
        let isolated = is_process_isolated(&pod.shape, self.inventory);
        let excludes = |found: &Translation| {
            let of_platform =
                matches!(found.class, MessageClass::NoPlatform | MessageClass::LinuxImage | MessageClass::WindowsImage);
            (of_platform || found.class == MessageClass::HostMismatch && isolated)
                && found.envelope != Envelope::Sandbox
        };
        let (_, message) = self
            .messages(pod)
            .find(|(reason, message)| translate(reason, message).is_some_and(|found| excludes(&found)))?;
        Some(StuckEvidence::Rejected { message: message.to_owned() })
    }

    /// An image of which it is known only where it ran, and that is not of the kind of this node, as a clause.
    pub(super) fn suspicion(&self, view: &WorkloadView<'_>, pod: &PodRecord, node: &FleetNode<'_>) -> Option<String> {
        let isolated = node.node.os == Some(Os::Windows) && is_process_isolated(&pod.shape, self.inventory);
        let host = node.node.build.filter(|_| isolated)?;
        pod.shape.containers.iter().filter(|container| !container.ephemeral).find_map(|container| {
            let image = view.image(&container.image, self.running, self.inventory);
            let is_only_elsewhere = image.known_from == Knowledge::Running && !self.rules.runs(host, &image.builds);
            is_only_elsewhere.then(|| {
                let name = &container.image;
                format!("its image {name} is known to run on other builds only; ask its registry with mullion image")
            })
        })
    }

    /// An Event of this pod that a node of the other operating system would not cause: reason and message. `is_default`: whether
    /// nothing states the operating system of its successor; then only an Event that Windows pods do not have counts.
    pub(super) fn says_why<'p>(&'p self, pod: &'p PodRecord, is_default: bool) -> Option<(&'p str, &'p str)> {
        let counts = |class| of_linux_pod(class) || !is_default && is_of_system(class);
        self.events(pod).find(|(reason, message)| translate(reason, message).is_some_and(|found| counts(found.class)))
    }

    /// Reasons and messages of the status of a pod, and of its Events.
    fn messages<'p>(&'p self, pod: &'p PodRecord) -> impl Iterator<Item = (&'p str, &'p str)> {
        let of_containers = pod.problems.iter().filter(|text| text.container.is_some());
        of_containers.map(|text| (&*text.reason, &*text.message)).chain(self.events(pod))
    }

    fn events<'p>(&'p self, pod: &'p PodRecord) -> impl Iterator<Item = (&'p str, &'p str)> {
        self.inventory
            .events_of(pod)
            .filter(|event| event.uid == pod.uid || event.uid.is_empty())
            .map(|event| (&*event.reason, &*event.message))
    }
}

/// The message with which the kubelet rejected the pod for its operating system.
pub(super) fn refusal(pod: &PodRecord) -> Option<StuckEvidence> {
    let is_refusal =
        |class: MessageClass| matches!(class, MessageClass::OsFieldRejected | MessageClass::OsLabelRejected);
    let texts = pod.problems.iter().map(|text| (&*text.reason, &*text.message));
    let (reason, message) = texts
        .into_iter()
        .find(|(reason, message)| translate(reason, message).is_some_and(|found| is_refusal(found.class)))?;
    Some(StuckEvidence::Refused { message: if message.is_empty() { reason } else { message }.to_owned() })
}

/// Whether the message is one that Linux pods have on Windows nodes, and Windows pods do not.
fn of_linux_pod(class: MessageClass) -> bool {
    matches!(class, MessageClass::HostNetwork | MessageClass::NoAddressLabel | MessageClass::MountSource)
}

/// Whether the message is one of a pod on a node of the wrong operating system. Pulls that are denied, registries that do
/// not respond, full disks, and missing ConfigMaps are the same on any node.
fn is_of_system(class: MessageClass) -> bool {
    use MessageClass as C;
    matches!(
        class,
        C::RunAsNonRoot
            | C::NoPlatform
            | C::LinuxImage
            | C::WindowsImage
            | C::LayersTooNew
            | C::UnpackFailed
            | C::NoRuntimeHandler
            | C::PodNetwork
            | C::HostMismatch
            | C::WorkingDirectory
            | C::ExitedAtStart
            | C::CreateFailed
            | C::ProgramNotFound
    )
}
