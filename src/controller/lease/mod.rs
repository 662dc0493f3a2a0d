//! The leader lease: Lease `mullion-controller`, by which one of several controllers works and the others stand by.
//!
//! ```text
//! Lease ── read, created, updated ── follow: Election (pure) ──→ Hold {term, until} ──→ Fence ──→ the leader's client
//! ```
//!
//! The rules are those of client-go (`tools/leaderelection/leaderelection.go`): nobody compares wall clocks. A process
//! that does not hold the lease waits the record's whole `leaseDurationSeconds`, counted on its own monotonic clock from
//! when it last saw the record change. A holder leads until the renew deadline, counted from when the last write that
//! succeeded *began*; that is before anybody could see it, and shorter than the lease, so there is a slack of a third
//! of the lease in which nobody leads. Every write carries the `resourceVersion` that was read: of two, one gets a 409.
//!
//! What is left after this: a request that was under way when the term ended, and that the API server carries out after
//! the next leader took over (it gives itself up to a minute: `--request-timeout`). No fence on this side of the network
//! stops that one. Nor does `CLOCK_MONOTONIC` go on while a whole machine is suspended (it does while a process is stopped).
//! Such a request does no harm:
//!
//! | request | why |
//! |---|---|
//! | every patch, update and delete but the next | It carries the `resourceVersion` that it was computed from, so it ends in a 409 if the next leader wrote the object, and is what the next leader would write if not. |
//! | patch of the `series` of an Event | It sets a count and a time, which people read and nothing computes with. |
//! | create of an Event | Its name follows from what it reports: what exists ends in a 409, and is counted. |
//! | create of the Lease | A Lease that exists ends in a 409. One that was deleted comes to name a holder that no longer leads, because its term counts from when the request began; the others wait for its end, once. |
//! | create of ConfigMap `mullion-state` | One that exists ends in a 409. A new one holds what follows from policies and cluster, and the next leader patches what differs. |
//! | create of a Secret | One that exists ends in a 409. A new one holds a whole CA or a whole pair; the next leader reads it, and replaces a pair that the CA did not sign. |
//! | create of a RuntimeClass | One that exists ends in a 409. A new one has the build of its name and the handler of the policy; the next leader appends tolerations that it lacks. |
//! | create of a `SelfSubjectReview`, dry run of a pod | Nothing is stored. |
//!
//! `tests/on_cluster` (`rights`, `leaders`) asserts the first two rows of every patch, update and delete that the API server
//! records.
//!
//! And: who finds no Lease makes one; at once if it never saw one, else after a lease's duration. If somebody deletes
//! the Lease under a leader, and a process that knows of none looks before the leader has put it back (2 s), two lead
//! until the first reads it again.

pub mod election;
pub mod fence;
pub mod follow;
pub mod record;

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The name of the Lease.
pub const NAME: &str = "mullion-controller";

/// How long a lease is worth something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long others wait after they last saw the lease change: whole seconds, since the record knows no others.
    pub duration: Duration,
    /// How long a holder leads after its last renewal began; shorter than `duration`.
    pub renew_deadline: Duration,
    /// How often a holder renews, and others look; shorter than `renew_deadline`.
    pub retry: Duration,
}

impl Timing {
    /// For a lease of that many seconds. Of 15 s it makes client-go's defaults: 10 s and 2 s.
    pub fn of_seconds(seconds: u16) -> Self {
        let duration = Duration::from_secs(seconds.max(1).into());
        Self { duration, renew_deadline: duration * 2 / 3, retry: duration * 2 / 15 }
    }

    /// For one request about the lease: two fit into the renew deadline.
    fn call(self) -> Duration {
        self.renew_deadline / 2
    }
}

/// The name of this process among all that want the lease: the host's (in a cluster the pod's) and a random number.
pub fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let host = if host.trim().is_empty() { "unknown-host" } else { host.trim() };
    // The standard library's keys come from the system's random numbers.
    format!("{host}_{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
mod election_tests;

#[cfg(test)]
mod follow_tests;

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_default_is_that_of_client_go() {
        let timing = Timing::of_seconds(15);
        assert_eq!((timing.renew_deadline, timing.retry), (Duration::from_secs(10), Duration::from_secs(2)));
        for seconds in [0, 1, 2, u16::MAX] {
            let timing = Timing::of_seconds(seconds);
            assert!(!timing.retry.is_zero() && timing.retry < timing.call(), "{timing:?}");
            assert!(timing.renew_deadline < timing.duration, "{timing:?}");
        }
    }

    #[test]
    fn no_identity_is_given_twice() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        assert!(one.rsplit_once('_').is_some_and(|(host, number)| !host.is_empty() && number.len() == 16), "{one}");
    }
}
