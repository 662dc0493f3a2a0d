//! Windows builds of images, and what containers that started prove about them.
//!
//! A container that started under process isolation on a host up to 20348 has an image with an entry of exactly the build
//! of the host, because an older host runs nothing else, and 20348 runs nothing older. A newer host runs some entry
//! from 20348 on. The image may have entries for other builds too: an index has several, so no build is excluded.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use mullion_engine::detect::ImageFacts;
use mullion_engine::detect::image_names::ImageSource;
use mullion_engine::model::Os;
use mullion_engine::model::cluster::RuntimeClass;
use mullion_engine::model::image::ImageRef;
use mullion_engine::model::windows::{Build, Generation, STABLE_ABI_FROM, runs};

use crate::analysis::fleet::Fleet;
use crate::inventory::{ContainerShape, Inventory, PodRecord, PodShape, RunningContainer, VolumeShape};
use crate::messages::{Envelope, MessageClass, Translation, translate};
use crate::report::Knowledge;

/// The hosts of an image, by the digest that they pulled. Containers without a digest are one entry.
type Hosts = BTreeMap<Option<Arc<str>>, BTreeSet<Build>>;

/// What containers that started prove, by image as pods write it.
#[derive(Debug, Default)]
pub struct RunningImages {
    hosts: HashMap<Arc<str>, Hosts>,
    /// The hosts of all containers, including those whose build need not be that of the image.
    pulled: HashMap<Arc<str>, Hosts>,
    /// The builds of nodes that pulled an image and found no entry for themselves in its manifest.
    refused: HashMap<Arc<str>, BTreeSet<Build>>,
    /// Images of pods on nodes without a status: they may have been another image under the same name.
    unreported: HashSet<Arc<str>>,
    /// The builds of nodes on which containers started that mount a volume of the image: the node has pulled and mounted
    /// it, whatever build it is for.
    mounted: HashMap<Arc<str>, BTreeSet<Build>>,
}

impl RunningImages {
    /// Reads the statuses of all pods.
    pub fn new(inventory: &Inventory, fleet: &Fleet<'_>) -> Self {
        let mut found = Self::default();
        for pod in &inventory.pods {
            let node = pod.node.as_deref().and_then(|name| fleet.node(name));
            if node.is_some_and(|node| node.node.os == Some(Os::Linux)) {
                continue;
            }
            if pod.is_unreported() {
                let of_containers = pod.shape.containers.iter().map(|container| &container.image);
                let of_volumes = pod.shape.image_volumes.iter().map(|volume| &volume.image);
                found.unreported.extend(of_containers.chain(of_volumes).cloned());
            }
            // Without a build, a container still shows which image it had.
            let build = node.and_then(|node| node.node.build.filter(|_| node.node.os == Some(Os::Windows)));
            for image in refused_images(pod, inventory) {
                found.refused.entry(image).or_default().extend(build);
            }
            let isolated = is_process_isolated(&pod.shape, inventory);
            let may_be = isolated || is_of_unread_class(&pod.shape, inventory);
            for RunningContainer { container, image_id } in &pod.running {
                let Some(container) = pod.shape.containers.get(usize::from(*container)) else { continue };
                for volume in pod.shape.volumes_of(container) {
                    found.mounted.entry(Arc::clone(&volume.image)).or_default().extend(build);
                }
                let add = |all: &mut HashMap<Arc<str>, Hosts>, build: Option<Build>| {
                    let hosts = all.entry(Arc::clone(&container.image)).or_default();
                    hosts.entry(image_id.clone()).or_default().extend(build);
                };
                add(&mut found.pulled, build);
                if may_be {
                    add(&mut found.hosts, build.filter(|_| isolated));
                }
            }
        }
        found
    }

    /// The builds of an image, and their source.
    pub(crate) fn builds(&self, image: &str, facts: &ImageFacts) -> (Vec<Build>, Knowledge) {
        let from = stated_by(facts);
        let named = &facts.builds;
        // A name can be wrong; a container that runs cannot.
        let agrees = |host: &Build| named.iter().any(|build| runs(*host, *build, Generation::default(), &[]));
        if !named.is_empty()
            && (from != Knowledge::Name
                || self.hosts.get(image).into_iter().flat_map(BTreeMap::values).flatten().all(agrees))
        {
            return (named.clone(), from);
        }
        let proved: Vec<Build> = self.hosts(image).filter(|host| *host <= STABLE_ABI_FROM).collect();
        let from = if proved.is_empty() { Knowledge::Unknown } else { Knowledge::Running };
        (proved, from)
    }

    /// Whether containers with the same image name have different images, and started on different builds.
    pub(crate) fn has_several(&self, image: &str) -> bool {
        let mut all = self.hosts.get(image).into_iter().flat_map(BTreeMap::values);
        all.next().is_some_and(|first| all.any(|hosts| hosts != first))
    }

    /// The hosts on which containers with the image started.
    pub fn hosts(&self, image: &str) -> impl Iterator<Item = Build> + use<> {
        common(self.hosts.get(image).filter(|_| !self.unreported.contains(image)))
    }

    /// Whether a node of that build found no entry for itself in the manifest of the image, and no other pulled it.
    pub fn is_refused_by(&self, image: &str, host: Build) -> bool {
        let pulled = self.pulled.get(image).into_iter().flat_map(BTreeMap::values);
        let mut pulled = pulled.chain(self.mounted.get(image));
        self.refused.get(image).is_some_and(|hosts| hosts.contains(&host)) && !pulled.any(|hosts| hosts.contains(&host))
    }

    /// The hosts that have pulled the image for a volume and mounted it.
    pub fn mounted_on(&self, image: &str) -> impl Iterator<Item = Build> + use<'_> {
        self.mounted.get(image).filter(|_| !self.unreported.contains(image)).into_iter().flatten().copied()
    }

    /// The hosts that pulled the image and started it, including as HostProcess container or in a virtual machine.
    pub fn pulled_on(&self, image: &str) -> impl Iterator<Item = Build> + use<> {
        common(self.pulled.get(image).filter(|_| !self.unreported.contains(image)))
    }
}

/// The images of a pod that has not started, of which a message of its status or of an Event states that the manifest has no
/// entry for the node.
fn refused_images(pod: &PodRecord, inventory: &Inventory) -> Vec<Arc<str>> {
    if pod.started || !pod.reported {
        return Vec::new();
    }
    let is_refused = |translation: &Translation| {
        translation.class == MessageClass::NoPlatform && translation.envelope != Envelope::Sandbox
    };
    let of_status = pod.problems.iter().filter_map(|text| {
        let translation = translate(&text.reason, &text.message).filter(is_refused)?;
        image_of_message(pod, Some(text.container?), &translation)
    });
    let of_events = inventory.events_of(pod).filter_map(|event| {
        let translation = translate(&event.reason, &event.message).filter(is_refused)?;
        image_of_message(pod, None, &translation)
    });
    of_status.chain(of_events).map(|found| Arc::clone(found.image())).collect()
}

/// An image of a pod.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PodImage<'p> {
    /// That of a container.
    Container(&'p ContainerShape),
    /// That of a volume.
    Volume(&'p VolumeShape),
}

impl<'p> PodImage<'p> {
    pub(crate) fn image(self) -> &'p Arc<str> {
        match self {
            Self::Container(container) => &container.image,
            Self::Volume(volume) => &volume.image,
        }
    }
}

/// The image that a message of a pod is about. `container`: the one whose status has the message; `None` for an Event.
///
/// The kubelet writes a failed pull of an image volume into the status of each container that mounts it (`toKubeContainerImageVolumes`
/// in `pkg/kubelet/kuberuntime/kuberuntime_manager.go`), so of these the name in the message decides.
pub(crate) fn image_of_message<'p>(
    pod: &'p PodRecord,
    container: Option<u16>,
    translation: &Translation,
) -> Option<PodImage<'p>> {
    use MessageClass as C;
    let shape = &pod.shape;
    let named = translation.image.as_deref();
    let normalized_name = LazyCell::new(|| named.and_then(normalized));
    let is_named = |image: &Arc<str>| {
        named == Some(&**image) || normalized_name.is_some() && normalized(image) == *normalized_name
    };
    let is_volume = |volume: &&VolumeShape| is_named(&volume.image);
    let Some(container) = container else {
        // A message names the image with the registry that Docker adds, and a container has another name for a mirror.
        return match (shape.containers.as_slice(), shape.image_volumes.as_slice()) {
            ([only], []) => Some(PodImage::Container(only)),
            (containers, volumes) => {
                let container = containers.iter().find(|container| is_named(&container.image));
                container.map(PodImage::Container).or_else(|| volumes.iter().find(is_volume).map(PodImage::Volume))
            }
        };
    };
    let container = shape.containers.get(usize::from(container))?;
    let own = PodImage::Container(container);
    // The layers of a volume are mounted when the container is created.
    let of_layers = matches!(
        translation.class,
        C::NoPlatform | C::LinuxImage | C::WindowsImage | C::LayersTooNew | C::UnpackFailed
    );
    let may_be_volume = translation.envelope == Envelope::Pull || of_layers;
    if container.mounts.is_empty() || !may_be_volume || is_named(&container.image) {
        return Some(own);
    }
    shape.volumes_of(container).find(is_volume).map(PodImage::Volume)
}

/// A reference as the container runtime reads it, and writes it into messages; `None` for a text that is no reference.
fn normalized(reference: &str) -> Option<String> {
    ImageRef::parse(reference).map(|image| image.normalized().to_string()).ok()
}

/// The hosts of all images under one name: if the tag was moved, the next pull gets only one of them.
fn common(hosts: Option<&Hosts>) -> impl Iterator<Item = Build> + use<> {
    let mut all = hosts.into_iter().flat_map(BTreeMap::values);
    let first = all.next().cloned().unwrap_or_default();
    all.fold(first, |common, hosts| &common & hosts).into_iter()
}

/// The source that states what an image is for, if no container runs it.
pub(crate) fn stated_by(facts: &ImageFacts) -> Knowledge {
    match facts.source {
        ImageSource::Policy => Knowledge::Policy,
        ImageSource::Registry => Knowledge::Registry,
        ImageSource::Tag | ImageSource::Repository | ImageSource::None => Knowledge::Name,
    }
}

/// Whether the build of the host limits the images of a pod: not those of HostProcess containers, and not those in a
/// virtual machine.
pub(crate) fn is_process_isolated(shape: &PodShape, inventory: &Inventory) -> bool {
    let class = inventory.runtime_class(shape.runtime_class.as_deref());
    // A class that was not read may be one with a virtual machine.
    !shape.host_process && !is_of_unread_class(shape, inventory) && !class.is_some_and(RuntimeClass::is_hypervisor)
}

/// Whether the RuntimeClass of a pod was not read.
fn is_of_unread_class(shape: &PodShape, inventory: &Inventory) -> bool {
    shape.runtime_class.is_some() && inventory.runtime_class(shape.runtime_class.as_deref()).is_none()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_engine::detect::image_facts;
    use mullion_engine::model::settings::ImagePatterns;

    use super::*;

    #[test]
    fn what_running_containers_prove() {
        let name_2019 = "mcr.microsoft.com/windows/servercore:ltsc2019";
        let name_2022 = "mcr.microsoft.com/windows/servercore:ltsc2022";
        let cases: [(&str, &[u32], &[u32], Knowledge); 9] = [
            ("private/web:1", &[], &[], Knowledge::Unknown),
            ("private/web:1", &[17763], &[17763], Knowledge::Running),
            ("private/web:1", &[20348], &[20348], Knowledge::Running),
            ("private/web:1", &[17763, 20348], &[17763, 20348], Knowledge::Running),
            // 26100 runs images for 20348 too.
            ("private/web:1", &[26100], &[], Knowledge::Unknown),
            ("private/web:1", &[20348, 26100], &[20348], Knowledge::Running),
            (name_2022, &[26100], &[20348], Knowledge::Name),
            (name_2019, &[], &[17763], Knowledge::Name),
            // The tag is wrong.
            (name_2019, &[20348], &[20348], Knowledge::Running),
        ];
        for (image, hosts, expected, from) in cases {
            let hosts: BTreeSet<Build> = hosts.iter().map(|host| Build::new(*host)).collect();
            let running = of_image(image, &[(None, hosts.clone())]);
            let facts = image_facts(image, &ImagePatterns::default(), None);
            let expected: Vec<Build> = expected.iter().map(|build| Build::new(*build)).collect();
            assert_eq!(running.builds(image, &facts), (expected, from), "{image} on {hosts:?}");
        }
    }

    fn of_image(image: &str, all: &[(Option<&str>, BTreeSet<Build>)]) -> RunningImages {
        let hosts: Hosts = all.iter().map(|(id, hosts)| (id.map(Arc::from), hosts.clone())).collect();
        let all = HashMap::from([(Arc::from(image), hosts)]);
        RunningImages { hosts: all.clone(), pulled: all, ..RunningImages::default() }
    }

    /// A tag that was moved: its images are not one image for the builds of both.
    #[test]
    fn images_of_a_moved_tag_are_not_one_image() {
        type Case<'c> = (&'c [(&'c str, &'c [u32])], &'c [u32], bool);
        let cases: [Case<'_>; 5] = [
            (&[("a", &[17763]), ("b", &[20348])], &[], true),
            // Each proves the same.
            (&[("a", &[20348]), ("b", &[20348])], &[20348], false),
            (&[("a", &[17763, 20348])], &[17763, 20348], false),
            // Both started on 20348.
            (&[("a", &[17763, 20348]), ("b", &[20348])], &[20348], true),
            (&[("a", &[20348]), ("b", &[26100])], &[], true),
        ];
        for (images, expected, several) in cases {
            let builds = |builds: &[u32]| builds.iter().map(|build| Build::new(*build)).collect::<BTreeSet<_>>();
            let all: Vec<_> = images.iter().map(|(id, hosts)| (Some(*id), builds(hosts))).collect();
            let running = of_image("r/web:1", &all);
            let (found, _) = running.builds("r/web:1", &image_facts("r/web:1", &ImagePatterns::default(), None));
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), builds(expected), "{images:?}");
            assert_eq!(running.has_several("r/web:1"), several, "{images:?}");
            let common = images.iter().map(|(_, hosts)| builds(hosts)).reduce(|a, b| &a & &b).unwrap();
            assert_eq!(running.pulled_on("r/web:1").collect::<BTreeSet<_>>(), common, "{images:?}");
        }
    }
}
