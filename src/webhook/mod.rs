//! `mullion webhook`: the HTTPS server that the Kubernetes API server asks about every pod and pod template, about nodes
//! that are created, and about ConfigMaps with policies.
//!
//! ```text
//! accept loop (server) → TLS (tls) → routes → body → handler → engine → envelope
//!                                                       ↑
//!             state: world, policies, images, what was kept ← world::live, reload, registries, state
//! ```
//!
//! Rights it needs; it writes nothing:
//!
//! | on | verbs |
//! |---|---|
//! | nodes, namespaces, runtimeclasses | `list`, `watch` |
//! | namespaces | `get`, for one that is too new for the watch; without, its labels and annotations say nothing at first |
//! | in its own namespace: configmap `mullion-state` | `get`, `list`, `watch`; without, it remembers only what it saw itself |
//! | with `--tls-secret`: that secret | `list`, `watch` |
//! | where a RegistryPolicy has pull secrets used: secrets | `get` |
//!
//! [`run`] puts the parts together; everything below it is usable on its own, as the tests do.

pub mod admin;
pub mod body;
pub mod envelope;
pub mod handler;
pub mod images;
pub mod namespaces;
mod nodes;
mod policies;
pub(crate) mod probe;
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
pub(crate) use args::positive_seconds;
pub use start::run;
