//! Whether the API server reaches the webhook, tested from outside with a dry run of a pod.
//!
//! ```text
//! dry run of a pod, once a minute → API server → /mutate, /validate → marks (crate::admission_probe)
//!        ↑                                                              ↓
//!   next minute      metrics, condition `Reachable`, Event ← outcome ← response
//! ```
//!
//! With `failurePolicy: Ignore` there is no other signal, because pods start unchanged.

pub(crate) mod control_loop;
mod outcome;
mod probe;

pub(crate) use probe::{Probe, Reach, random_value, send_probe};
