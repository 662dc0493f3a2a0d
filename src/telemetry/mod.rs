//! Logs and metrics.
//!
//! | module | contains |
//! |---|---|
//! | `certificate_validity` | validity of certificates as metrics, in both servers |
//! | `error_text` | errors of the Kubernetes API as text |
//! | `label_values` | enums of label values |
//! | `log_limit` | events that clients can cause as often as they like |
//! | `logs` | output, format and level of the log; the level can change while a server runs |
//! | `metric_set` | declares sets of metrics; those of a server are in `server::metrics`, `webhook::metrics` and `controller::metrics` |
//! | `process` | CPU, memory and version of the process, in both servers |
//! | `unreadable_objects` | objects that cannot be read, in both servers |
//! | `watch_health` | health of the watches, in both servers |

mod certificate_validity;
mod error_text;
mod label_values;
mod log_limit;
pub(crate) mod logs;
mod metric_set;
mod process;
mod unreadable_objects;
mod watch_health;

pub use certificate_validity::CertificateTimes;
pub(crate) use error_text::in_words;
pub(crate) use label_values::label_values;
pub(crate) use log_limit::LogLimit;
pub(crate) use logs::LogArgs;
pub(crate) use metric_set::metric_set;
pub(crate) use process::{MetricLabels, metrics_text, registry};
pub use unreadable_objects::UnreadableSet;
pub(crate) use unreadable_objects::{UnreadableObject, unreadable_objects};
pub use watch_health::WatchHealth;
