//! Floating tags: tags of Windows images that name no release and whose release changes over time.

use std::borrow::Cow;

use crate::detect::image_names::repository::At;
use crate::model::image::ImageRef;
use crate::model::windows::{Build, release_name};

/// A tag whose release changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Floating {
    /// What changed, or will: a clause.
    pub moved: &'static str,
    /// Releases that have a tag of their own, ascending.
    pub releases: &'static [Build],
    /// The prefix of the release's name in such a tag; `None`: the tag itself, and `-`.
    before: Option<&'static str>,
}

struct Row {
    at: At,
    tags: Tags,
    floating: Floating,
    /// Where this is documented.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and for the test that no row lacks one"))]
    source: &'static str,
}

enum Tags {
    /// These, ignoring case; no tag is the tag `latest`.
    Exactly(&'static [&'static str]),
    /// Tags whose last word is this one.
    Ending(&'static str),
}

const R2016: Build = Build::new(14393);
const R2019: Build = Build::new(17763);
const R2022: Build = Build::new(20348);
const R2025: Build = Build::new(26100);

const LATEST: Tags = Tags::Exactly(&["latest"]);

const FRAMEWORK_MOVED: &str = "it lost Windows Server 2022 on 2025-10-14";
const FRAMEWORK: &str = "microsoft/dotnet-framework-docker README.aspnet.md, #1262 (2025-10-14), #1265";
const OFFICIAL_MOVED: &str = "it lost Windows Server 2019 on 2025-05-30";
const OFFICIAL: &str = "docker-library/official-images library/golang, library/python, library/mongo: 2025 came in January 2025, 1809 went on 2025-05-30";
const NO_LATEST: &str = "base images have no tag `latest` since 2019-04-16";
const BASE_IMAGES: &str = "MicrosoftDocs/Virtualization-Documentation virtualization/windowscontainers/manage-containers/container-base-images.md";

const fn row(
    at: At,
    tags: Tags,
    moved: &'static str,
    before: Option<&'static str>,
    releases: &'static [Build],
    source: &'static str,
) -> Row {
    Row { at, tags, floating: Floating { moved, releases, before }, source }
}

/// First match wins.
#[rustfmt::skip]
static ROWS: &[Row] = &[
    row(At::Within("dotnet/framework/samples"), LATEST, "its releases change", Some("dotnetapp-windowsservercore-"), &[R2022], "microsoft/dotnet-framework-docker manifest.samples.json"),
    row(At::Within("dotnet/framework"), Tags::Exactly(&["latest", "4.8"]), FRAMEWORK_MOVED, Some("4.8-windowsservercore-"), &[R2016, R2019], FRAMEWORK),
    row(At::Within("dotnet/framework"), Tags::Exactly(&["4.8.1"]), "its releases change, as those of `4.8` did on 2025-10-14", Some("4.8.1-windowsservercore-"), &[R2022, R2025], FRAMEWORK),
    row(At::End("windows/servercore/iis"), Tags::Exactly(&["latest", "windowsservercore"]), "its releases change: 20H2 went, 2025 came", Some("windowsservercore-"), &[R2016, R2019, R2022, R2025], "microsoft/iis-docker README.md"),
    row(At::End("windows/servercore"), LATEST, NO_LATEST, Some(""), &[R2016, R2019, R2022, R2025], BASE_IMAGES),
    row(At::End("windows/nanoserver"), LATEST, NO_LATEST, Some(""), &[R2019, R2022, R2025], BASE_IMAGES),
    row(At::End("windows/server"), LATEST, NO_LATEST, Some(""), &[R2022, R2025], BASE_IMAGES),
    row(At::Official("nats"), Tags::Ending("windowsservercore"), OFFICIAL_MOVED, None, &[R2022], OFFICIAL),
    row(At::Official("nats"), Tags::Ending("nanoserver"), OFFICIAL_MOVED, None, &[R2022], OFFICIAL),
    row(At::Official("mongo"), Tags::Ending("nanoserver"), OFFICIAL_MOVED, None, &[R2022], OFFICIAL),
    row(At::AnyOfficial, Tags::Ending("windowsservercore"), OFFICIAL_MOVED, None, &[R2022, R2025], OFFICIAL),
    row(At::AnyOfficial, Tags::Ending("nanoserver"), OFFICIAL_MOVED, None, &[R2022, R2025], OFFICIAL),
];

/// The entry for a floating tag; `None` for a digest, which never changes, and for tags that the table does not
/// contain.
pub(crate) fn floating(image: &ImageRef<'_>) -> Option<Floating> {
    if image.digest().is_some() {
        return None;
    }
    let tag = image.tag().unwrap_or("latest");
    let row = ROWS.iter().find(|row| row.tags.have(tag) && row.at.matches(image))?;
    Some(row.floating)
}

impl Tags {
    fn have(&self, tag: &str) -> bool {
        match *self {
            Self::Exactly(tags) => tags.iter().any(|known| known.eq_ignore_ascii_case(tag)),
            Self::Ending(word) => tag.rsplit('-').next().is_some_and(|last| last.eq_ignore_ascii_case(word)),
        }
    }
}

/// The name of a release in tags. `release_name` returns the number for 2016, because no node has it.
pub(crate) fn usual_name(build: Build) -> Cow<'static, str> {
    if build == R2016 { "ltsc2016".into() } else { release_name(build, &[]) }
}

impl Floating {
    /// The reference whose tag names the release of `build`, one of [`releases`](Self::releases).
    pub(crate) fn pinned(&self, image: &ImageRef<'_>, build: Build) -> String {
        let written = image.to_string();
        let tag = image.tag().unwrap_or_default();
        let repository = written.strip_suffix(tag).and_then(|rest| rest.strip_suffix(':')).unwrap_or(&written);
        let release = usual_name(build);
        match self.before {
            Some(before) => format!("{repository}:{before}{release}"),
            None => format!("{repository}:{tag}-{release}"),
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::detect::image_names::name::from_text;
    use crate::model::image::ImageOs;

    #[test]
    fn tags_that_move() {
        let cases = [
            (
                "mcr.microsoft.com/dotnet/framework/aspnet:4.8",
                "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019",
            ),
            (
                "mcr.microsoft.com/dotnet/framework/runtime",
                "mcr.microsoft.com/dotnet/framework/runtime:4.8-windowsservercore-ltsc2019",
            ),
            (
                "mirror.example.com:5000/dotnet/framework/sdk:4.8.1",
                "mirror.example.com:5000/dotnet/framework/sdk:4.8.1-windowsservercore-ltsc2025",
            ),
            (
                "mcr.microsoft.com/windows/servercore/iis",
                "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2025",
            ),
            (
                "mcr.microsoft.com/windows/servercore/iis:windowsservercore",
                "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2025",
            ),
            ("mcr.microsoft.com/windows/servercore:latest", "mcr.microsoft.com/windows/servercore:ltsc2025"),
            ("mcr.microsoft.com/windows/nanoserver", "mcr.microsoft.com/windows/nanoserver:ltsc2025"),
            ("golang:1.27-windowsservercore", "golang:1.27-windowsservercore-ltsc2025"),
            ("docker.io/library/mongo:8-nanoserver", "docker.io/library/mongo:8-nanoserver-ltsc2022"),
            ("nats:WINDOWSSERVERCORE", "nats:WINDOWSSERVERCORE-ltsc2022"),
        ];
        for (text, pinned) in cases {
            let image = ImageRef::parse(text).unwrap();
            let found = floating(&image).unwrap();
            assert_eq!(found.pinned(&image, *found.releases.last().unwrap()), pinned);
        }
    }

    #[test]
    fn tags_that_do_not() {
        let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for text in [
            "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2022",
            "mcr.microsoft.com/dotnet/aspnet:8.0",
            "mcr.microsoft.com/windows/servercore:ltsc2022",
            "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022",
            "golang:1.27",
            "golang",
            "acme/golang:1.27-windowsservercore",
            "ghcr.io/prometheus-community/windows-exporter:latest",
            &format!("mcr.microsoft.com/dotnet/framework/aspnet:4.8@{digest}"),
            &format!("mcr.microsoft.com/windows/servercore@{digest}"),
        ] {
            assert_eq!(floating(&ImageRef::parse(text).unwrap()), None, "{text}");
        }
    }

    #[test]
    fn every_row_is_complete_and_every_pinned_tag_is_understood() {
        for row in ROWS {
            assert!(row.source.len() > 10 && !row.floating.releases.is_empty());
            assert!(row.floating.releases.is_sorted());
            let image = ImageRef::parse("mcr.microsoft.com/windows/servercore:1-windowsservercore").unwrap();
            for build in row.floating.releases {
                let pinned = row.floating.pinned(&image, *build);
                let answer = from_text(&pinned);
                assert_eq!((answer.os, answer.builds), (ImageOs::Windows, vec![*build]), "{pinned}");
            }
        }
    }
}
