//! Events that were written recently, with a share for each namespace.
//!
//! An Event that still applies is not written again before the API server may have deleted it. If a namespace has used
//! up its share, Mullion writes no more Events there until some of these are old, so that the Events of other
//! namespaces are not delayed. People do not read more of them.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How often an Event that still applies is written again, which increases its count: the API server deletes Events
/// after an hour (kube-apiserver `--event-ttl`).
pub(crate) const REPEAT: Duration = Duration::from_secs(45 * 60);
/// The maximum number of Events of one namespace within [`REPEAT`].
const SHARE: usize = 100;
/// The maximum number of stored Events, of 24 bytes each.
const MAX_REMEMBERED: usize = 16_384;

/// Keys of Events by namespace, with the time when each was written.
#[derive(Debug, Default)]
pub(crate) struct EventShares {
    by_namespace: HashMap<String, HashMap<u64, Instant>>,
    len: usize,
}

impl EventShares {
    /// Whether the Event was written recently.
    pub(crate) fn is_recent(&self, namespace: &str, key: u64, now: Instant) -> bool {
        self.by_namespace.get(namespace).and_then(|written| written.get(&key)).is_some_and(|at| now < *at + REPEAT)
    }

    /// Whether the namespace may write another Event; the error is the time from which it may.
    pub(crate) fn check(&mut self, namespace: &str, now: Instant) -> Result<(), Instant> {
        let Some(written) = self.by_namespace.get_mut(namespace).filter(|written| written.len() >= SHARE) else {
            return Ok(());
        };
        let before = written.len();
        written.retain(|_, at| now < *at + REPEAT);
        self.len -= before - written.len();
        let oldest = written.values().min().filter(|_| written.len() >= SHARE);
        oldest.map_or(Ok(()), |oldest| Err(*oldest + REPEAT))
    }

    /// Records an Event, and returns whether it was the last of its namespace's share.
    pub(crate) fn record(&mut self, namespace: &str, key: u64, now: Instant) -> bool {
        if self.len >= MAX_REMEMBERED {
            self.make_room(now);
        }
        let written = self.by_namespace.entry(namespace.to_owned()).or_default();
        let is_new = written.insert(key, now).is_none();
        self.len += usize::from(is_new);
        is_new && written.len() == SHARE
    }

    /// Forgets an Event that could not be written.
    pub(crate) fn forget(&mut self, namespace: &str, key: u64) {
        let Some(written) = self.by_namespace.get_mut(namespace) else { return };
        self.len -= usize::from(written.remove(&key).is_some());
        if written.is_empty() {
            self.by_namespace.remove(namespace);
        }
    }

    /// Forgets old Events; if that is not enough, those of the namespace that has written the most.
    fn make_room(&mut self, now: Instant) {
        self.by_namespace.retain(|_, written| {
            written.retain(|_, at| now < *at + REPEAT);
            !written.is_empty()
        });
        self.len = self.by_namespace.values().map(HashMap::len).sum();
        if self.len >= MAX_REMEMBERED {
            let largest = self.by_namespace.iter().max_by_key(|(_, written)| written.len());
            if let Some(name) = largest.map(|(name, _)| name.clone()) {
                self.len -= self.by_namespace.remove(&name).map_or(0, |written| written.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_namespace_with_many_events_takes_none_from_another() {
        let (mut shares, now) = (EventShares::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        for key in 0..SHARE as u64 {
            assert_eq!(shares.check("noisy", now), Ok(()));
            assert_eq!(
                shares.record("noisy", key, if key == 0 { now } else { later }),
                key == SHARE as u64 - 1,
                "{key}"
            );
        }
        assert_eq!(shares.check("noisy", later), Err(now + REPEAT), "until the first one is old");
        assert_eq!(shares.check("quiet", later), Ok(()));
        assert!(shares.is_recent("noisy", 7, later) && !shares.is_recent("quiet", 7, later));
        assert_eq!(shares.check("noisy", now + REPEAT), Ok(()));
        assert!(!shares.is_recent("noisy", 0, now + REPEAT));
        assert_eq!(shares.len, SHARE - 1);
        shares.forget("noisy", 7);
        shares.forget("noisy", 7);
        assert!(!shares.is_recent("noisy", 7, later) && shares.len == SHARE - 2);
    }

    #[test]
    fn what_is_remembered_is_limited_at_the_expense_of_those_with_the_most() {
        let (mut shares, now) = (EventShares::default(), Instant::now());
        shares.record("quiet", 1, now);
        for name in 0..200 {
            for key in 0..SHARE as u64 {
                shares.record(&format!("noisy-{name}"), key, now);
                assert!(shares.len <= MAX_REMEMBERED);
            }
        }
        assert!(shares.is_recent("quiet", 1, now));
        assert_eq!(shares.len, shares.by_namespace.values().map(HashMap::len).sum::<usize>());
        // Old Events are removed first.
        shares.make_room(now + REPEAT);
        assert_eq!((shares.len, shares.by_namespace.len()), (0, 0));
    }
}
