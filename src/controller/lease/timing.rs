//! The timing of the leader lease.

use std::time::Duration;

/// How long a lease lasts, and how often it is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseTiming {
    /// How long others wait after the last change of the lease that they observed, in whole seconds as in the record.
    pub duration: Duration,
    /// How long a holder leads after its last renewal began; shorter than `duration`.
    pub renew_deadline: Duration,
    /// How often a holder renews, and others read the lease; shorter than `renew_deadline`.
    pub retry: Duration,
}

impl LeaseTiming {
    /// The timing of a lease of that many seconds. 15 s results in client-go's defaults: 10 s and 2 s.
    pub(crate) fn of_seconds(seconds: u16) -> Self {
        let duration = Duration::from_secs(seconds.max(1).into());
        Self { duration, renew_deadline: duration * 2 / 3, retry: duration * 2 / 15 }
    }

    /// The timeout of one request: two fit into the renew deadline.
    pub(crate) fn request_timeout(self) -> Duration {
        self.renew_deadline / 2
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_default_is_that_of_client_go() {
        let timing = LeaseTiming::of_seconds(15);
        assert_eq!((timing.renew_deadline, timing.retry), (Duration::from_secs(10), Duration::from_secs(2)));
        for seconds in [0, 1, 2, u16::MAX] {
            let timing = LeaseTiming::of_seconds(seconds);
            assert!(!timing.retry.is_zero() && timing.retry < timing.request_timeout(), "{timing:?}");
            assert!(timing.renew_deadline < timing.duration, "{timing:?}");
        }
    }
}
