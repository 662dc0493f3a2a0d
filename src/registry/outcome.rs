//! Outcomes of look-ups.

use std::sync::Arc;
use std::time::Duration;

use crate::telemetry::label_values;

/// Why a look-up has no result. The texts contain no part of a login or a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The image does not exist: 404.
    #[error("the registry has no such image")]
    Absent,
    /// 401 or 403, from the registry or its token service, with every available login.
    #[error("the registry does not show the image to these credentials")]
    Denied,
    /// 429: the registry is not queried again before the time is over.
    #[error("the registry allows the next request in {} s", .retry_after.as_secs())]
    Throttled {
        /// The time from now, at most an hour.
        retry_after: Duration,
    },
    /// The policy does not permit Mullion to query the registry, or to connect to an address of it, of its token
    /// service or of a redirect.
    #[error("the registry is not queried: {0}")]
    Refused(Arc<str>),
    /// Name resolution, connection, TLS, time, a broken connection or 5xx.
    #[error("the registry cannot be reached: {0}")]
    Unreachable(Arc<str>),
    /// A response that is not a manifest, or not the manifest of an image.
    #[error("the registry's response is unusable: {0}")]
    Malformed(Arc<str>),
    /// The caller's deadline came first; the look-up continues and fills the cache.
    #[error("the registry did not respond in time")]
    Late,
    /// More look-ups wait or run than `queue` allows.
    #[error("too many look-ups are under way")]
    Busy,
}

impl LookupError {
    pub(crate) fn refused(reason: impl Into<Arc<str>>) -> Self {
        Self::Refused(reason.into())
    }

    pub(crate) fn unreachable(reason: impl Into<Arc<str>>) -> Self {
        Self::Unreachable(reason.into())
    }

    pub(crate) fn malformed(reason: impl Into<Arc<str>>) -> Self {
        Self::Malformed(reason.into())
    }
}

label_values! {
    /// The outcome of a request for an image, for metrics.
    pub enum RegistryOutcome: "outcome" {
        /// The cache contained the result, which can be an error.
        Hit = "hit",
        /// The registry has the image.
        Found = "found",
        /// [`LookupError::Absent`].
        Absent = "absent",
        /// [`LookupError::Denied`].
        Denied = "denied",
        /// [`LookupError::Throttled`].
        Throttled = "throttled",
        /// [`LookupError::Refused`].
        Refused = "refused",
        /// [`LookupError::Unreachable`].
        Unreachable = "unreachable",
        /// [`LookupError::Malformed`].
        Malformed = "malformed",
        /// Not looked up, because the queue is full.
        Dropped = "dropped",
    }
}

impl RegistryOutcome {
    pub(crate) fn of<T>(answer: &Result<T, LookupError>) -> Self {
        match answer {
            Ok(_) => Self::Found,
            Err(LookupError::Absent) => Self::Absent,
            Err(LookupError::Denied) => Self::Denied,
            Err(LookupError::Throttled { .. }) => Self::Throttled,
            Err(LookupError::Refused(_)) => Self::Refused,
            Err(LookupError::Unreachable(_) | LookupError::Late) => Self::Unreachable,
            Err(LookupError::Malformed(_)) => Self::Malformed,
            Err(LookupError::Busy) => Self::Dropped,
        }
    }
}
