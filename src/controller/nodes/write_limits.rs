//! The limit on repeating a change to the same object: a change that others undo repeatedly is not made again for some
//! time.
//!
//! Taints have a record on the node itself, which outlives this process. This limit is for every other change, and for
//! the case that someone removes that record too. It is lost with the process, which costs three more writes.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How often the same change is made within [`HOUR`].
const LIMIT: u8 = 3;
const HOUR: Duration = Duration::from_secs(3600);

/// Counts by a hash of object and change. There is one for each node that was patched within the hour.
#[derive(Debug, Default)]
pub(crate) struct WriteLimits(HashMap<u64, Count>);

#[derive(Debug, Clone, Copy)]
struct Count {
    first: Instant,
    times: u8,
    reached: bool,
}

/// The limit for the change is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitReached {
    /// When the change may be made again.
    pub(crate) until: Instant,
    /// Whether no earlier check failed.
    pub(crate) first: bool,
}

impl WriteLimits {
    /// Whether the change may be made at `now`.
    pub(crate) fn check(&mut self, key: u64, now: Instant) -> Result<(), LimitReached> {
        match self.0.get_mut(&key) {
            Some(count) if count.times >= LIMIT && now < count.first + HOUR => {
                let first = !std::mem::replace(&mut count.reached, true);
                Err(LimitReached { until: count.first + HOUR, first })
            }
            _ => Ok(()),
        }
    }

    /// Counts a change that was made.
    pub(crate) fn record(&mut self, key: u64, now: Instant) {
        let fresh = Count { first: now, times: 0, reached: false };
        let count = self.0.entry(key).or_insert(fresh);
        if now >= count.first + HOUR {
            *count = fresh;
        }
        count.times = count.times.saturating_add(1);
    }

    /// Forgets changes that were made more than an hour ago.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, count| now < count.first + HOUR);
    }

    /// Forgets everything, because other changes are needed now.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_fourth_write_waits() {
        let start = Instant::now();
        let mut limits = WriteLimits::default();
        for minute in 0..3 {
            let now = start + Duration::from_secs(60 * minute);
            assert_eq!(limits.check(1, now), Ok(()));
            limits.record(1, now);
        }
        let until = start + HOUR;
        assert_eq!(limits.check(1, start + Duration::from_secs(200)), Err(LimitReached { until, first: true }));
        assert_eq!(limits.check(1, start + Duration::from_secs(300)), Err(LimitReached { until, first: false }));
        assert_eq!(limits.check(2, start + Duration::from_secs(300)), Ok(()), "another change");
        assert_eq!(limits.check(1, until), Ok(()));
        limits.record(1, until);
        assert_eq!(limits.check(1, until), Ok(()), "counted from zero");
        limits.sweep(until + HOUR);
        assert!(limits.0.is_empty());
    }
}
