//! The time that a request has: `?timeout=`, with which the API server calls a webhook.

use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::Instant;

use crate::server::body_limits::BodyLimits;

/// When a request arrived, and how long its client waits.
#[derive(Debug, Clone, Copy)]
pub struct RequestDeadline {
    arrived: Instant,
    budget: Duration,
}

impl RequestDeadline {
    /// The deadline of a request that arrives now, if its client waits that long.
    pub fn after(budget: Duration) -> Self {
        Self { arrived: Instant::now(), budget }
    }

    /// The deadline of a request with that query that arrives now.
    pub(crate) fn of_query(query: Option<&str>, limits: &BodyLimits) -> Self {
        Self::after(query.and_then(timeout_of).unwrap_or(limits.request).min(limits.request_max))
    }

    /// How long the client waits, from the arrival on.
    pub(crate) fn budget(&self) -> Duration {
        self.budget
    }

    /// When the client stops waiting.
    pub(crate) fn end(&self) -> Instant {
        self.arrived + self.budget
    }

    /// Until when the request may wait for others: half of its time. The other half is for its own review.
    pub(crate) fn latest_start(&self) -> Instant {
        self.arrived + self.budget / 2
    }
}

/// `timeout` of a query string, a Go duration as the API server writes it: `10s`, `1m30s`, `500ms`.
fn timeout_of(query: &str) -> Option<Duration> {
    let value: SignedDuration = query.split('&').find_map(|pair| pair.strip_prefix("timeout="))?.parse().ok()?;
    value.try_into().ok().filter(|timeout: &Duration| !timeout.is_zero())
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn timeouts_are_go_durations() {
        for (query, expected) in [
            ("timeout=10s", Some(10_000)),
            ("a=b&timeout=1m30s", Some(90_000)),
            ("timeout=500ms", Some(500)),
            ("timeout=", None),
            ("timeout=0s", None),
            ("timeout=10", None),
            ("timeout=-1s", None),
            ("timeout=99999999999999999999s", None),
            ("timeout=1%20s", None),
            ("", None),
        ] {
            assert_eq!(timeout_of(query), expected.map(Duration::from_millis), "{query}");
        }
    }

    #[test]
    fn the_time_of_a_request_has_a_limit() {
        let limits = BodyLimits::default();
        for (query, expected) in
            [(Some("timeout=2s"), 2), (None, 10), (Some("timeout=x"), 10), (Some("timeout=9h"), 30)]
        {
            assert_eq!(RequestDeadline::of_query(query, &limits).budget(), Duration::from_secs(expected), "{query:?}");
        }
    }
}
