//! What Mullion says about itself while it runs.
//!
//! | module | what |
//! |---|---|
//! | `failures` | errors of the cluster in words |
//! | `logs` | where events go, in which form, and from which level on; the level changes while it runs |
//! | `metrics` | the webhook's metrics and events (the controller's are in `controller::metrics`) |
//! | `process` | what the process takes, and its version, in both servers |
//! | `tally` | counts by namespace, with a bound |
//! | `validity` | from when to when certificates are valid, in both servers |
//! | `watches` | how the watches of the cluster are doing, in both servers |
//! | [`admin`] | the part of the admin port that both servers have |

pub mod admin;
pub mod failures;
pub mod logs;
pub mod metrics;
pub mod process;
pub mod tally;
pub mod validity;
pub mod watches;
