//! Limits of the size of bodies, and of the time of requests.

use std::time::Duration;

/// Limits of one request, and of all together.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// The longest body, in bytes. The API server itself limits an object to 3 MiB, and a review has two.
    pub body: usize,
    /// The longest time without progress of a body.
    pub body_stall: Duration,
    /// The time limit of a body above 64 KiB from the beginning of its turn, because they are read one after the other.
    /// An API server sends 3 MiB in some ten milliseconds.
    pub large_body: Duration,
    /// The time limit of a request without `?timeout=`; the API server's default.
    pub request: Duration,
    /// The longest accepted `?timeout=`; the API server's maximum.
    pub request_max: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            body: 10 << 20,
            body_stall: Duration::from_secs(5),
            large_body: Duration::from_secs(2),
            request: Duration::from_secs(10),
            request_max: Duration::from_secs(30),
        }
    }
}
