//! When something is tried again, and what is too old to count.

use std::time::Duration;

use crate::controller::nodes::repeats::key;

/// Waits after a failure: doubling from the first to the last.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Doubles with each failure. The same node waits the same time, different nodes do not come back all at once.
pub(crate) fn backoff(name: &str, failures: u32) -> Duration {
    let wait = BACKOFF.0.saturating_mul(1_u32 << failures.min(16)).min(BACKOFF.1);
    let share = u32::try_from(key(&(name, failures)) % 256).unwrap_or(0);
    wait + wait * share / 512
}

/// Whether the first resourceVersion is of an older object. They are numbers that grow (KEP-5504); of what is none,
/// nothing is known.
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    number(version).zip(number(than)).is_some_and(|(version, than)| version < than)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn waits_grow_and_end() {
        let waits: Vec<Duration> = (0..40).map(|failures| backoff("node", failures)).collect();
        assert!(waits.iter().all(|wait| *wait >= BACKOFF.0 && *wait <= BACKOFF.1 * 3 / 2), "{waits:?}");
        assert!(waits.first() < waits.get(3) && waits.get(3) < waits.last(), "{waits:?}");
    }

    #[test]
    fn versions_are_numbers_or_nothing_is_known() {
        assert!(is_older("9", "10") && !is_older("10", "9") && !is_older("9", "9"));
        assert!(!is_older("a", "10") && !is_older("1", ""));
    }
}
