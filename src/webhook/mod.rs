//! `mullion webhook`: the HTTPS server that the Kubernetes API server asks about every pod and pod template, about nodes
//! that are created, and about ConfigMaps with policies.
//!
//! ```text
//! server (accept loop, TLS, body) → router → route → handler → engine → envelope
//!                                                       ↑
//!             state: snapshot, policies, images, what was kept ← cluster, reload, registries
//! ```
//!
//! Rights it needs, which are those that the chart gives; it writes nothing:
//!
//! | on | named | in | verbs | when |
//! |---|---|---|---|---|
//! | nodes, runtimeclasses |  | the cluster | `list`, `watch` |  |
//! | namespaces |  | the cluster | `get`, `list`, `watch` | ; `get` is for one that is too new for the watch. Without, its labels and annotations say nothing at first |
//! | configmaps | `mullion-state` | its own namespace | `get`, `list`, `watch` | ; without, it remembers only what it saw itself |
//! | secrets | `mullion-tls` | its own namespace | `list`, `watch` | `--tls-secret`; of the name given there |
//! | secrets |  | where pods have pull secrets | `get` | pull secrets; where a RegistryPolicy has them used |
//!
//! `run` puts the parts together; everything below it is usable on its own, as the tests do.

pub mod admin;
pub mod args;
pub mod audit;
pub mod envelope;
pub mod handler;
pub mod images;
pub mod judge;
pub mod namespaces;
pub mod nodes;
pub mod policies;
pub mod probe;
pub mod registries;
pub mod reload;
pub(crate) mod route;
pub mod router;
pub mod start;
pub mod state;
