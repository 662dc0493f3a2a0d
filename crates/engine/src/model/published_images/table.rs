//! The rows of the tables, and how one is found for an image.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::civil::Date;
use serde::Deserialize;

use crate::model::image::ImageRef;
use crate::model::published_images::repository_pattern::RepositoryPattern;
use crate::model::published_images::tag_template::{TagCaptures, TagPattern, TagTemplate};
use crate::model::windows::Build;

/// For which Windows releases images are published, and under which tags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishedImages {
    /// When the rows were last compared with their sources.
    pub as_of: Option<Date>,
    /// The rows. The first one that matches an image counts.
    pub images: Vec<PublishedTags>,
}

/// Some tags of some repositories, with the tags of the same images for other Windows releases.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishedTags {
    /// The repositories.
    pub repositories: Vec<RepositoryPattern>,
    /// The registries to which the publisher pushes. A copy elsewhere may lack a tag.
    #[serde(default)]
    pub registries: Vec<String>,
    /// The tags of this row; empty: every tag.
    #[serde(default)]
    pub tags: Vec<TagPattern>,
    /// The versions of this row, of tags with `{version}`. `8.0` is also the version of `8.0.11`, which becomes `8.0`:
    /// not every patch was published for every release.
    #[serde(default)]
    pub versions: Vec<String>,
    /// The first version of this row, of tags with `{version}`.
    #[serde(default)]
    pub version_from: Option<String>,
    /// The tag of the image by Windows build. A build that is absent has no image.
    #[serde(default)]
    pub published: BTreeMap<Build, TagTemplate>,
    /// The repository that contains the images of other builds.
    #[serde(default)]
    pub successor: Option<Successor>,
    /// Present if these tags name no release.
    #[serde(default)]
    pub shared: Option<SharedTag>,
    /// Since when these tags get no updates.
    #[serde(default)]
    pub frozen_since: Option<Date>,
    /// The product whose version the tags begin with.
    #[serde(default)]
    pub product: Option<String>,
    /// Present if the product's own support has ended.
    #[serde(default)]
    pub support_end: Option<SupportEnd>,
    /// By Windows build, the image to rebuild from if no tag is published; `{repository}` is the path of the row.
    #[serde(default)]
    pub rebuild_from: BTreeMap<Build, String>,
    /// What else changes with the tag, and what to check: clauses.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Where this is documented.
    pub source: String,
    /// The date of the source.
    pub as_of: Date,
}

/// A repository that continues another one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Successor {
    /// The repository, with its registry.
    pub repository: String,
    /// The tag of the image by Windows build.
    pub published: BTreeMap<Build, TagTemplate>,
}

/// A tag of images for several Windows releases, which change over time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharedTag {
    /// The Windows builds of its images.
    pub builds: Vec<Build>,
    /// What changed, or will change: a clause.
    pub moved: String,
}

/// The end of a product's support.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SupportEnd {
    /// The last day of support.
    pub date: Date,
    /// What to use instead.
    pub instead: String,
}

/// A row that matches an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowMatch<'t, 'a> {
    /// The row.
    pub row: &'t PublishedTags,
    /// The pattern that matched the repository.
    pub repository: &'t RepositoryPattern,
    /// The parts of the tag that the placeholders of the row's pattern matched.
    pub captured: TagCaptures<'a>,
    /// Whether the row lists the versions that it applies to, and the tag has one of them.
    pub version_is_listed: bool,
}

impl PublishedImages {
    /// The tables of this version of Mullion, as JSON.
    pub const SHIPPED_TEXT: &str = include_str!("published_images.json");

    /// The tables of this version of Mullion. A test parses the file, so it is never malformed.
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<PublishedImages> =
            LazyLock::new(|| serde_json::from_str(PublishedImages::SHIPPED_TEXT).unwrap_or_default());
        &SHIPPED
    }

    /// The first row that matches the image.
    pub fn row(&self, image: &ImageRef<'_>) -> Option<&PublishedTags> {
        self.find(image).map(|found| found.row)
    }

    /// The first row that matches the image. A reference without tag and digest has the tag `latest`.
    pub(crate) fn find<'t: 'a, 'a>(&'t self, image: &ImageRef<'a>) -> Option<RowMatch<'t, 'a>> {
        let tag = image.tag().unwrap_or("latest");
        self.images.iter().find_map(|row| {
            let repository = row.repository(image)?;
            let captured = match row.tags.as_slice() {
                [] => TagCaptures::default(),
                tags => tags.iter().find_map(|pattern| pattern.captures(tag))?,
            };
            let version_is_listed = !row.versions.is_empty() || row.version_from.is_some();
            let captured = if version_is_listed {
                TagCaptures { version: row.version(captured.version)?, ..captured }
            } else {
                captured
            };
            Some(RowMatch { row, repository, captured, version_is_listed })
        })
    }

    /// Whether any row is about the image's repository, whatever its tag.
    pub(crate) fn knows_repository(&self, image: &ImageRef<'_>) -> bool {
        self.images.iter().any(|row| row.repository(image).is_some())
    }
}

impl PublishedTags {
    fn repository(&self, image: &ImageRef<'_>) -> Option<&RepositoryPattern> {
        self.repositories.iter().find(|pattern| pattern.matches(image))
    }

    /// The version of the row that is equal to a tag's version, or of which the tag's version is a patch.
    fn version<'a>(&'a self, version: &'a str) -> Option<&'a str> {
        let is = |listed: &&String| {
            version.strip_prefix(listed.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
        };
        if let Some(listed) = self.versions.iter().find(is) {
            return Some(listed);
        }
        let from = numbers(self.version_from.as_deref()?)?;
        numbers(version).is_some_and(|version| version >= from).then_some(version)
    }

    /// The builds that have a tag of their own, here or in the successor, ascending.
    pub(crate) fn builds(&self) -> impl DoubleEndedIterator<Item = Build> {
        let mut builds: Vec<Build> = self.published.keys().copied().collect();
        builds.extend(self.successor.iter().flat_map(|successor| successor.published.keys().copied()));
        builds.sort_unstable();
        builds.dedup();
        builds.into_iter()
    }
}

/// The numbers of a version: `5.1.2`, not `5.1-debug`.
fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}
