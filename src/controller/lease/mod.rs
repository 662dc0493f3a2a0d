//! The leader lease: Lease `mullion-controller`. Its holder leads and works; other controllers are on standby.
//!
//! ```text
//! Lease ── read, created, updated ── follower: Election (pure) ──→ LeaseTerm {term, until} ──→ Fence ──→ the leader's client
//! ```
//!
//! The rules are those of client-go (`tools/leaderelection/leaderelection.go`): no process compares wall clocks. A
//! process that does not hold the lease waits the record's whole `leaseDurationSeconds`, measured on its own monotonic
//! clock from the last change of the record that it observed. A holder leads for the renew deadline, measured from the
//! start of its last successful write. Others measure the longer lease duration, and from a later time. So between two
//! leaders no process leads for a third of the lease. Every write contains the `resourceVersion` that was read: of two
//! writes, one gets a 409.
//!
//! One case remains: a request that was pending when the term ended, and that the API server executes after the next
//! leader took over (this may take a minute: `--request-timeout`). No fence on this side of the network stops it. Also,
//! `CLOCK_MONOTONIC` stops while a whole machine is suspended (it does not stop while a process is stopped). Such a
//! request causes no damage:
//!
//! | request | reason |
//! |---|---|
//! | every patch, update and delete except the Event patch in the next row | It carries the `resourceVersion` that it was computed from, so it ends in a 409 if the next leader wrote the object. If not, the next leader would write the same. |
//! | patch of the `series` of an Event | It sets a count and a time, which are for people; no code uses them. |
//! | create of an Event | Its name follows from its content: an Event that exists ends in a 409, and is counted. |
//! | create of the Lease | A Lease that exists ends in a 409. After a deletion, the new Lease names a holder that no longer leads, because its term counts from when the request began; the others wait for its end, once. |
//! | create of ConfigMap `mullion-state` | One that exists ends in a 409. A new one contains what follows from policies and cluster, and the next leader patches what differs. |
//! | create of a Secret | One that exists ends in a 409. A new one contains a whole CA or a whole pair; the next leader reads it, and replaces a pair that the CA did not sign. |
//! | create of a RuntimeClass | One that exists ends in a 409. A new one has the build of its name and the handler of the policy; the next leader appends tolerations that it lacks. |
//! | create of a `SelfSubjectReview`, dry run of a pod | Nothing is stored. |
//!
//! `tests/on_cluster` (`rights`, `leaders`) asserts the first two rows for every patch, update and delete that the API
//! server records.
//!
//! Deletion: a process that finds no Lease creates one, immediately if it never read one, else after a lease's
//! duration. If the Lease of a leader is deleted, and a process that never read it reads before the leader has created
//! it again (2 s), two processes lead until the first reads it again.

mod election;
mod fence;
mod follower;
mod identity;
mod record;
mod timing;

pub(crate) use fence::Fence;
pub(crate) use follower::{LeaseFollower, LeaseStatus};
pub(crate) use identity::create_identity;
pub(crate) use record::{LEASE_NAME, ReadLease};
pub(crate) use timing::LeaseTiming;

#[cfg(test)]
mod election_tests;

#[cfg(test)]
mod follower_tests;
