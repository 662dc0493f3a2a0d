//! What is known of each container's image: the first that answers of policy pattern and name.

use super::image::{ImageOs, ImageRef, NameSource, from_name};
use super::pod::{Container, Pod};
use super::verdict::{Evidence, Says, Source};
use super::windows::Build;
use super::world::Os;
use crate::policy::{PatternOs, Settings};

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
    /// `policy`, `registry`, `tag`, `repository` or `none`.
    pub source: &'static str,
}

/// The images of all containers.
pub fn images_of<'a>(pod: &Pod<'a>, settings: &Settings) -> Vec<ContainerImage<'a>> {
    pod.containers()
        .filter_map(|container| {
            let image = container.image()?;
            Some(ContainerImage { container, image, facts: image_facts(image, settings) })
        })
        .collect()
}

/// What policy patterns, and after them its name, say of an image. A string that is no reference is unknown.
pub fn image_facts(image: &str, settings: &Settings) -> ImageFacts {
    if let Some(pattern) = settings.images.find(image) {
        let os = match pattern.os {
            PatternOs::Windows => ImageOs::Windows,
            PatternOs::Linux => ImageOs::Linux,
            PatternOs::Multi => ImageOs::Multi,
        };
        return ImageFacts { os, builds: pattern.builds.clone(), source: "policy" };
    }
    let Ok(reference) = ImageRef::parse(image) else {
        return ImageFacts { os: ImageOs::Unknown, builds: Vec::new(), source: "none" };
    };
    let answer = from_name(&reference);
    let source = match answer.source {
        NameSource::Tag => "tag",
        NameSource::Repository => "repository",
        NameSource::None => "none",
    };
    ImageFacts { os: answer.os, builds: answer.builds, source }
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
        Some(Evidence { says, source: Source::Image { pointer, image: self.image.to_owned(), how: self.facts.source } })
    }
}
