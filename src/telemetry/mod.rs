//! What Mullion says about itself while it runs.
//!
//! | module | contains |
//! |---|---|
//! | `certificate_validity` | from when to when certificates are valid, in both servers |
//! | `error_text` | errors of the cluster as text |
//! | `logs` | where events go, in which form, and from which level on; the level changes while it runs |
//! | `metrics` | the webhook's metrics and events (the controller's are in `controller::metrics`) |
//! | `process` | what the process takes, and its version, in both servers |
//! | `watch_health` | how the watches of the cluster are doing, in both servers |

pub mod certificate_validity;
pub mod error_text;
pub mod logs;
pub mod metrics;
pub mod namespace_counts;
pub mod process;
pub mod watch_health;
