//! The live cluster: its client, the watches that keep the engine's
//! [`ClusterSnapshot`](mullion_engine::model::cluster::snapshot::ClusterSnapshot), and the ConfigMap `mullion-state`.
//!
//! This module makes no decisions: the engine defines what a missing fact means.

pub(crate) mod backoff;
pub(crate) mod call;
pub(crate) mod connect;
pub mod live;
pub(crate) mod owner_references;
pub mod state;
pub mod watch;
pub(crate) mod write_params;
