//! The live cluster: its client, the watches that maintain the engine's
//! [`ClusterSnapshot`](mullion_engine::model::cluster::ClusterSnapshot), and the ConfigMap `mullion-state`.
//!
//! This module makes no decisions: the engine defines what a missing fact means.

mod backoff;
mod client_certificate;
pub(crate) mod connect;
pub(crate) mod kubeconfig;
pub(crate) mod live;
pub(crate) mod owner_references;
pub(crate) mod reading;
pub mod state;
pub(crate) mod watch;
mod write_params;

pub(crate) use backoff::Backoff;
pub use live::LiveSnapshot;
pub(crate) use live::{Collection, SlimNode, namespace_entry, slim_metadata};
pub(crate) use owner_references::{Owner, warn_not_adopted};
pub use watch::client_with;
pub(crate) use watch::{ANSWER, CALL, Changes, await_answer, changes, in_time, streams_lists};
pub(crate) use write_params::{MANAGER, delete_params, patch_params, post_params};
