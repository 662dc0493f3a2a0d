//! Windows releases: builds, their names, and which of them can be a node.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::model::windows::build::Build;
use crate::policy_object;

/// How Microsoft services a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Long-Term Servicing Channel: a server release every two to three years.
    Ltsc,
    /// Semi-Annual Channel: server releases 1709 to 20H2, all out of service.
    Sac,
    /// Annual Channel: container hosts only, no base image of its own.
    Annual,
    /// Windows 10 and 11: nodes of development clusters.
    Client,
}

/// One product with its build. Several products may share a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Build of the host and, if `base_image`, of the base images.
    pub build: Build,
    /// Name in labels and `RuntimeClasses`; `None`: `build-<B>`.
    pub name: Option<&'static str>,
    /// Usual name of the product.
    pub product: &'static str,
    /// Servicing channel.
    pub channel: Channel,
    /// Microsoft published container base images of this build.
    pub base_image: bool,
    /// First Kubernetes minor that supported it as a node; `None` if it was never generally available.
    pub kubernetes: Option<&'static str>,
}

impl Release {
    /// A Windows Server product, not a Windows 10 or 11.
    pub const fn is_server(&self) -> bool {
        !matches!(self.channel, Channel::Client)
    }
}

const fn server(
    build: u32,
    name: Option<&'static str>,
    product: &'static str,
    channel: Channel,
    kubernetes: Option<&'static str>,
) -> Release {
    // 23H2 (25398) is the only server release without base images; it runs those of ltsc2022.
    let base_image = !matches!(channel, Channel::Annual);
    Release { build: Build::new(build), name, product, channel, base_image, kubernetes }
}

const fn client(build: u32, product: &'static str) -> Release {
    Release {
        build: Build::new(build),
        name: None,
        product,
        channel: Channel::Client,
        base_image: false,
        kubernetes: None,
    }
}

/// Every release, ordered by build; if two have the same build, the server comes first.
///
/// Sources. Servers: MicrosoftDocs/Virtualization-Documentation `deploy-containers/base-image-lifecycle.md` (its Semi-Annual rows until
/// 2025-06-12) and endoflife-date/endoflife.date `products/windows-server.md`. First Kubernetes minors: the release notes and
/// kubernetes/kubernetes `build/pause/CHANGELOG.md`. Clients: endoflife.date `products/windows.md`, microsoft/hcsshim
/// `osversion/windowsbuilds.go`, Siemens-Healthineers/K2s `docs/op-manual/os-support.md`.
/// Only names that a label can hold without being taken for a number or a year are names: no `2004`, no `1909`.
#[rustfmt::skip]
pub static RELEASES: &[Release] = &[
    server(14393, None, "Windows Server 2016", Channel::Ltsc, None), // alpha and beta only, before 1.14
    client(14393, "Windows 10 1607"),
    client(15063, "Windows 10 1703"),
    server(16299, None, "Windows Server 1709", Channel::Sac, None), // beta only
    client(16299, "Windows 10 1709"),
    server(17134, None, "Windows Server 1803", Channel::Sac, None), // beta only
    client(17134, "Windows 10 1803"),
    server(17763, Some("ltsc2019"), "Windows Server 2019", Channel::Ltsc, Some("1.14")),
    client(17763, "Windows 10 1809"),
    server(18362, None, "Windows Server 1903", Channel::Sac, Some("1.15")),
    client(18362, "Windows 10 1903"),
    server(18363, None, "Windows Server 1909", Channel::Sac, Some("1.18")),
    client(18363, "Windows 10 1909"),
    server(19041, None, "Windows Server 2004", Channel::Sac, Some("1.19")),
    client(19041, "Windows 10 2004"),
    server(19042, None, "Windows Server 20H2", Channel::Sac, Some("1.21")),
    client(19042, "Windows 10 20H2"),
    client(19043, "Windows 10 21H1"),
    client(19044, "Windows 10 21H2"),
    client(19045, "Windows 10 22H2"),
    server(20348, Some("ltsc2022"), "Windows Server 2022", Channel::Ltsc, Some("1.23")),
    client(22000, "Windows 11 21H2"),
    client(22621, "Windows 11 22H2"),
    client(22631, "Windows 11 23H2"),
    server(25398, Some("23h2"), "Windows Server 23H2", Channel::Annual, Some("1.28")),
    server(26100, Some("ltsc2025"), "Windows Server 2025", Channel::Ltsc, Some("1.32")), // AKS from 1.32; upstream documents it since 2025-12
    client(26100, "Windows 11 24H2"),
    client(26200, "Windows 11 25H2"),
    // 26H2 has a lower number than 26H1: builds are not ordered by date.
    client(26300, "Windows 11 26H2"),
    client(28000, "Windows 11 26H1"),
];

/// The most likely release of a host with this build: the server, if a server and a client share the build.
pub(crate) fn release(build: Build) -> Option<&'static Release> {
    RELEASES.iter().find(|release| release.build == build)
}

/// `ltsc2019`, `ltsc2022`, `23h2`, `ltsc2025`, the name in `extra`, else `build-<B>`: the value of `mullion.dev/windows-release`
/// and the end of the names of `RuntimeClasses`.
pub fn release_name(build: Build, extra: &[ExtraRelease]) -> Cow<'static, str> {
    if let Some(name) = release(build).and_then(|release| release.name) {
        return Cow::Borrowed(name);
    }
    match extra.iter().find(|release| release.build == build) {
        Some(release) => Cow::Owned(release.name.clone()),
        None => Cow::Owned(format!("build-{}", build.number())),
    }
}

/// Windows Server releases, by build.
pub(crate) fn server_releases() -> impl Iterator<Item = &'static Release> {
    RELEASES.iter().filter(|release| release.is_server())
}

/// Builds a node can have, servers and clients, ascending, each once.
pub fn known_host_builds() -> impl Iterator<Item = Build> {
    let mut last = None;
    RELEASES.iter().map(|release| release.build).filter(move |&build| last.replace(build) != Some(build))
}

/// Whether Microsoft published base images of this build.
pub(crate) fn is_image_build(build: Build) -> bool {
    RELEASES.iter().any(|release| release.build == build && release.base_image)
}

policy_object! {
    /// A release newer than this table, as `releases` of a NodePolicy specifies it.
    ///
    /// It applies to hosts from `build` up to the next specified or known LTSC, in every generation.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ExtraRelease: Release {
        /// Build of the release's hosts and images.
        #[key("build", required: true, example: Some("10.0.29000"))]
        pub build: Build,
        /// Name of the release: the value of `mullion.dev/windows-release`, and the end of `mullion-windows-<name>`.
        #[key("name": Text(ShortName), required: true, example: Some("ltsc2028"))]
        pub name: String,
        /// Oldest image build that its hosts run; not newer than `build`.
        #[key("runsFrom", required: true, example: Some("10.0.26100"))]
        pub runs_from: Build,
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;

    #[test]
    fn the_table_is_ordered_and_the_server_leads() {
        for pair in RELEASES.windows(2) {
            assert!(pair[0].build <= pair[1].build, "{pair:?}");
            if pair[0].build == pair[1].build {
                assert!(pair[0].is_server() && !pair[1].is_server(), "{pair:?}");
            }
        }
        let builds: Vec<_> = known_host_builds().collect();
        assert!(builds.is_sorted_by(|a, b| a < b), "{builds:?}");
        assert_eq!(server_releases().count(), 11);
    }

    #[test]
    fn names() {
        let cases = [
            (14393, "build-14393"),
            (17763, "ltsc2019"),
            (19042, "build-19042"),
            (20348, "ltsc2022"),
            (22631, "build-22631"),
            (25398, "23h2"),
            (26100, "ltsc2025"),
            (26200, "build-26200"),
            (29000, "build-29000"),
        ];
        for (build, name) in cases {
            assert_eq!(release_name(Build::new(build), &[]), name);
        }
    }

    #[test]
    fn a_newer_release_is_named_by_policy() {
        let extra = [ExtraRelease { build: Build::new(29000), name: "ltsc2028".into(), runs_from: Build::new(26100) }];
        assert_eq!(release_name(Build::new(29000), &extra), "ltsc2028");
        assert_eq!(release_name(Build::new(29001), &extra), "build-29001");
    }

    #[test]
    fn base_images() {
        for build in [14393, 16299, 17134, 17763, 18362, 18363, 19041, 19042, 20348, 26100] {
            assert!(is_image_build(Build::new(build)), "{build}");
        }
        for build in [15063, 19043, 19044, 19045, 22000, 22621, 22631, 25398, 26200, 26300, 28000] {
            assert!(!is_image_build(Build::new(build)), "{build}");
        }
    }
}
