//! Windows releases as people write them: by name, year, version, build or product.

use crate::model::windows::build::Build;
use crate::model::windows::release::{ExtraRelease, RELEASES, known_host_builds, release_name};
use crate::model::windows::release_names::{LTSC_NAMES, VERSIONS, YEAR_LIKE, YEARS};

/// The first build of Windows 10, and so of `10.0`: a smaller number is a year or a version.
const FIRST_BUILD: u32 = 10_240;

/// Words around the name of a release that do not change which one it is.
const FILLERS: [&str; 10] =
    ["windows", "server", "core", "nano", "datacenter", "standard", "version", "build", "ltsc", "win"];

/// Why a text is not a release. It has the usual name of the release that the text writes differently, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "neither a Windows release nor a build; write ltsc2022, 20348, 10.0.20348 or 10.0.20348.2655{hint}",
    hint = .0.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
)]
pub struct UnknownRelease(pub Option<String>);

/// The build of a release: `ltsc2025`, `2025`, `24H2`, `Windows Server 2025`, `26100`, `10.0.26100`, `10.0.26100.1742`, or
/// a name in `extra`. Case is ignored.
pub fn build_of_release(text: &str, extra: &[ExtraRelease]) -> Result<Build, UnknownRelease> {
    let named = || names(extra).into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, build)| build);
    let version = format!("10.0.{}", text.strip_prefix("10.0.").unwrap_or(text));
    let by_number = || Build::from_os_version(&version).map(|(build, _)| build);
    let by_number = || by_number().filter(|build| build.number() >= FIRST_BUILD);
    named().or_else(by_number).ok_or_else(|| UnknownRelease(equal_release(text, extra)))
}

/// Every name of every release.
fn names(extra: &[ExtraRelease]) -> Vec<(String, Build)> {
    let own = known_host_builds().map(|build| (release_name(build, extra).into_owned(), build));
    let extra = extra.iter().map(|release| (release.name.clone(), release.build));
    let versions = [LTSC_NAMES, YEARS, VERSIONS, YEAR_LIKE].into_iter().flatten();
    let versions = versions.map(|(name, build)| ((*name).to_owned(), *build));
    let products = RELEASES.iter().map(|release| (release.product.to_owned(), release.build));
    own.chain(extra).chain(versions).chain(products).collect()
}

/// The name of the release that the text is in other words. Never another release that has a similar name.
fn equal_release(text: &str, extra: &[ExtraRelease]) -> Option<String> {
    let wanted = essence(text);
    if wanted.is_empty() {
        return None;
    }
    let (_, build) = names(extra).into_iter().find(|(name, _)| essence(name) == wanted)?;
    let name = release_name(build, extra);
    Some(if name.starts_with("build-") { build.to_string() } else { name.into_owned() })
}

/// The text in lower case, without words and characters that only surround the name.
fn essence(text: &str) -> String {
    let letters = text.chars().filter(char::is_ascii_alphanumeric).take(64);
    let mut text: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
    for filler in FILLERS {
        text = text.replace(filler, "");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_a_release() {
        let forms: [(u32, &[&str]); 8] = [
            (14393, &["2016", "ltsc2016", "14393", "10.0.14393", "1607", "build-14393", "Windows Server 2016"]),
            (17763, &["2019", "ltsc2019", "LTSC2019", "1809", "17763", "10.0.17763", "17763.6293", "10.0.17763.6293"]),
            (19041, &["2004", "19041", "10.0.19041", "10.0.19041.804", "Windows Server 2004"]),
            (19042, &["20H2", "20h2", "2009", "19042", "10.0.19042"]),
            (20348, &["2022", "ltsc2022", "21H2", "20348", "10.0.20348", "10.0.20348.2655", "Windows Server 2022"]),
            (25398, &["23h2", "23H2", "25398", "10.0.25398"]),
            (26100, &["2025", "ltsc2025", "24H2", "26100", "10.0.26100", "10.0.26100.1742", "windows server 2025"]),
            (22631, &["Windows 11 23H2", "22631", "build-22631"]),
        ];
        for (build, texts) in forms {
            for text in texts {
                assert_eq!(build_of_release(text, &[]), Ok(Build::new(build)), "{text}");
            }
        }
        let extra =
            [ExtraRelease { build: Build::new(29_000), name: "ltsc2028".into(), runs_from: Build::new(26_100) }];
        assert_eq!(build_of_release("LTSC2028", &extra), Ok(Build::new(29_000)));
        assert_eq!(build_of_release("29000", &[]), Ok(Build::new(29_000)));
    }

    /// The nearest value is the same release in other words, or none.
    #[test]
    fn unknown_releases() {
        for (text, near) in [
            ("server2025", Some("ltsc2025")),
            ("ltsc-2025", Some("ltsc2025")),
            ("win2022", Some("ltsc2022")),
            ("WindowsServer2019Datacenter", Some("ltsc2019")),
            ("nanoserver-1809", Some("ltsc2019")),
            ("server-20H2", Some("10.0.19042")),
            ("v23h2", None),
            ("2024", None),
            ("ltsc2021", None),
            ("ltsc2028", None),
            ("25", None),
            ("022", None),
            ("22h2", None),
            ("11", None),
            ("windows", None),
            ("", None),
            ("10.0.2022", None),
            ("6.3.9600", None),
        ] {
            let near = UnknownRelease(near.map(str::to_owned));
            assert_eq!(build_of_release(text, &[]), Err(near), "{text}");
        }
        let text = build_of_release("server2025", &[]).unwrap_err().to_string();
        assert!(text.ends_with("10.0.20348.2655; did you mean ltsc2025?"), "{text}");
    }

    proptest! {
        #[test]
        fn a_hint_is_accepted(text in "(windows|server|ltsc|win|)[ -]?(20[0-9]{2}|1[0-9]{3}|2[0-9]h[12])") {
            if let Err(UnknownRelease(Some(near))) = build_of_release(&text, &[]) {
                prop_assert!(build_of_release(&near, &[]).is_ok(), "{}", near);
            }
        }
    }
}
