//! Names of Windows releases in the tags of images.

use crate::model::windows::build::Build;

/// LTSC names: proof by themselves, in any repository (Sitecore's `8.0-ltsc2022`).
pub(crate) const LTSC_NAMES: &[(&str, Build)] = &[
    ("ltsc2016", Build::new(14393)),
    ("sac2016", Build::new(14393)),
    ("ltsc2019", Build::new(17763)),
    ("ltsc2022", Build::new(20348)),
    ("ltsc2025", Build::new(26100)),
];

/// Years of LTSC releases: after `ltsc` or a Windows word, or first in the tag of a base image.
pub(crate) const YEARS: &[(&str, Build)] = &[
    ("2016", Build::new(14393)),
    ("2019", Build::new(17763)),
    ("2022", Build::new(20348)),
    ("2025", Build::new(26100)),
];

/// Version names that have no other meaning, wherever they occur in a Windows tag. `21H2` and `24H2` are from
/// gitlab-runner-helper. 23H2 is missing: it has no base image and runs those of ltsc2022.
pub(crate) const VERSIONS: &[(&str, Build)] = &[
    ("1809", Build::new(17763)),
    ("20h2", Build::new(19042)),
    ("21h2", Build::new(20348)),
    ("24h2", Build::new(26100)),
];

/// Version names that are also years or product versions. `2009` is another name of 20H2 (microsoft/iis-docker).
pub(crate) const YEAR_LIKE: &[(&str, Build)] = &[
    ("1607", Build::new(14393)),
    ("1709", Build::new(16299)),
    ("1803", Build::new(17134)),
    ("1903", Build::new(18362)),
    ("1909", Build::new(18363)),
    ("2004", Build::new(19041)),
    ("2009", Build::new(19042)),
];

/// The rest of the text after each release name that it begins with, ignoring case.
pub(crate) fn release_names(text: &str) -> impl Iterator<Item = &str> {
    [LTSC_NAMES, YEARS, VERSIONS, YEAR_LIKE].into_iter().flatten().filter_map(move |(name, _)| {
        let (head, rest) = text.split_at_checked(name.len())?;
        head.eq_ignore_ascii_case(name).then_some(rest)
    })
}
