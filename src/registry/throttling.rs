//! Throttling: what a response 429 means, and which hosts are not queried for a while.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::time::Instant;

use crate::registry::outcome::LookupError;
use crate::registry::source::LookupFailure;

/// The pause after a 429 without `Retry-After`, and the longest pause.
const THROTTLED: Duration = Duration::from_secs(60);
const MAX_THROTTLED: Duration = Duration::from_secs(60 * 60);
/// The maximum number of hosts that are paused; beyond it, the least recently used is queried again.
const MAX_PAUSED_HOSTS: u64 = 1_000;

/// How long a host is not queried after a 429 with these headers.
pub(crate) fn pause_after(headers: &HeaderMap) -> Duration {
    let now = SystemTime::now();
    let retry_after = headers.get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?, now));
    retry_after.unwrap_or(THROTTLED).min(MAX_THROTTLED)
}

/// Seconds, or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number too large for u64 is the maximum.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The hosts that are not queried now, each with the time until which it is paused, and the error of the pause.
pub(crate) struct PausedHosts(Cache<Box<str>, (Instant, LookupError)>);

impl Default for PausedHosts {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MAX_PAUSED_HOSTS).eviction_policy(EvictionPolicy::lru()).build())
    }
}

impl PausedHosts {
    /// The error of the pause, if `host` is paused.
    pub(crate) fn check(&self, host: &str) -> Result<(), LookupError> {
        match self.0.get(host) {
            Some((until, error)) if Instant::now() < until => Err(error),
            Some(_) => {
                self.0.invalidate(host);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Pauses `host` if it throttles, and for `silence` if it does not respond.
    pub(crate) fn pause_after(&self, failure: &LookupFailure, host: &str, silence: Duration) {
        let pause = match &failure.error {
            LookupError::Throttled { retry_after } => *retry_after,
            _ if failure.silent => silence,
            _ => return,
        };
        self.0.insert(host.into(), (Instant::now() + pause, failure.error.clone()));
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let cases: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Wed, 21 Oct 2015 07:30:00 GMT", Some(120)),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("", None),
            ("soon", None),
        ];
        for &(text, seconds) in cases {
            assert_eq!(retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
