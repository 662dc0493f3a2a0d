//! `mullion controller`: keeps Windows nodes labelled and tainted, and a RuntimeClass for each Windows release.
//!
//! ```text
//! watches (nodes, DaemonSets, RuntimeClasses, namespaces) ─┐
//! policies, every 10 s ────────────────────────────────────┼→ work loop (nodes) → plan_node → one merge patch per node
//!                                                          └→ runtime_classes::plan → create or merge patch
//! ```
//!
//! Everything is recomputed from what the cluster holds: a restart or a second controller changes nothing that is
//! right. Writes carry the `resourceVersion` they were computed from, so a race ends in a 409 and a new plan.
//!
//! Rights it needs: `get`, `list`, `watch` on nodes, namespaces, pods, daemonsets and runtimeclasses; `patch` on
//! nodes; `create` and `patch` on runtimeclasses; `create` and `patch` on events of `events.k8s.io`.

pub mod admin;
mod bound;
pub mod metrics;
pub mod nodes;
pub mod runtime_classes;
mod start;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use start::run;

/// Keep Windows nodes labelled and tainted
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Directory with policy files; may be given several times. Without it, the built-in defaults hold
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// Kubeconfig of the cluster; without it, the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the lease by which one of several controllers leads
    #[arg(long, value_name = "NS")]
    pub lease_namespace: Option<String>,
    /// Address of the admin port: /healthz, /readyz, /metrics
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub admin_bind: SocketAddr,
}
