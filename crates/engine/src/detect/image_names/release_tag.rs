//! Release tags: the same image for another Windows release, as far as the vocabulary of its tag allows.

use crate::detect::image_names::name::from_name;
use crate::detect::image_names::tag::{
    LTSC_NAMES, SHORT_YEARS, VERSIONS, WINDOWS_WORDS, YEAR_LIKE, YEARS, look_up, strip_word,
};
use crate::model::image::{ImageOs, ImageRef};
use crate::model::windows::Build;

/// The reference with the release in its tag replaced by that of `build`, an LTSC:
/// `shop/web:4.2-windowsservercore-ltsc2022` for `shop/web:4.2-windowsservercore-ltsc2025`. Only its registry knows
/// whether that image exists.
///
/// `None` if the tag names no release or several, if it is pinned to one image by digest, date, patch or revision, or
/// if the release is written in a form that the other does not have.
pub(crate) fn for_build(image: &ImageRef<'_>, build: Build) -> Option<String> {
    let tag = image.tag().filter(|_| image.digest().is_none())?;
    let answer = from_name(image);
    let [from] = answer.builds.as_slice() else { return None };
    let nano = [image.repository(), tag].iter().any(|text| text.to_ascii_lowercase().contains("nanoserver"));
    let new_tag = if Build::from_os_version(tag).is_some() {
        // The tags of base images: `10.0.20348.2655` is one month's `ltsc2022`.
        name_of(build, nano)?.to_owned()
    } else {
        let mut pieces = tag.split_inclusive(['-', '_', '.']);
        if pieces.clone().any(|piece| is_pinned(word_of(piece))) {
            return None;
        }
        let mut found = pieces.clone().filter(|piece| form_of(word_of(piece), *from).is_some());
        let piece = found.next().filter(|_| found.next().is_none())?;
        let form = form_of(word_of(piece), *from)?;
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
        new_tag
    };
    let end = image.to_string();
    let written = format!("{}:{new_tag}", end.strip_suffix(tag)?.strip_suffix(':')?);
    let read = from_name(&ImageRef::parse(&written).ok()?);
    (read.os == ImageOs::Windows && read.builds == [build]).then_some(written)
}

/// Whether [`for_build`] can return a reference for that build: the tables of names contain no others.
pub(crate) fn has_release_tag(build: Build) -> bool {
    name_in(LTSC_NAMES, build).is_some()
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

fn form_of(word: &str, build: Build) -> Option<Form<'_>> {
    let is = |table, text| look_up(table, text) == Some(build);
    if [LTSC_NAMES, VERSIONS, YEAR_LIKE].into_iter().any(|table| is(table, word)) {
        return Some(Form::Name);
    }
    if is(YEARS, word) {
        return Some(Form::Year);
    }
    WINDOWS_WORDS.iter().filter(|known| known.release).find_map(|known| {
        let rest = strip_word(word, known.text)?;
        let (head, _) = word.split_at_checked(known.text.len())?;
        let based = BASES.contains(&known.text);
        let tables = [(LTSC_NAMES, true), (YEARS, true), (SHORT_YEARS, true), (JOINED_VERSIONS, based)];
        let (table, _) = tables.into_iter().find(|(table, usable)| *usable && is(table, rest))?;
        Some(Form::Joined(head, table))
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
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn retagged(text: &str, build: u32) -> Option<String> {
        for_build(&ImageRef::parse(text).unwrap(), Build::new(build))
    }

    #[test]
    fn tags_of_another_release() {
        let cases = [
            ("mcr.microsoft.com/windows/servercore:ltsc2025", 20348, "mcr.microsoft.com/windows/servercore:ltsc2022"),
            ("mcr.microsoft.com/windows/servercore:ltsc2022", 17763, "mcr.microsoft.com/windows/servercore:ltsc2019"),
            ("mcr.microsoft.com/windows/servercore:20H2", 20348, "mcr.microsoft.com/windows/servercore:ltsc2022"),
            (
                "mcr.microsoft.com/windows/servercore:ltsc2025-arm64",
                20348,
                "mcr.microsoft.com/windows/servercore:ltsc2022-arm64",
            ),
            (
                "mcr.microsoft.com/windows/servercore:10.0.17763.8389",
                20348,
                "mcr.microsoft.com/windows/servercore:ltsc2022",
            ),
            ("mcr.microsoft.com/windows/nanoserver:1809", 26100, "mcr.microsoft.com/windows/nanoserver:ltsc2025"),
            ("mcr.microsoft.com/windows/nanoserver:ltsc2022", 17763, "mcr.microsoft.com/windows/nanoserver:1809"),
            (
                "mcr.microsoft.com/dotnet/sdk:9.0-nanoserver-ltsc2025",
                17763,
                "mcr.microsoft.com/dotnet/sdk:9.0-nanoserver-1809",
            ),
            ("golang:1.27-windowsservercore-ltsc2025", 20348, "golang:1.27-windowsservercore-ltsc2022"),
            ("r.example.com:5000/a/web:4.2_ltsc2019", 26100, "r.example.com:5000/a/web:4.2_ltsc2025"),
            ("r.example.com/web:3.8.0-windows-ltsc-2022", 26100, "r.example.com/web:3.8.0-windows-ltsc-2025"),
            ("fluent/fluent-bit:windows-2022-2.2.2", 17763, "fluent/fluent-bit:windows-2019-2.2.2"),
            (
                "gitlab/gitlab-runner-helper:x86_64-v17-servercore1809",
                20348,
                "gitlab/gitlab-runner-helper:x86_64-v17-servercore21H2",
            ),
            ("example.com/web:2023.1-win22", 26100, "example.com/web:2023.1-win25"),
            ("example.com/web:windowsservercore2022", 17763, "example.com/web:windowsservercore2019"),
            // A product version that looks like a release is left alone.
            (
                "mcr.microsoft.com/businesscentral/onprem:1904-cu1-w1-ltsc2019",
                20348,
                "mcr.microsoft.com/businesscentral/onprem:1904-cu1-w1-ltsc2022",
            ),
        ];
        for (text, build, expected) in cases {
            assert_eq!(retagged(text, build).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn where_no_tag_is_known() {
        let digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let cases = [
            format!("mcr.microsoft.com/windows/servercore:ltsc2025{digest}"),
            format!("mcr.microsoft.com/windows/servercore{digest}"),
            "mcr.microsoft.com/windows/servercore".into(),
            "mcr.microsoft.com/windows/servercore:1809-KB4489899".into(),
            "mcr.microsoft.com/dotnet/framework/sdk:4.8-20260714-windowsservercore-ltsc2019".into(),
            "portainer/agent:windows1809-amd64".into(),
            "registry.example.com/app:1".into(),
            "onebranch.azurecr.io/windows/ltsc2019/vse2022:latest".into(),
            "nginx:1.27".into(),
        ];
        for text in cases {
            assert_eq!(retagged(&text, 20348), None, "{text}");
        }
        for nobodys in [19042, 22631, 25398, 29000] {
            assert_eq!(retagged("mcr.microsoft.com/windows/servercore:ltsc2022", nobodys), None);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(tag in "(v1[.-])?(windows[-_]?|nanoserver-?|servercore-?|win)?(ltsc-?20(16|19|22|25)|1809|20H2|20(19|22|25)|22)?(-(amd64|20H2|ltsc2019|KB1))?", build in prop::sample::select(vec![17763_u32, 20348, 26100])) {
            let text = format!("example.com/windows/servercore:{tag}");
            if let Ok(image) = ImageRef::parse(&text)
                && let Some(written) = for_build(&image, Build::new(build))
            {
                let read = from_name(&ImageRef::parse(&written).unwrap());
                prop_assert_eq!(read.builds, [Build::new(build)]);
            }
        }
    }
}
