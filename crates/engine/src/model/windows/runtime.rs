//! Container runtimes of nodes, and the rule generation that each enforces.

use crate::model::windows::build::{Build, decimal};
use crate::model::windows::compat::Generation;

/// Up to this build every generation has the same rule, so a node's runtime does not matter.
pub(crate) const SINGLE_RULE_UP_TO: Build = Build::new(26100);

/// One containerd minor line and the generation of its patch releases.
struct Line {
    major: u32,
    minor: u32,
    /// The first patch release of each generation, ascending; a patch before the first is not listed.
    steps: &'static [(u32, Generation)],
}

/// By the version of containerd/platforms (before 2.0: microsoft/hcsshim) in each release's `go.mod`: rc.1 up to 2.1.5,
/// rc.2 from 2.1.6, rc.5 from 2.3.5 (containerd/containerd#14001). 1.6.0 to 1.6.22 and 1.7.0 to 1.7.5 require the
/// host's own build (containerd/containerd#8854, #9069; the former is in the notes of 1.6.23); they are listed as R1,
/// because they do not run on hosts new enough for this table.
const CONTAINERD: &[Line] = &[
    Line { major: 1, minor: 6, steps: &[(0, Generation::R1)] },
    Line { major: 1, minor: 7, steps: &[(0, Generation::R1)] },
    Line { major: 2, minor: 0, steps: &[(0, Generation::R1)] },
    Line { major: 2, minor: 1, steps: &[(0, Generation::R1), (6, Generation::R2)] },
    Line { major: 2, minor: 2, steps: &[(0, Generation::R2)] },
    Line { major: 2, minor: 3, steps: &[(0, Generation::R2), (5, Generation::R3)] },
];

/// The generation of a node's `status.nodeInfo.containerRuntimeVersion`, such as `containerd://2.0.4+azure` or
/// `containerd://1.7.11-k3s2`. Anything unknown, including other runtimes, is the default, R3.
pub(crate) fn generation_of(container_runtime_version: &str) -> Generation {
    containerd_version(container_runtime_version)
        .and_then(|(major, minor, patch)| {
            let line = CONTAINERD.iter().find(|line| line.major == major && line.minor == minor)?;
            line.steps.iter().rev().find(|&&(first, _)| first <= patch).map(|&(_, generation)| generation)
        })
        .unwrap_or_default()
}

/// The generation for a host: the default if all agree, else that of its runtime.
pub fn generation_for(host: Build, container_runtime_version: &str) -> Generation {
    if host <= SINGLE_RULE_UP_TO { Generation::default() } else { generation_of(container_runtime_version) }
}

/// Major, minor and patch. Suffixes of vendors and pre-releases do not count.
fn containerd_version(text: &str) -> Option<(u32, u32, u32)> {
    let version = text.strip_prefix("containerd://")?;
    let version = version.strip_prefix('v').unwrap_or(version);
    let end = version.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(version.len());
    let mut parts = version.get(..end)?.split('.');
    let mut next = || decimal(parts.next()?);
    Some((next()?, next()?, next()?))
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions() {
        use Generation::{R1, R2, R3};
        let cases = [
            ("containerd://1.6.6+azure", R1),
            ("containerd://1.6.35+azure", R1),
            ("containerd://1.7.17+azure", R1),
            ("containerd://1.7.20", R1),
            ("containerd://1.7.11-k3s2", R1),
            ("containerd://v1.7.27-k3s1", R1),
            ("containerd://2.0.4+azure", R1),
            ("containerd://2.1.0", R1),
            ("containerd://2.1.1", R1),
            ("containerd://2.1.5", R1),
            ("containerd://2.1.6", R2),
            ("containerd://2.1.6-k3s1.32", R2),
            ("containerd://2.2.0", R2),
            ("containerd://2.2.9~ds1", R2),
            ("containerd://2.3.0-rc.1", R2),
            ("containerd://2.3.4", R2),
            ("containerd://2.3.5", R3),
            ("containerd://2.4.0", R3),
            ("containerd://3.0.0", R3),
            ("containerd://1.4.4+unknown", R3),
            ("containerd://2.1", R3),
            ("containerd://Unknown", R3),
            ("containerd://", R3),
            ("docker://20.10.9", R3),
            ("mirantis://25.0.5", R3),
            ("2.1.6", R3),
            ("", R3),
        ];
        for (version, generation) in cases {
            assert_eq!(generation_of(version), generation, "{version}");
        }
    }

    #[test]
    fn only_hosts_past_the_last_ltsc_need_a_runtime() {
        assert_eq!(generation_for(Build::new(26100), "containerd://2.2.0"), Generation::R3);
        assert_eq!(generation_for(Build::new(26200), "containerd://2.2.0"), Generation::R2);
    }

    proptest! {
        #[test]
        fn any_text_has_a_result(text in ".*", rest in "[0-9.]*.*") {
            prop_assert_eq!(generation_of(&text), Generation::R3);
            let _: Generation = generation_of(&format!("containerd://{rest}"));
        }
    }
}
