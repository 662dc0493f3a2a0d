//! Support dates: until when a release gets security updates.

use jiff::civil::{Date, date};

use crate::model::windows::build::Build;

/// When the dates of [`SUPPORT`] were last compared with their sources. Only support that ended by then counts as
/// ended: the engine has no clock, and the same version of Mullion must return the same result for the same pod, in CI
/// next year as in the cluster today.
pub(crate) const CHECKED: Date = date(2026, 11, 20);

/// One server release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// Its build.
    pub build: Build,
    /// Its usual name: `20H2`, `ltsc2019`.
    pub name: &'static str,
    /// The last day of security updates without extra payment: the end of extended support if the release has it.
    pub end: Date,
}

const fn support(build: u32, name: &'static str, end: Date) -> Support {
    Support { build: Build::new(build), name, end }
}

/// By build. Microsoft's own dates for base images: MicrosoftDocs/Virtualization-Documentation
/// `deploy-containers/base-image-lifecycle.md` (its Semi-Annual rows until 2025-06-12); endoflife-date/endoflife.date
/// `products/windows-server-core.md` has the same. 23H2 has no base image: `products/windows-server.md`. The page of the server product has 2029-11-13 and
/// 2034-11-14 for 2025.
///
/// The dates of clouds are not included, because they only concern which nodes a cloud still offers. They are on the
/// rule's page.
pub(crate) static SUPPORT: &[Support] = &[
    support(14393, "ltsc2016", date(2027, 1, 11)),
    support(16299, "1709", date(2019, 4, 9)),
    support(17134, "1803", date(2019, 11, 12)),
    // 1809 of the Semi-Annual Channel ended on 2020-11-10; its images are those of 2019, which are still built.
    support(17763, "ltsc2019", date(2029, 1, 9)),
    support(18362, "1903", date(2020, 12, 8)),
    support(18363, "1909", date(2021, 5, 11)),
    support(19041, "2004", date(2021, 12, 14)),
    support(19042, "20H2", date(2022, 8, 9)),
    support(20348, "ltsc2022", date(2031, 10, 14)),
    support(25398, "23h2", date(2026, 5, 12)),
    support(26100, "ltsc2025", date(2034, 10, 10)),
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

    use super::*;
    use crate::model::windows::release::server_releases;

    #[test]
    fn every_server_release_has_dates() {
        assert!(SUPPORT.is_sorted_by(|a, b| a.build < b.build));
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
