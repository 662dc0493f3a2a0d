//! A limit for log events that clients can cause any number of times.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time between two events: long enough for a readable log, and short enough that an event is near its
/// cause.
const INTERVAL: Duration = Duration::from_secs(10);

/// When the last event was logged, and how many were not logged since.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<(Option<Instant>, u64)>);

impl LogLimit {
    /// A limit that has passed nothing yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new((None, 0)))
    }

    /// If this event is to be logged, the number of events that were not logged since the last one.
    pub(crate) fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, omitted) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            *omitted += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(omitted))
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn an_interval_has_one_event() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        assert_eq!(limit.pass(start), Some(0));
        for _ in 0..7 {
            assert_eq!(limit.pass(start + INTERVAL / 2), None);
        }
        assert_eq!(limit.pass(start + INTERVAL), Some(7));
        assert_eq!(limit.pass(start), None, "a clock that another thread read earlier");
        assert_eq!(limit.pass(start + 2 * INTERVAL), Some(1));
    }
}
