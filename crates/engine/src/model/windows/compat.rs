//! Compatibility: which host build runs which image build under process isolation.
//!
//! Below 20348, builds must be equal. From 20348 on, an image runs on hosts of its own build and newer ones, down to a
//! lowest image build. That build has changed twice, so it is data per [`Generation`]. The generations differ only for
//! hosts newer than the last known LTSC.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::windows::build::Build;
use crate::model::windows::release::{ExtraRelease, is_image_build, known_host_builds, release_name};

/// LTSC builds with a stable ABI, ascending: the possible lowest image builds.
pub(crate) const LTSC: &[Build] = &[Build::new(20348), Build::new(26100)];

/// The first host build that runs images of other builds. Microsoft's promise starts with Windows Server 2022
/// (MicrosoftDocs/Virtualization-Documentation `deploy-containers/portability.md`).
pub const STABLE_ABI_FROM: Build = Build::new(20348);

/// The rule that a container runtime enforces when it picks an image for its host, by the version of
/// containerd/platforms in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Generation {
    /// platforms v0.2.1 to v1.0.0-rc.1: the lowest image build is always 20348.
    R1,
    /// platforms v1.0.0-rc.2 to rc.4: the lowest image build is the largest LTSC below the host. Hosts 26200 and newer
    /// reject ltsc2022.
    R2,
    /// platforms v1.0.0-rc.5 and newer: the lowest image build is the LTSC before the host's own or last LTSC.
    #[default]
    R3,
}

impl Generation {
    /// Every generation, oldest first.
    pub const ALL: [Self; 3] = [Self::R1, Self::R2, Self::R3];

    /// `R1`, `R2` or `R3`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::R1 => "R1",
            Self::R2 => "R2",
            Self::R3 => "R3",
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Generation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|generation| generation.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| "not a rule generation; write R1, R2 or R3".to_owned())
    }
}

/// The oldest image build that `host` runs besides its own; `None` if it runs only its own.
pub fn floor(host: Build, generation: Generation, extra: &[ExtraRelease]) -> Option<Build> {
    if host < STABLE_ABI_FROM {
        return None;
    }
    let at_most = LTSC.partition_point(|&ltsc| ltsc <= host);
    let below = LTSC.partition_point(|&ltsc| ltsc < host);
    let stated = extra.iter().filter(|release| release.build <= host).max_by_key(|release| release.build);
    if let Some(stated) = stated
        && LTSC.get(at_most.wrapping_sub(1)).is_none_or(|&ltsc| stated.build >= ltsc)
    {
        return Some(stated.runs_from);
    }
    let step = match generation {
        Generation::R1 => 0,
        Generation::R2 => below.saturating_sub(1),
        Generation::R3 => at_most.saturating_sub(2),
    };
    LTSC.get(step).copied()
}

/// Whether a host of build `host` runs an image of build `image` without a virtual machine around it.
///
/// Revisions do not count from 17763 on. `extra` is the policy's list of releases newer than this table.
pub fn runs(host: Build, image: Build, generation: Generation, extra: &[ExtraRelease]) -> bool {
    host == image || (image < host && floor(host, generation, extra).is_some_and(|floor| floor <= image))
}

/// Whether `host` runs an image that exists for the builds `images`; true if that is empty, because an unknown build
/// does not constrain.
pub(crate) fn runs_any(host: Build, images: &[Build], generation: Generation, extra: &[ExtraRelease]) -> bool {
    images.is_empty() || images.iter().any(|&image| runs(host, image, generation, extra))
}

/// The compatibility table of one generation, for `mullion compat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompatTable {
    /// The rule that the rows follow.
    pub generation: Generation,
    /// Image builds, ascending: the columns.
    pub images: Vec<Build>,
    /// One row per host build, ascending.
    pub rows: Vec<CompatRow>,
}

/// The builds that one host runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompatRow {
    /// Build of the host.
    pub host: Build,
    /// Its release name, or `build-<B>` if it does not have one.
    pub name: String,
    /// Builds of the columns that it runs, ascending.
    pub runs: Vec<Build>,
}

/// Every known host compared with every build with base images, including those of `extra`.
pub fn table(generation: Generation, extra: &[ExtraRelease]) -> CompatTable {
    let mut hosts: Vec<Build> = known_host_builds().chain(extra.iter().map(|release| release.build)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let stated = |build: Build| extra.iter().any(|release| release.build == build);
    let images: Vec<Build> = hosts.iter().copied().filter(|&build| is_image_build(build) || stated(build)).collect();
    let row = |host: Build| CompatRow {
        host,
        name: release_name(host, extra).into_owned(),
        runs: images.iter().copied().filter(|&image| runs(host, image, generation, extra)).collect(),
    };
    let rows = hosts.iter().copied().map(row).collect();
    CompatTable { generation, images, rows }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn b(number: u32) -> Build {
        Build::new(number)
    }

    /// Microsoft's matrix and the code of the three generations: host, then one cell per column. `+` runs, `-` does not
    /// run, `2` runs in all generations but R2.
    const IMAGES: [u32; 10] = [14393, 16299, 17763, 18362, 19042, 20348, 22621, 25398, 26100, 28000];
    const TRUTH: &[(u32, &str)] = &[
        (14393, "+---------"),
        (16299, "-+--------"),
        (17763, "--+-------"),
        (18362, "---+------"),
        (19042, "----+-----"),
        (19045, "----------"),
        (20348, "-----+----"),
        (22000, "-----+----"),
        (22621, "-----++---"),
        (22631, "-----++---"),
        (25398, "-----+++--"),
        (26100, "-----++++-"),
        (26200, "-----222+-"),
        (26300, "-----222+-"),
        (28000, "-----222++"),
    ];

    #[test]
    fn truth_table() {
        for &(host, cells) in TRUTH {
            assert_eq!(cells.len(), IMAGES.len());
            for (image, cell) in IMAGES.into_iter().zip(cells.chars()) {
                for generation in Generation::ALL {
                    let expected = match cell {
                        '+' => true,
                        '2' => generation != Generation::R2,
                        _ => false,
                    };
                    assert_eq!(
                        runs(b(host), b(image), generation, &[]),
                        expected,
                        "{host} runs {image} by {generation}"
                    );
                }
            }
        }
    }

    #[test]
    fn upstream_vectors() {
        // The unit tests of microsoft/hcsshim `osversion` and containerd/platforms.
        let vectors = [
            (17763, 17763, true),
            (17763, 20348, false),
            (20348, 17763, false),
            (20348, 20348, true),
            (22621, 17763, false),
            (22621, 20348, true),
            (25398, 17763, false),
            (25398, 20348, true),
            (26100, 20348, true),
            (20348, 26100, false),
            (20348, 22621, false),
            (26100, 22621, true),
        ];
        for (host, image, expected) in vectors {
            for generation in Generation::ALL {
                assert_eq!(runs(b(host), b(image), generation, &[]), expected, "{host} runs {image} by {generation}");
            }
        }
        let newest = Generation::ALL.map(|generation| runs(b(26200), b(20348), generation, &[]));
        assert_eq!(newest, [true, false, true]);
    }

    #[test]
    fn accepting_hosts() {
        let hosts = |image: u32, generation| -> Vec<u32> {
            known_host_builds().filter(|&host| runs(host, b(image), generation, &[])).map(Build::number).collect()
        };
        assert_eq!(hosts(17763, Generation::R3), [17763]);
        assert_eq!(hosts(19042, Generation::R3), [19042]);
        assert_eq!(hosts(20348, Generation::R3), [20348, 22000, 22621, 22631, 25398, 26100, 26200, 26300, 28000]);
        assert_eq!(hosts(20348, Generation::R2), [20348, 22000, 22621, 22631, 25398, 26100]);
        assert_eq!(hosts(26100, Generation::R2), [26100, 26200, 26300, 28000]);
        let several = [b(17763), b(20348)];
        let hosts = [b(14393), b(17763), b(20348)];
        let found = hosts.map(|host| runs_any(host, &several, Generation::R3, &[]));
        assert_eq!(found, [false, true, true], "an index runs where one of its entries does");
        assert!(runs_any(b(5), &[], Generation::R3, &[]), "an unknown build does not constrain");
    }

    #[test]
    fn a_stated_release_moves_the_floor() {
        let extra = [ExtraRelease { build: b(29000), name: "ltsc2028".into(), runs_from: b(26100) }];
        for generation in Generation::ALL {
            for (host, image, expected) in [
                (29000, 29000, true),
                (29000, 26100, true),
                (29000, 25398, false),
                (29000, 20348, false),
                (29500, 26100, true),
                (29500, 20348, false),
                (26100, 20348, true),
                (26100, 29000, false),
            ] {
                assert_eq!(
                    runs(b(host), b(image), generation, &extra),
                    expected,
                    "{host} runs {image} by {generation}"
                );
            }
        }
        // An extra release with a build older than a known LTSC does not apply to hosts from that LTSC on.
        let old = [ExtraRelease { build: b(24000), name: "x".into(), runs_from: b(24000) }];
        assert!(!runs(b(25398), b(20348), Generation::R3, &old));
        assert!(runs(b(26100), b(20348), Generation::R3, &old));
        // With a wrong extra release, a host still runs its own build.
        let nonsense = [ExtraRelease { build: b(29000), name: "x".into(), runs_from: b(u32::MAX) }];
        assert!(runs(b(29000), b(29000), Generation::R3, &nonsense));
    }

    #[test]
    fn the_printed_table_agrees() {
        let table = table(Generation::R2, &[]);
        assert_eq!(table.rows.len(), 21);
        let row = table.rows.iter().find(|row| row.host == b(26200)).unwrap();
        assert_eq!((row.name.as_str(), row.runs.as_slice()), ("build-26200", &[b(26100)][..]));
        let json = serde_json::to_value(&table).unwrap();
        assert_eq!(json["generation"], "R2");
        assert_eq!(json["images"][0], "10.0.14393");
    }

    #[test]
    fn generations_are_read() {
        assert_eq!("r2".parse(), Ok(Generation::R2));
        assert!("R4".parse::<Generation>().is_err());
        assert_eq!(Generation::default(), Generation::R3);
    }

    fn any_generation() -> impl Strategy<Value = Generation> {
        (0..3usize).prop_map(|index| Generation::ALL[index])
    }

    fn any_extra() -> impl Strategy<Value = Vec<ExtraRelease>> {
        let one = (0..40_000u32, 0..40_000u32).prop_map(|(build, from)| ExtraRelease {
            build: b(build),
            name: format!("x{build}"),
            runs_from: b(from),
        });
        proptest::collection::vec(one, 0..3)
    }

    proptest! {
        #[test]
        fn its_own_build_always_runs(host: u32, generation in any_generation(), extra in any_extra()) {
            prop_assert!(runs(b(host), b(host), generation, &extra));
        }

        #[test]
        fn a_newer_image_never_runs(host in 0..u32::MAX, above in 1..u32::MAX, generation in any_generation(), extra in any_extra()) {
            prop_assert!(!runs(b(host), b(host.saturating_add(above)), generation, &extra));
        }

        #[test]
        fn before_the_stable_abi_only_equals(host in 0..20_348u32, image: u32, generation in any_generation(), extra in any_extra()) {
            prop_assert_eq!(runs(b(host), b(image), generation, &extra), host == image);
        }

        #[test]
        fn an_old_image_never_runs_on_a_newer_host(host in 20_348u32.., image in 0..20_348u32, generation in any_generation()) {
            prop_assert!(!runs(b(host), b(image), generation, &[]));
        }

        #[test]
        fn one_rule_up_to_the_last_ltsc(host in 0..=26_100u32, image in 0..=26_100u32) {
            let answers = Generation::ALL.map(|generation| runs(b(host), b(image), generation, &[]));
            prop_assert_eq!(answers, [answers[0]; 3]);
        }
    }
}
