//! The live cluster: its client, the watches that keep the engine's
//! [`ClusterSnapshot`](mullion_engine::model::cluster::snapshot::ClusterSnapshot), and the ConfigMap `mullion-state`.
//!
//! Nothing here decides: the engine defines what a missing fact means.

pub mod connect;
pub mod live;
pub mod owner_references;
pub mod state;
pub mod watch;
pub mod write_params;
