//! How the [`World`](crate::engine::world::World) of the engine comes to be: from a file, or from a live cluster.
//!
//! [`objects`] turns raw Kubernetes objects into facts; [`file`](mod@file) and `live` (feature `server`) bring the
//! objects. Neither decides anything: what a missing fact means is the engine's to say.

#[cfg(feature = "server")]
pub mod connect;
pub mod file;
mod images;
#[cfg(feature = "server")]
pub mod live;
pub mod objects;
#[cfg(feature = "server")]
pub mod watch;
