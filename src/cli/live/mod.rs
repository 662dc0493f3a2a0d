//! Workloads of a live cluster as input of a command: its arguments, the objects that they select, and the objects as
//! texts.
//!
//! A command that is given only files contacts no cluster without `--context`. It contacts one for `KIND/NAME`, for `-A`,
//! and without files for `-n`, a selector or a user; with `--policies cluster`, and for `policy show`, `--kubeconfig` is
//! enough.

mod arguments;
mod object_text;
mod plan;
mod policies;
mod read;
mod registration;

pub use arguments::LiveArguments;
pub(crate) use object_text::LivePodStatus;
pub(crate) use policies::{ClusterPolicies, in_force, policies_of_the_cluster};
pub(crate) use read::{LiveFacts, LoadedInput, ReadRequest, read_input};
pub(crate) use registration::{Registration, WebhookCall};
