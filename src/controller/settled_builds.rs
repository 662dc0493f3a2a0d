//! Builds of Windows nodes that count for RuntimeClasses and for the stored history.
//!
//! A kubelet reports its kernel version itself. One that reports another version every minute must not create
//! RuntimeClasses, or fill the stored history. Therefore an unknown build counts only after nodes have had it for some
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use mullion_engine::model::settings::NodeSettings;
use mullion_engine::model::windows::{Build, known_host_builds};
use tokio::time::Instant;

/// How long an unknown build must be on a node without interruption.
const SETTLING: Duration = Duration::from_secs(600);

/// The builds that nodes currently have, and since when.
#[derive(Debug, Default)]
pub(crate) struct SettledBuilds(BTreeMap<Build, Instant>);

/// Whether the release table or the policy contains the build.
pub(crate) fn is_known(build: Build, policy: &NodeSettings) -> bool {
    known_host_builds().any(|known| known == build)
        || policy.releases.iter().any(|release| release.build == build)
        || policy.expected_pools.iter().any(|pool| pool.build == build)
}

impl SettledBuilds {
    /// Records the builds that nodes currently have.
    pub(crate) fn update(&mut self, present: impl IntoIterator<Item = Build>, now: Instant) {
        let before = std::mem::take(&mut self.0);
        self.0 = present.into_iter().map(|build| (build, before.get(&build).copied().unwrap_or(now))).collect();
    }

    /// Whether the build counts: it is known, or nodes have had it for long enough.
    pub(crate) fn counts(&self, build: Build, policy: &NodeSettings, now: Instant) -> bool {
        is_known(build, policy) || self.0.get(&build).is_some_and(|since| now >= *since + SETTLING)
    }

    /// When the next unknown build will count if it stays.
    pub(crate) fn next(&self, policy: &NodeSettings, now: Instant) -> Option<Instant> {
        let open = self.0.iter().filter(|(build, _)| !self.counts(**build, policy, now));
        open.map(|(_, since)| *since + SETTLING).min()
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_build_counts_after_ten_minutes_without_a_break() {
        let (mut builds, start, policy) = (SettledBuilds::default(), Instant::now(), NodeSettings::default());
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let (odd, known) = (Build::new(29_999), Build::new(20_348));
        builds.update([odd, known], at(0));
        let counts = |builds: &SettledBuilds, minutes| builds.counts(odd, &policy, at(minutes));
        assert!(builds.counts(known, &policy, at(0)) && !counts(&builds, 9) && counts(&builds, 10));
        assert_eq!(builds.next(&policy, at(0)), Some(at(10)));
        assert_eq!(builds.next(&policy, at(10)), None);
        // The build changes for a moment.
        builds.update([known], at(9));
        builds.update([odd, known], at(9));
        assert!(!counts(&builds, 18) && counts(&builds, 19));
        assert!(builds.counts(known, &policy, at(0)), "also without a node");
        builds.update([], at(20));
        assert!(!counts(&builds, 99) && builds.0.is_empty());
    }

    #[test]
    fn policies_make_builds_known() {
        let odd = Build::new(29_000);
        let mut policy = NodeSettings::default();
        assert!(!is_known(odd, &policy));
        policy.expected_pools = vec![serde_json::from_value(json!({"build": "10.0.29000"})).unwrap()];
        assert!(is_known(odd, &policy));
        let release = json!({"build": "10.0.29000", "name": "ltsc2028", "runsFrom": "10.0.26100"});
        policy = NodeSettings { releases: vec![serde_json::from_value(release).unwrap()], ..NodeSettings::default() };
        assert!(is_known(odd, &policy));
    }

    /// However fast it changes, only its newest build is stored, and none counts.
    #[test]
    fn a_build_that_cycles_never_counts() {
        let (mut builds, start, policy) = (SettledBuilds::default(), Instant::now(), NodeSettings::default());
        for minute in 0..10_000_u32 {
            let now = start + Duration::from_secs(60 * u64::from(minute));
            let build = Build::new(30_000 + minute / 9 % 50);
            builds.update([build], now);
            assert!(!builds.counts(build, &policy, now) && builds.0.len() == 1, "{minute}");
        }
    }
}
