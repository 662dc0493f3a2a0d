//! What is known of each container's image: the first that answers of policy pattern, registry and name.

use std::sync::Arc;

use super::image::{ImageOs, ImageRef, ImageSource, KnownImages, Platforms, from_name};
use super::pod::{Container, Pod};
use super::verdict::{Evidence, Says, Source};
use super::windows::Build;
use super::world::{Os, World};
use crate::policy::{ImagePatterns, PatternOs, Settings};

/// One container's image and what is known of it.
#[derive(Debug, Clone)]
pub struct ContainerImage<'a> {
    /// The container.
    pub container: Container<'a>,
    /// Its image, as written.
    pub image: &'a str,
    /// What is known.
    pub facts: ImageFacts,
}

/// What is known of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// Its operating system.
    pub os: ImageOs,
    /// Its Windows builds; several for an index with several, none if unknown.
    pub builds: Vec<Build>,
    /// What says the operating system.
    pub source: ImageSource,
    /// What its registry says; `None` also where a policy's pattern answers before it.
    pub platforms: Option<Arc<Platforms>>,
    /// Whether a registry could say more: it was not asked, and no pattern answers before it.
    pub open: bool,
}

/// The images of all containers. `asked` goes before what the world holds of images.
pub fn images_of<'a>(
    pod: &Pod<'a>,
    settings: &Settings,
    asked: Option<&KnownImages>,
    world: &World,
) -> Vec<ContainerImage<'a>> {
    let known = |image: &str| asked.and_then(|asked| asked.get(image)).or_else(|| world.images.get(image));
    pod.containers()
        .filter_map(|container| {
            let image = container.image()?;
            let facts = image_facts(image, &settings.images, known(image));
            Some(ContainerImage { container, image, facts })
        })
        .collect()
}

/// What policy patterns, the registry and at last its name say of an image: the first that says an operating system, and
/// the first that says builds. A string that is no reference is unknown.
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
        // One pattern for a mirror of Windows images covers all their releases: their tags say which.
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
        return ImageFacts { os: name.os, builds: name.builds, source: name.source.into(), platforms: None, open };
    };
    let (os, mut builds) = (platforms.os(), platforms.builds());
    // An entry without os.version says nothing of the build, and the tag is the better guess of the two.
    if builds.is_empty() && os != ImageOs::Linux {
        builds = name.builds;
    }
    ImageFacts { os, builds, source: ImageSource::Registry, platforms: Some(platforms), open }
}

impl ContainerImage<'_> {
    /// The image as a signal about the pod's OS; `None` if nothing is known of it.
    pub fn evidence(&self, pod: &Pod<'_>) -> Option<Evidence> {
        let says = match self.facts.os {
            ImageOs::Windows => Says::Os(Os::Windows),
            ImageOs::Linux => Says::Os(Os::Linux),
            ImageOs::Multi => Says::Multi,
            ImageOs::Unknown => return None,
        };
        let pointer = pod.at(&(self.container.pointer() + "/image"));
        Some(Evidence {
            says,
            source: Source::Image { pointer, image: self.image.to_owned(), how: self.facts.source.name() },
        })
    }
}
