//! How the [`ClusterSnapshot`](mullion_engine::model::cluster::snapshot::ClusterSnapshot) of the engine comes to be: from a file, or from a live cluster.
//!
//! `objects` turns raw Kubernetes objects into facts; `file`(mod@file) and `live` (feature `server`) bring the
//! objects. Neither decides anything: what a missing fact means is the engine's to say.
pub(crate) mod backoff;
pub(crate) mod call;
pub mod connect;
pub mod live;
pub mod watch;
