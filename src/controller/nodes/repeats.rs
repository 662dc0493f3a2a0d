//! How often the same thing was done to the same object: what others undo again and again is left alone for a while.
//!
//! Taints have a memory on the node itself, which outlives this process. This one is for everything else, and for whoever
//! takes that memory away too. It is lost with the process, which costs three more writes.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::value_hash::hash_of;

/// How often within [`HOUR`] the same is done.
const LIMIT: u8 = 3;
const HOUR: Duration = Duration::from_secs(3600);

/// Counts by a hash of object and deed. One per node that was patched within the hour.
#[derive(Debug, Default)]
pub(crate) struct Repeats(HashMap<u64, Count>);

#[derive(Debug, Clone, Copy)]
struct Count {
    first: Instant,
    times: u8,
    refused: bool,
}

/// Enough for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Enough {
    /// When it may be done again.
    pub(crate) until: Instant,
    /// Whether this was the first refusal.
    pub(crate) news: bool,
}

/// A key for [`Repeats`].
pub(crate) fn key(deed: &impl Hash) -> u64 {
    hash_of(deed)
}

impl Repeats {
    /// Whether it may be done at `now`.
    pub(crate) fn check(&mut self, key: u64, now: Instant) -> Result<(), Enough> {
        match self.0.get_mut(&key) {
            Some(count) if count.times >= LIMIT && now < count.first + HOUR => {
                let news = !std::mem::replace(&mut count.refused, true);
                Err(Enough { until: count.first + HOUR, news })
            }
            _ => Ok(()),
        }
    }

    /// It was done.
    pub(crate) fn done(&mut self, key: u64, now: Instant) {
        let fresh = Count { first: now, times: 0, refused: false };
        let count = self.0.entry(key).or_insert(fresh);
        if now >= count.first + HOUR {
            *count = fresh;
        }
        count.times = count.times.saturating_add(1);
    }

    /// Forgets what is over.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, count| now < count.first + HOUR);
    }

    /// Forgets everything: something else is wanted now.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_fourth_time_has_to_wait() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        for minute in 0..3 {
            let now = start + Duration::from_secs(60 * minute);
            assert_eq!(repeats.check(1, now), Ok(()));
            repeats.done(1, now);
        }
        let until = start + HOUR;
        assert_eq!(repeats.check(1, start + Duration::from_secs(200)), Err(Enough { until, news: true }));
        assert_eq!(repeats.check(1, start + Duration::from_secs(300)), Err(Enough { until, news: false }));
        assert_eq!(repeats.check(2, start + Duration::from_secs(300)), Ok(()), "another deed");
        assert_eq!(repeats.check(1, until), Ok(()));
        repeats.done(1, until);
        assert_eq!(repeats.check(1, until), Ok(()), "counted from anew");
        repeats.sweep(until + HOUR);
        assert!(repeats.0.is_empty());
    }
}
