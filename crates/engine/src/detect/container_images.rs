//! The facts about each image of a pod, of a container or of a volume, from policy pattern, registry or name, in this
//! order.

use std::sync::Arc;

use crate::detect::image_names::{ImageSource, from_name};
use crate::model::cluster::ClusterSnapshot;
use crate::model::image::{ImageOs, ImageRef, KnownImages, Platforms};
use crate::model::pod_view::{Container, ImageVolume, Pod};
use crate::model::settings::{ImagePatterns, PatternOs, Settings};
use crate::model::windows::Build;
use crate::model::{Evidence, EvidenceOs, EvidenceSource, Os};

/// One container's image and its facts.
#[derive(Debug, Clone)]
pub struct ContainerImage<'a> {
    /// The container.
    pub container: Container<'a>,
    /// Its image, as the workload specifies it.
    pub image: &'a str,
    /// The facts.
    pub facts: ImageFacts,
}

/// The image of a volume that a container mounts, and its facts.
///
/// containerd pulls it for the operating system of the pod's sandbox and mounts its layers
/// (`internal/cri/server/container_image_mount.go`), so an image for another system fails as that of a container does.
#[derive(Debug, Clone)]
pub struct VolumeImage<'a> {
    /// Position in `spec.volumes`.
    pub index: usize,
    /// The reference, as the workload specifies it.
    pub image: &'a str,
    /// The facts.
    pub facts: ImageFacts,
}

/// The facts about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// Its operating system.
    pub os: ImageOs,
    /// Its Windows builds: several for an index with several; empty if unknown.
    pub builds: Vec<Build>,
    /// The source of the operating system.
    pub source: ImageSource,
    /// What its registry reports; also `None` if a policy's pattern decides first.
    pub platforms: Option<Arc<Platforms>>,
    /// Whether a registry could add facts: the image was not found, and no pattern decides first.
    pub open: bool,
}

/// The images of all containers. The current reports of registries, `report`, take precedence over the snapshot's
/// images.
pub(crate) fn images_of<'a>(
    pod: &Pod<'a>,
    settings: &Settings,
    report: Option<&KnownImages>,
    snapshot: &ClusterSnapshot,
) -> Vec<ContainerImage<'a>> {
    let platforms = |image: &str| report.and_then(|report| report.get(image)).or_else(|| snapshot.images.get(image));
    pod.containers()
        .filter_map(|container| {
            let image = container.image()?;
            let facts = image_facts(image, &settings.images, platforms(image));
            Some(ContainerImage { container, image, facts })
        })
        .collect()
}

/// The images of volumes, with the same sources as [`images_of`].
pub(crate) fn volume_images_of<'a>(
    pod: &Pod<'a>,
    settings: &Settings,
    report: Option<&KnownImages>,
    snapshot: &ClusterSnapshot,
) -> Vec<VolumeImage<'a>> {
    let platforms = |image: &str| report.and_then(|report| report.get(image)).or_else(|| snapshot.images.get(image));
    let facts = |image| image_facts(image, &settings.images, platforms(image));
    let volumes = pod.image_volumes().into_iter();
    volumes
        .map(|ImageVolume { index, reference: image, .. }| VolumeImage { index, image, facts: facts(image) })
        .collect()
}

/// The facts about an image from policy patterns, the registry and its name: the first source that gives an operating
/// system, and the first that gives builds. A string that is not a reference is unknown.
pub fn image_facts(image: &str, patterns: &ImagePatterns, platforms: Option<&Arc<Platforms>>) -> ImageFacts {
    if let Some(pattern) = patterns.find(image) {
        let os = match pattern.os {
            PatternOs::Windows => ImageOs::Windows,
            PatternOs::Linux => ImageOs::Linux,
            PatternOs::Multi => ImageOs::Multi,
        };
        let silent = pattern.builds.is_empty() && os != ImageOs::Linux;
        let platforms = platforms.filter(|_| silent).cloned();
        let reference = if silent { ImageRef::parse(image).ok() } else { None };
        let mut builds = platforms.as_ref().map_or_else(|| pattern.builds.clone(), |platforms| platforms.builds());
        // One pattern for a mirror of Windows images covers all their releases, because their tags name the release.
        if builds.is_empty()
            && os == ImageOs::Windows
            && let Some(name) = reference.as_ref().map(from_name).filter(|name| name.os == ImageOs::Windows)
        {
            builds = name.builds;
        }
        let open = platforms.is_none() && reference.is_some();
        return ImageFacts { os, builds, source: ImageSource::Policy, platforms, open };
    }
    let Ok(reference) = ImageRef::parse(image) else {
        return ImageFacts {
            os: ImageOs::Unknown,
            builds: Vec::new(),
            source: ImageSource::None,
            platforms: None,
            open: false,
        };
    };
    let name = from_name(&reference);
    let open = platforms.is_none();
    let platforms = platforms.filter(|platforms| platforms.os() != ImageOs::Unknown).cloned();
    let Some(platforms) = platforms else {
        return ImageFacts { os: name.os, builds: name.builds, source: name.source, platforms: None, open };
    };
    let (os, mut builds) = (platforms.os(), platforms.builds());
    // An entry without os.version has no build, and the tag is the better guess.
    if builds.is_empty() && os != ImageOs::Linux {
        builds = name.builds;
    }
    ImageFacts { os, builds, source: ImageSource::Registry, platforms: Some(platforms), open }
}

impl ContainerImage<'_> {
    /// The image as evidence about the pod's OS; `None` if its OS is unknown.
    pub fn evidence(&self, pod: &Pod<'_>) -> Option<Evidence> {
        let os = match self.facts.os {
            ImageOs::Windows => EvidenceOs::Os(Os::Windows),
            ImageOs::Linux => EvidenceOs::Os(Os::Linux),
            ImageOs::Multi => EvidenceOs::Multi,
            ImageOs::Unknown => return None,
        };
        let pointer = pod.at(&(self.container.pointer() + "/image"));
        Some(image_evidence_of(os, pointer, self.image, &self.facts))
    }
}

impl VolumeImage<'_> {
    /// Pointer of the reference below the pod.
    pub fn pointer(&self) -> String {
        format!("/spec/volumes/{}/image/reference", self.index)
    }

    /// The image as evidence about the pod's OS; only an image for Windows is. Files for both systems are often in an
    /// image that a build for Linux made, or in an artifact without a platform.
    pub fn evidence(&self, pod: &Pod<'_>) -> Option<Evidence> {
        let os = EvidenceOs::Os(Os::Windows);
        let pointer = || pod.at(&self.pointer());
        (self.facts.os == ImageOs::Windows).then(|| image_evidence_of(os, pointer(), self.image, &self.facts))
    }
}

fn image_evidence_of(os: EvidenceOs, pointer: String, image: &str, facts: &ImageFacts) -> Evidence {
    let source = EvidenceSource::Image { pointer, image: image.to_owned(), how: facts.source.name() };
    Evidence { os, source }
}
