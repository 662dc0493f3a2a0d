//! Whether the API server reaches the webhook: seen from outside, by what becomes of a pod.
//!
//! ```text
//! dry run of a pod, once a minute → API server → /mutate, /validate → marks (webhook::probe)
//!        ↑                                                              ↓
//!   next minute        metrics, condition `Reachable`, Event ← judge ← answer
//! ```
//!
//! With `failurePolicy: Ignore` nothing else shows that it does not: pods come up, unchanged.

pub mod control_loop;
pub mod judge;
pub mod probe;
pub mod probing;
