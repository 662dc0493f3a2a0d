//! Logs and metrics.
//!
//! | module | contains |
//! |---|---|
//! | `certificate_validity` | validity of certificates as metrics, in both servers |
//! | `error_text` | errors of the Kubernetes API as text |
//! | `logs` | output, format and level of the log; the level can change while a server runs |
//! | `metrics` | the webhook's metrics and events (the controller's are in `controller::metrics`) |
//! | `namespace_counts` | counts by namespace, with a limit |
//! | `process` | CPU, memory and version of the process, in both servers |
//! | `watch_health` | health of the watches, in both servers |

pub(crate) mod certificate_validity;
pub(crate) mod error_text;
pub(crate) mod logs;
pub mod metrics;
pub(crate) mod namespace_counts;
pub(crate) mod process;
pub mod watch_health;
