//! `mullion webhook`: the HTTPS server that the Kubernetes API server asks about every pod and pod template.
//!
//! ```text
//! accept loop (server) → TLS (tls) → routes → body → handler → engine → envelope
//!                                                       ↑
//!             state: world, policies, images ← world::live, reload, registries
//! ```
//!
//! [`run`] puts the parts together; everything below it is usable on its own, as the tests do.

pub mod admin;
pub mod body;
pub mod envelope;
pub mod handler;
pub mod images;
#[cfg(feature = "registry")]
pub mod registries;
pub mod reload;
pub mod routes;
pub mod server;
pub mod state;
pub mod tls;

mod args;
mod start;

pub use args::Args;
pub use start::run;
