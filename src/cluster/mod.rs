//! The live cluster: its client, what is read from it, the watches that maintain the engine's
//! [`ClusterSnapshot`](mullion_engine::model::cluster::ClusterSnapshot), and the ConfigMap `mullion-state`.
//!
//! This module makes no decisions: the engine defines what a missing fact means.

mod backoff;
mod client;
mod client_certificate;
pub(crate) mod connect;
pub(crate) mod kubeconfig;
pub(crate) mod live;
pub(crate) mod owner_references;
pub(crate) mod reading;
mod slim_objects;
pub mod state;
mod write_params;

pub(crate) use backoff::Backoff;
pub use client::client_with;
pub(crate) use client::{ANSWER, CALL, await_answer, in_time};
pub use live::LiveSnapshot;
pub(crate) use live::{Collection, namespace_entry};
pub(crate) use owner_references::{Owner, warn_not_adopted};
pub(crate) use slim_objects::{SlimNode, SlimObject, SlimRuntimeClass, SlimSecret, slim_metadata};
pub(crate) use write_params::{MANAGER, delete_params, post_params};
