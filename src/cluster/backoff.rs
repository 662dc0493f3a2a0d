//! Delays between attempts. Each caller sets its first and its longest delay, and whether it adds jitter.

use std::time::Duration;

/// Delays that double with each failure in a row, from the first to the longest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The delay after a failure that follows `earlier` other failures in a row.
    pub(crate) fn delay(self, earlier: u32) -> Duration {
        self.first.saturating_mul(1 << earlier.min(16)).min(self.longest)
    }

    /// The delay plus up to half of it, always the same for one `key`, so that attempts that failed together are not
    /// repeated together.
    pub(crate) fn jittered(self, earlier: u32, key: u64) -> Duration {
        let delay = self.delay(earlier);
        delay + delay * u32::try_from(key % 256).unwrap_or(0) / 512
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
        let seconds: Vec<u64> = [0, 1, 2, 8, 9, 40, u32::MAX].map(|earlier| backoff.delay(earlier).as_secs()).into();
        assert_eq!(seconds, [1, 2, 4, 256, 300, 300, 300]);
    }

    #[test]
    fn jitter_adds_up_to_half() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(300));
        let backoff = Backoff::new(first, longest);
        for (earlier, key) in (0..40).flat_map(|earlier| [0, 1, 255, u64::MAX].map(|key| (earlier, key))) {
            let (plain, jittered) = (backoff.delay(earlier), backoff.jittered(earlier, key));
            assert!(plain <= jittered && jittered < plain * 3 / 2, "{earlier} {key}: {jittered:?}");
        }
        assert_ne!(backoff.jittered(3, 1), backoff.jittered(3, 2));
    }
}
