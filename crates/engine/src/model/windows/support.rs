//! Support dates: until when a release gets security updates.

use crate::model::windows::build::Build;

/// When the dates of [`SUPPORT`] were last compared with their sources. Only support that ended by then counts as
/// ended: the engine has no clock, and the same version of Mullion must return the same result for the same pod, in CI
/// next year as in the cluster today.
pub(crate) const CHECKED: &str = "2026-11-20";

/// One server release, with dates as `YYYY-MM-DD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// Its build.
    pub build: Build,
    /// Its usual name: `20H2`, `ltsc2019`.
    pub name: &'static str,
    /// The last day of mainstream support.
    pub mainstream: &'static str,
    /// The last day of security updates without extra payment: the end of extended support if the release has it.
    pub end: &'static str,
}

const fn support(build: u32, name: &'static str, mainstream: &'static str, end: &'static str) -> Support {
    Support { build: Build::new(build), name, mainstream, end }
}

/// By build. Microsoft's own dates for base images: MicrosoftDocs/Virtualization-Documentation
/// `deploy-containers/base-image-lifecycle.md` (its Semi-Annual rows until 2025-06-12); endoflife-date/endoflife.date
/// `products/windows-server-core.md` has the same. 23H2 has no base image: `products/windows-server.md`. The page of the server product has 2029-11-13 and
/// 2034-11-14 for 2025.
///
/// The dates of clouds are not included, because they only concern which nodes a cloud still offers. They are on the
/// rule's page.
pub(crate) static SUPPORT: &[Support] = &[
    support(14393, "ltsc2016", "2022-01-11", "2027-01-11"),
    support(16299, "1709", "2019-04-09", "2019-04-09"),
    support(17134, "1803", "2019-11-12", "2019-11-12"),
    // 1809 of the Semi-Annual Channel ended on 2020-11-10; its images are those of 2019, which are still built.
    support(17763, "ltsc2019", "2024-01-09", "2029-01-09"),
    support(18362, "1903", "2020-12-08", "2020-12-08"),
    support(18363, "1909", "2021-05-11", "2021-05-11"),
    support(19041, "2004", "2021-12-14", "2021-12-14"),
    support(19042, "20H2", "2022-08-09", "2022-08-09"),
    support(20348, "ltsc2022", "2026-10-13", "2031-10-14"),
    support(25398, "23h2", "2026-05-12", "2026-05-12"),
    support(26100, "ltsc2025", "2029-10-09", "2034-10-10"),
];

/// The support dates of a release; `None` for builds of Windows 10 and 11 alone, and for unknown builds.
pub fn support_of(build: Build) -> Option<&'static Support> {
    SUPPORT.iter().find(|support| support.build == build)
}

/// The release of that build, if its security updates have ended.
pub(crate) fn out_of_support(build: Build) -> Option<&'static Support> {
    support_of(build).filter(|support| support.end < CHECKED)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::model::windows::release::server_releases;

    fn is_date(text: &str) -> bool {
        let parts: Vec<u32> = text.split('-').map(|part| part.parse().unwrap()).collect();
        matches!(parts.as_slice(), [2016..=2099, 1..=12, 1..=31]) && text.len() == 10
    }

    #[test]
    fn every_server_release_has_dates() {
        assert!(SUPPORT.is_sorted_by(|a, b| a.build < b.build));
        for support in SUPPORT {
            assert!([support.mainstream, support.end].into_iter().all(is_date), "{support:?}");
            assert!(support.mainstream <= support.end, "{support:?}");
        }
        assert!(is_date(CHECKED));
        let dated: Vec<Build> = SUPPORT.iter().map(|support| support.build).collect();
        assert_eq!(server_releases().map(|release| release.build).collect::<Vec<_>>(), dated);
    }

    #[test]
    fn what_has_ended() {
        let ended: Vec<&str> = SUPPORT.iter().filter_map(|s| out_of_support(s.build)).map(|s| s.name).collect();
        assert_eq!(ended, ["1709", "1803", "1903", "1909", "2004", "20H2", "23h2"]);
        for unknown in [19044, 22631, 29000] {
            assert_eq!(out_of_support(Build::new(unknown)), None);
        }
    }
}
