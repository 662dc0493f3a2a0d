//! The image for another Windows release: by the tables of published images, else by replacing the release in its tag.
//!
//! Only a registry knows whether an image exists. [`Confidence`] is how much the tables know about it.

use jiff::civil::Date;

use crate::detect::image_names::name::from_name;
use crate::detect::image_names::repository::{self, RepositoryOs};
use crate::detect::image_names::tag::{SHORT_YEARS, WINDOWS_WORDS, look_up};
use crate::model::image::{ImageOs, ImageRef};
use crate::model::published_images::{PublishedImages, PublishedTags, RowMatch, SharedTag, SupportEnd};
use crate::model::text::strip_word;
use crate::model::windows::{Build, LTSC_NAMES, VERSIONS, YEAR_LIKE, YEARS};

/// How an image reference changes for another Windows build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retag<'t> {
    /// No change: the reference already has an image of that build.
    Keep,
    /// To another reference.
    Another(ProposedImage<'t>),
    /// No tag is known: the owner must rebuild the image.
    NoTag {
        /// The image of the Dockerfile's `FROM` line, if the tables know one.
        from: Option<String>,
        /// The notes of the tables about it.
        notes: &'t [String],
    },
    /// A digest identifies one image. Only its publisher knows the digest of another image.
    Pinned,
}

/// An image for another Windows build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedImage<'t> {
    /// Its reference.
    pub image: String,
    /// What is known about it.
    pub confidence: Confidence,
    /// The other version of the product in it, if that changes.
    pub product: Option<ProductChange<'t>>,
    /// Since when its own tag gets no updates.
    pub frozen_since: Option<Date>,
    /// The end of the support of its product.
    pub support_end: Option<&'t SupportEnd>,
    /// What else changes, and what to check: clauses.
    pub notes: &'t [String],
}

/// What is known about a proposed image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// The tables name its release and its version in the publisher's registry.
    Table,
    /// Nothing is known: it is the old name with the release replaced.
    Guess,
}

/// Two versions of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProductChange<'t> {
    /// The product.
    pub product: &'t str,
    /// Its version in the old tag.
    pub from: String,
    /// Its version in the new tag.
    pub to: String,
}

/// The change of `image` for nodes that run images of `build`.
pub fn retag<'t>(tables: &'t PublishedImages, image: &ImageRef<'_>, build: Build) -> Retag<'t> {
    if image.digest().is_some() {
        return Retag::Pinned;
    }
    let is_of_build = from_name(image).builds == [build];
    let Some(found) = tables.find(image) else {
        // The rows of a repository are complete: a tag that has no row is not replaced by a guess.
        let guess = if is_of_build || tables.knows_repository(image) { None } else { guess(image, build) };
        return match guess {
            _ if is_of_build => Retag::Keep,
            Some(image) => Retag::Another(ProposedImage {
                image,
                confidence: Confidence::Guess,
                product: None,
                frozen_since: None,
                support_end: None,
                notes: &[],
            }),
            None => Retag::NoTag { from: None, notes: &[] },
        };
    };
    let row = found.row;
    let is_shared = row.shared.as_ref().is_some_and(|shared| shared.builds.contains(&build));
    if is_shared || (is_of_build && row.frozen_since.is_none()) {
        return Retag::Keep;
    }
    match published(tables, &found, image, build) {
        Some(proposed) if !is_same(image, &proposed.image) => Retag::Another(proposed),
        Some(_) => Retag::Keep,
        None if is_of_build && !row.rebuild_from.contains_key(&build) => Retag::Keep,
        None => {
            let from = row.rebuild_from.get(&build);
            let from = from.map(|from| from.replace("{repository}", found.repository.path()));
            Retag::NoTag { from, notes: &row.notes }
        }
    }
}

/// The image whose tag names the release of `build`, in place of a tag that names no release: also for the builds that
/// the tag currently provides, which [`retag`] keeps.
pub(crate) fn pin<'t>(tables: &'t PublishedImages, image: &ImageRef<'_>, build: Build) -> Option<ProposedImage<'t>> {
    published(tables, &tables.find(image)?, image, build)
}

/// Since when the tag gets no updates in the registry of its publisher. `None` for a digest, and for tags that still
/// get updates.
pub fn frozen_since(tables: &PublishedImages, image: &ImageRef<'_>) -> Option<Date> {
    let row = tables.find(image).filter(|_| image.digest().is_none())?.row;
    let registry = image.normalized_registry();
    row.frozen_since.filter(|_| row.registries.iter().any(|publisher| *publisher == registry))
}

/// The row of a tag that names no release, and whose releases change over time. `None` for a digest, which never
/// changes, and for tags that the tables do not contain.
pub fn shared_tag<'t>(tables: &'t PublishedImages, image: &ImageRef<'_>) -> Option<(&'t PublishedTags, &'t SharedTag)> {
    if image.digest().is_some() {
        return None;
    }
    let row = tables.find(image)?.row;
    Some((row, row.shared.as_ref()?))
}

fn is_same(image: &ImageRef<'_>, proposed: &str) -> bool {
    ImageRef::parse(proposed).is_ok_and(|proposed| proposed == *image)
}

/// The image that the row contains for the build.
fn published<'t>(
    tables: &'t PublishedImages,
    found: &RowMatch<'t, '_>,
    image: &ImageRef<'_>,
    build: Build,
) -> Option<ProposedImage<'t>> {
    let row = found.row;
    let tag = image.tag().unwrap_or("latest");
    let own = row.published.get(&build).map(|template| (None, template));
    let (successor, template) = own.or_else(|| {
        let successor = row.successor.as_ref()?;
        Some((Some(&successor.repository), successor.published.get(&build)?))
    })?;
    let new_tag = template.fill(tag, &found.captured, || respell(image, build))?;
    let is_listed = found.version_is_listed || !template.has_version();
    let from_publisher =
        row.registries.iter().any(|registry| registry.eq_ignore_ascii_case(image.normalized_registry()));
    let confidence = match successor {
        Some(_) if is_listed => Confidence::Table,
        None if is_listed && from_publisher => Confidence::Table,
        _ => Confidence::Guess,
    };
    let product = row.product.as_deref().filter(|_| successor.is_none()).and_then(|product| {
        let (from, to) = (product_version(tag)?, product_version(&new_tag)?);
        (from != to).then(|| ProductChange { product, from: from.to_owned(), to: to.to_owned() })
    });
    let written = match successor {
        Some(repository) => format!("{repository}:{new_tag}"),
        None => with_tag(image, &new_tag),
    };
    // The result is not a tag if a captured part and the rest are together too long.
    let new_row = tables.find(&ImageRef::parse(&written).ok()?).map(|new| new.row);
    let frozen_since = new_row.and_then(|row| row.frozen_since);
    let support_end = new_row.and_then(|row| row.support_end.as_ref());
    // Notes of a row with a successor are about the successor.
    let notes: &[String] = if row.successor.is_some() && successor.is_none() { &[] } else { &row.notes };
    Some(ProposedImage { image: written, confidence, product, frozen_since, support_end, notes })
}

/// The version that a tag begins with: `4.8` of `4.8-windowsservercore-ltsc2019`.
fn product_version(tag: &str) -> Option<&str> {
    let version = tag.split('-').next()?;
    (version.contains('.') && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')).then_some(version)
}

/// The reference with another tag, whether or not it has one.
fn with_tag(image: &ImageRef<'_>, tag: &str) -> String {
    let written = image.to_string();
    let old = image.tag().unwrap_or_default();
    let repository = written.strip_suffix(old).and_then(|rest| rest.strip_suffix(':')).unwrap_or(&written);
    format!("{repository}:{tag}")
}

/// The image in an unknown repository whose tag names exactly one release: [`respell`], if the result is a Windows
/// image of the build.
fn guess(image: &ImageRef<'_>, build: Build) -> Option<String> {
    if from_name(image).os == ImageOs::Linux || repository::find(image) == Some(RepositoryOs::Decoy) {
        return None;
    }
    let written = with_tag(image, &respell(image, build)?);
    let read = from_name(&ImageRef::parse(&written).ok()?);
    (read.os == ImageOs::Windows && read.builds == [build]).then_some(written)
}

/// The tag with its release replaced by that of `build`, an LTSC, in the same spelling: `4.2-windows-2022` for
/// `4.2-windows-2025`.
///
/// `None` if the tag names no release or several, if a part of it looks like another release or like a version of
/// Windows, if it is pinned by date or patch, or if the release is written in a form that the other does not have.
fn respell(image: &ImageRef<'_>, build: Build) -> Option<String> {
    let tag = image.tag()?;
    let nano = [image.repository(), tag].iter().any(|text| text.to_ascii_lowercase().contains("nanoserver"));
    let is_start_of_version = |at: usize| {
        tag.get(..at).is_none_or(|before| !before.ends_with(|last: char| last.is_ascii_digit() || last == '.'))
    };
    if tag.match_indices("10.0.").any(|(at, _)| is_start_of_version(at)) {
        return None;
    }
    let mut pieces = tag.split_inclusive(['-', '_', '.']);
    if pieces.clone().any(|piece| is_pinned(word_of(piece))) {
        return None;
    }
    let mut found = pieces.clone().filter(|piece| release_form(word_of(piece)).is_some());
    let piece = found.next().filter(|_| found.next().is_none())?;
    let (form, from) = release_form(word_of(piece))?;
    // A name that has other meanings, such as a year, counts only if the name of the whole image is detected so.
    let unmistakable =
        matches!(form, Form::Name) && look_up(VERSIONS, word_of(piece)).is_some() && word_of(piece) != tag;
    if !unmistakable && from_name(image).builds != [from] {
        return None;
    }
    let word = form.write(build, nano)?;
    let mut new_tag = String::with_capacity(tag.len() + 4);
    for other in pieces.by_ref() {
        // The matching piece, identified by its position in the tag.
        if std::ptr::eq(other, piece) {
            new_tag.push_str(&word);
            new_tag.push_str(other.get(word_of(other).len()..).unwrap_or_default());
        } else {
            new_tag.push_str(other);
        }
    }
    Some(new_tag)
}

/// How a word of a tag names its release.
enum Form<'a> {
    /// By name or version: `ltsc2022`, `1809`, `20H2`.
    Name,
    /// By the year alone: `windows-2022`.
    Year,
    /// By name or year after a Windows word: `windowsservercore` of `windowsservercore2022`.
    Joined(&'a str, &'static [(&'static str, Build)]),
}

/// Versions that gitlab-runner-helper joins to a word: `servercore21H2`.
const JOINED_VERSIONS: &[(&str, Build)] =
    &[("1809", Build::new(17763)), ("21H2", Build::new(20348)), ("24H2", Build::new(26100))];

/// The words it joins them to.
const BASES: [&str; 2] = ["servercore", "nanoserver"];

/// The release that a word names, regardless of the words around it.
fn release_form(word: &str) -> Option<(Form<'_>, Build)> {
    if let Some(build) = [LTSC_NAMES, VERSIONS, YEAR_LIKE].into_iter().find_map(|table| look_up(table, word)) {
        return Some((Form::Name, build));
    }
    if let Some(build) = look_up(YEARS, word) {
        return Some((Form::Year, build));
    }
    WINDOWS_WORDS.iter().filter(|known| known.release).find_map(|known| {
        let rest = strip_word(word, known.text)?;
        let (head, _) = word.split_at_checked(known.text.len())?;
        let based = BASES.contains(&known.text);
        let tables = [(LTSC_NAMES, true), (YEARS, true), (SHORT_YEARS, true), (JOINED_VERSIONS, based)];
        tables.into_iter().filter(|(_, usable)| *usable).find_map(|(table, _)| {
            let build = look_up(table, rest)?;
            Some((Form::Joined(head, table), build))
        })
    })
}

impl Form<'_> {
    fn write(&self, build: Build, nano: bool) -> Option<String> {
        match self {
            Self::Name => name_of(build, nano).map(str::to_owned),
            Self::Year => name_in(YEARS, build).map(str::to_owned),
            Self::Joined(head, table) => Some(format!("{head}{}", name_in(table, build)?)),
        }
    }
}

/// Most repositories call Nano Server of 2019 by its version (dotnet/dotnet-docker documentation/supported-tags.md).
fn name_of(build: Build, nano: bool) -> Option<&'static str> {
    let of_2019 = nano && build == Build::new(17763);
    if of_2019 { Some("1809") } else { name_in(LTSC_NAMES, build) }
}

fn name_in(table: &'static [(&'static str, Build)], build: Build) -> Option<&'static str> {
    table.iter().find(|(_, known)| *known == build).map(|(name, _)| *name)
}

fn word_of(piece: &str) -> &str {
    piece.strip_suffix(['-', '_', '.']).unwrap_or(piece)
}

/// A date, as in `4.8-20260714-windowsservercore-ltsc2022`, or a patch, as in `1809-KB4489899`: not every release has
/// it.
fn is_pinned(word: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (word.len() == 8 && word.starts_with("20") && number(word)) || strip_word(word, "kb").is_some_and(number)
}

#[cfg(test)]
mod tests;
