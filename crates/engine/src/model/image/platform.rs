//! Platforms of an image, as its registry reports them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::operating_system::Os;
use crate::model::windows::{Build, Generation, runs};

/// Operating systems that an image is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageOs {
    /// Windows only.
    Windows,
    /// Linux only.
    Linux,
    /// Both: an index with entries for each. It decides nothing.
    Multi,
    /// The operating system is unknown.
    Unknown,
}

impl From<Os> for ImageOs {
    fn from(os: Os) -> Self {
        match os {
            Os::Windows => Self::Windows,
            Os::Linux => Self::Linux,
        }
    }
}

/// One manifest that can be pulled under a reference: an entry of an index, or the only manifest. Attestations do not
/// count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Platform {
    /// `platform.os` of the entry, else `os` of the config: `windows`, `linux`, in any letter case.
    pub os: String,
    /// `amd64`, `arm64`, …; empty if not set.
    pub architecture: String,
    /// `os.version` as written: `10.0.20348.2655`; absent, empty and malformed ones occur in published images.
    pub os_version: Option<String>,
    /// `os.features`: `win32k`.
    pub os_features: Vec<String>,
}

/// The manifests that can be pulled under one reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Platforms {
    /// In the order of the index.
    pub entries: Vec<Platform>,
    /// Whether it is an index: the node chooses from the entries. A single manifest is pulled on any node.
    pub index: bool,
}

/// Platforms of images, by the reference as pods write it.
pub type KnownImages = BTreeMap<String, Arc<Platforms>>;

/// The effect of the `os.version` of a Windows entry on a node (containerd/platforms: `platforms_windows.go`,
/// `windowsVersionMatcher.Match`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OsVersion {
    /// The entry is for this build.
    Build(Build),
    /// The entry has no version: nodes of every build take it, and those that cannot run it fail at the start.
    Missing,
    /// It is not a version of Windows 10 or later: no node takes the entry.
    Malformed,
}

/// Spellings of amd64 (containerd/platforms: `database.go`, `normalizeArch`); the only architecture of Windows nodes
/// (kubernetes.io/releases/download lists no other Windows binaries of the node components).
const AMD64: [&str; 3] = ["amd64", "x86_64", "x86-64"];

impl Platform {
    /// Whether it is for that operating system, in any letter case, as runtimes compare it.
    pub fn is_os(&self, os: &str) -> bool {
        self.os.eq_ignore_ascii_case(os)
    }

    /// How a node reads its `os.version`: only the first three numbers count.
    pub fn version(&self) -> OsVersion {
        let Some(text) = self.os_version.as_deref().filter(|text| !text.is_empty()) else { return OsVersion::Missing };
        let end = text.match_indices('.').nth(2).map_or(text.len(), |(at, _)| at);
        let build = text.get(..end).and_then(Build::from_os_version);
        build.map_or(OsVersion::Malformed, |(build, _)| OsVersion::Build(build))
    }

    /// Whether it is for the architecture of Windows nodes.
    fn is_for_windows_nodes(&self) -> bool {
        let amd64 =
            self.architecture.is_empty() || AMD64.iter().any(|name| self.architecture.eq_ignore_ascii_case(name));
        amd64 && self.is_os("windows")
    }
}

impl Platforms {
    /// The operating systems of the entries. An image for neither Windows nor Linux, or an artifact that is not an
    /// image, is unknown.
    pub fn os(&self) -> ImageOs {
        let has = |os| self.entries.iter().any(|entry| entry.is_os(os));
        match (has("windows"), has("linux")) {
            (true, true) => ImageOs::Multi,
            (true, false) => ImageOs::Windows,
            (false, true) => ImageOs::Linux,
            (false, false) => ImageOs::Unknown,
        }
    }

    /// The entries that Windows nodes choose from.
    pub fn windows(&self) -> impl Iterator<Item = &Platform> {
        self.entries.iter().filter(|entry| entry.is_for_windows_nodes())
    }

    /// The entry that a Windows node of that build takes: of the entries that it accepts, the one with the largest
    /// `os.version`, compared as text (containerd/platforms: `platform_windows_compat.go`,
    /// `windowsMatchComparer.Less`); of equal ones, the first. `None` if it accepts none, and the pull fails.
    pub fn entry_for(&self, host: Build) -> Option<usize> {
        if !self.index {
            return (!self.entries.is_empty()).then_some(0);
        }
        let mut chosen: Option<(usize, &str)> = None;
        for (at, entry) in self.entries.iter().enumerate() {
            let accepted = match entry.version() {
                OsVersion::Build(build) => runs(host, build, Generation::default(), &[]),
                OsVersion::Missing => true,
                OsVersion::Malformed => false,
            };
            let version = entry.os_version.as_deref().unwrap_or_default();
            if accepted && entry.is_for_windows_nodes() && chosen.is_none_or(|(_, best)| version > best) {
                chosen = Some((at, version));
            }
        }
        chosen.map(|(at, _)| at)
    }

    /// Windows builds, each once, in the order of the index; empty if unknown. One entry without `os.version` makes
    /// them unknown: nodes without an entry of their own take that one, and it is not known whether it runs there.
    pub fn builds(&self) -> Vec<Build> {
        let mut builds = Vec::new();
        for entry in self.windows() {
            match entry.version() {
                OsVersion::Build(build) if !builds.contains(&build) => builds.push(build),
                OsVersion::Build(_) | OsVersion::Malformed => {}
                OsVersion::Missing => return Vec::new(),
            }
        }
        builds
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    /// Entries as `os/architecture/os.version`; the version may be absent.
    fn index(entries: &[&str]) -> Platforms {
        let entry = |text: &&str| {
            let mut parts = text.splitn(3, '/');
            let mut part = || parts.next().map(str::to_owned);
            let (os, architecture) = (part().unwrap(), part().unwrap_or_default());
            Platform { os, architecture, os_version: part(), os_features: Vec::new() }
        };
        Platforms { entries: entries.iter().map(entry).collect(), index: true }
    }

    #[test]
    fn operating_system_and_builds() {
        type Row = (&'static [&'static str], ImageOs, &'static [u32]);
        let table: &[Row] = &[
            (&[], ImageOs::Unknown, &[]),
            (&["wasip1/wasm"], ImageOs::Unknown, &[]),
            (&["linux/amd64", "linux/arm64"], ImageOs::Linux, &[]),
            (&["linux/amd64", "darwin/arm64"], ImageOs::Linux, &[]),
            (&["windows/amd64/10.0.20348.2655"], ImageOs::Windows, &[20348]),
            (&["Windows/AMD64/10.0.20348"], ImageOs::Windows, &[20348]),
            (&["windows/amd64/10.0.17763.1", "windows/amd64/10.0.20348.2"], ImageOs::Windows, &[17763, 20348]),
            (&["windows/amd64/10.0.17763.1", "windows/amd64/10.0.17763.2"], ImageOs::Windows, &[17763]),
            (&["linux/amd64", "windows/amd64/10.0.26100.1"], ImageOs::Multi, &[26100]),
            // No Windows node has the architecture arm64.
            (&["windows/amd64/10.0.20348.1", "windows/arm64/10.0.26100.1"], ImageOs::Windows, &[20348]),
            (&["windows/arm64/10.0.26100.1"], ImageOs::Windows, &[]),
            // Every node takes an entry without a version, and none takes a malformed one.
            (&["windows/amd64"], ImageOs::Windows, &[]),
            (&["windows/amd64/"], ImageOs::Windows, &[]),
            (&["windows/amd64/10.0.20348.1", "windows/amd64"], ImageOs::Windows, &[]),
            (&["windows/amd64/10.0.20348.1", "windows/amd64/ltsc2019"], ImageOs::Windows, &[20348]),
            (&["windows/amd64/ltsc2022"], ImageOs::Windows, &[]),
        ];
        for (entries, os, builds) in table {
            let platforms = index(entries);
            let builds: Vec<Build> = builds.iter().copied().map(Build::new).collect();
            assert_eq!((platforms.os(), platforms.builds()), (*os, builds), "{entries:?}");
        }
    }

    #[test]
    fn nodes_choose_one_entry() {
        type Row<'a> = (&'a [&'a str], u32, Option<usize>);
        let both = ["linux/amd64", "windows/amd64/10.0.20348.4294", "windows/amd64/10.0.26100.6899"];
        let with_bare = ["windows/amd64", "windows/amd64/10.0.20348.2"];
        let twice = ["windows/amd64/10.0.20348.2", "windows/amd64/10.0.20348.2"];
        let table: &[Row<'_>] = &[
            (&both, 26100, Some(2)),
            (&both, 20348, Some(1)),
            (&both, 17763, None),
            (&both[..2], 26100, Some(1)),
            (&["windows/amd64/10.0.17763.1"], 26100, None),
            (&with_bare, 20348, Some(1)),
            (&with_bare, 17763, Some(0)),
            (&twice, 20348, Some(0)),
            // containerd compares the versions as text: "9" is greater than "10".
            (&["windows/amd64/10.0.20348.10", "windows/amd64/10.0.20348.9"], 20348, Some(1)),
            (&["windows/arm64/10.0.26100.1", "windows/amd64/ltsc2025"], 26100, None),
            (&[], 26100, None),
        ];
        for (entries, host, expected) in table {
            assert_eq!(index(entries).entry_for(Build::new(*host)), *expected, "{entries:?} on {host}");
        }
        let single = Platforms { index: false, ..index(&["windows/amd64/10.0.17763.1"]) };
        assert_eq!(single.entry_for(Build::new(26100)), Some(0), "a single manifest is pulled everywhere");
        assert_eq!(Platforms::default().entry_for(Build::new(26100)), None);
    }

    #[test]
    fn versions() {
        let build = |number| OsVersion::Build(Build::new(number));
        let table = [
            ("10.0.20348.2655", build(20348)),
            ("10.0.20348", build(20348)),
            ("10.0.20348.", build(20348)),
            ("10.0.20348.x.y", build(20348)),
            ("", OsVersion::Missing),
            ("10.0", OsVersion::Malformed),
            ("10.0.", OsVersion::Malformed),
            ("6.3.9600.1", OsVersion::Malformed),
            ("20348", OsVersion::Malformed),
            (" 10.0.20348", OsVersion::Malformed),
            ("10.0.99999999999.1", OsVersion::Malformed),
        ];
        for (text, expected) in table {
            let entry = Platform { os_version: Some(text.to_owned()), ..Platform::default() };
            assert_eq!(entry.version(), expected, "{text:?}");
        }
        assert_eq!(Platform::default().version(), OsVersion::Missing);
    }

    proptest! {
        #[test]
        fn any_registry_report_is_read(entries in prop::collection::vec((".{0,9}", ".{0,9}", prop::option::of(".{0,24}")), 0..6)) {
            let entries = entries
                .into_iter()
                .map(|(os, architecture, os_version)| Platform { os, architecture, os_version, os_features: Vec::new() });
            let platforms = Platforms { entries: entries.collect(), index: true };
            prop_assert!(platforms.builds().is_empty() || platforms.os() != ImageOs::Linux);
        }
    }
}
