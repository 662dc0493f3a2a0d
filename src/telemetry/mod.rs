//! What Mullion says about itself while it runs.
//!
//! | module | what |
//! |---|---|
//! | `failures` | errors of the cluster in words |
//! | `logs` | where events go, in which form, and from which level on; the level changes while it runs |
//! | `metrics` | the webhook's metrics and events (the controller's are in `controller::metrics`) |
//! | `policies` | how the policy files stand, in both servers |
//! | `process` | what the process takes, and its version, in both servers |
//! | `tally` | counts by namespace, with a bound |
//! | `validity` | from when to when certificates are valid, in both servers |
//! | `watches` | how the watches of the cluster are doing, in both servers |
//! | [`admin`] | the part of the admin port that both servers have |

pub mod admin;
mod failures;
mod logs;
mod metrics;
mod policies;
mod process;
mod tally;
mod validity;
mod watches;

pub(crate) use failures::{in_words, refusal};
pub use logs::{BadLevel, LOG_VARIABLE, LogArgs, LogFormat, init, level, set_level};
pub use metrics::{
    BadRequest, ConnectionGuard, Decision, LookupOutcome, Metrics, NamespaceOutcome, Outcome, PolicyOutcome, Reviewed,
};
pub use policies::{PolicyReport, PolicyStatus, ReportedFile};
pub(crate) use process::registry;
pub(crate) use validity::CertificateTimes;
pub use watches::WatchHealth;
pub(crate) use watches::register as register_watches;
