//! `mullion webhook`: the HTTPS server to which the Kubernetes API server sends every pod and pod template, nodes that
//! are created, and ConfigMaps with policies.
//!
//! ```text
//! server (accept loop, TLS, body) → router → handler → envelope → route → workload_review → engine → envelope
//!                                                                              ↑
//!                                     state: snapshot, policies with their image source, mullion-state ← cluster, reload
//! ```
//!
//! It needs these permissions, which the chart grants; the webhook writes nothing:
//!
//! | on | named | in | verbs | when |
//! |---|---|---|---|---|
//! | nodes, runtimeclasses |  | the cluster | `list`, `watch` |  |
//! | namespaces |  | the cluster | `get`, `list`, `watch` | ; `get` is for a namespace that is too new for the watch. Without it, its labels and annotations are ignored at first |
//! | configmaps | `mullion-state` | its own namespace | `get`, `list`, `watch` | ; without it, the webhook remembers only what it saw itself |
//! | secrets | `mullion-tls` | its own namespace | `list`, `watch` | `--tls-secret`; of the name given there |
//! | secrets |  | where pods have pull secrets | `get` | pull secrets; if a RegistryPolicy sets their use |
//!
//! `start::run` connects the parts; tests use the parts alone.

pub mod admin;
mod args;
mod audit;
mod caller;
mod config_map_review;
mod controller_users;
pub mod engine_review;
pub mod envelope;
pub mod handler;
mod images;
pub mod metrics;
mod namespace_counts;
mod namespaces;
mod nodes;
mod partial_review;
mod policies_in_force;
mod probe;
mod registries;
pub mod reload;
pub mod review_memory;
mod review_stages;
mod route;
pub mod router;
pub(crate) mod start;
mod state;
mod workload_review;

pub use args::WebhookArgs;
pub use caller::ReviewCaller;
pub use controller_users::ControllerUsers;
pub use images::{PlatformFuture, PlatformSource, PullSecrets, wait_limit};
pub use policies_in_force::PoliciesInForce;
pub use registries::source_factory;
pub use review_stages::BlockingPermits;
pub use start::run_with_addresses;
pub use state::WebhookState;
