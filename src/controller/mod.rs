//! `mullion controller`: labels and taints of Windows nodes, a RuntimeClass for each Windows release, the webhook's
//! certificates, and ConfigMap `mullion-state`, which outlives every process.
//!
//! ```text
//! watches (nodes, DaemonSets, RuntimeClasses, namespaces) ─┐
//! policies, every 10 s ────────────────────────────────────┼→ queue (nodes) → plan_node → one merge patch per node
//!                                                          ├→ runtime_classes::plan → create or merge patch
//! snapshot, policies, ConfigMap mullion-state ─────────────┼→ state → ConfigMap mullion-state
//! what the control loops find ─────────────────────────────┴→ report → ConfigMap mullion-state
//! ```
//!
//! Of several controllers only the holder of the [`lease`] works; the others only follow the lease and the policy
//! files.
//!
//! Everything is recomputed from the cluster, so a restart or a second controller changes nothing that is correct.
//! Writes contain the `resourceVersion` that they were computed from, so a race ends in a 409 and a new plan.
//!
//! After `mullion withdraw` ([`withdraw`]), the controller changes no node, RuntimeClass or pod, and reports that. It
//! still renews certificates and writes conditions.
//!
//! It needs these permissions, which the chart grants:
//!
//! | on | named | in | verbs | when |
//! |---|---|---|---|---|
//! | nodes |  | the cluster | `list`, `watch`, `patch` |  |
//! | namespaces, daemonsets |  | the cluster | `list`, `watch` |  |
//! | pods |  | the cluster | `get`, `list`, `watch`, `patch` |  |
//! | replicasets, jobs |  | the cluster | `get` |  |
//! | runtimeclasses |  | the cluster | `list`, `watch`, `create`, `patch` |  |
//! | events |  | the cluster | `create`, `patch` | ; of `events.k8s.io` |
//! | mutatingwebhookconfigurations, validatingwebhookconfigurations | `mullion` | the cluster | `get` |  |
//! | mutatingwebhookconfigurations, validatingwebhookconfigurations | `mullion` | the cluster | `list`, `watch`, `patch` | `--webhook-service` |
//! | pods |  | the probe namespace | `create` | ; a dry run needs it, and stores nothing |
//! | leases |  | its own namespace | `create` |  |
//! | leases | `mullion-controller` | its own namespace | `get`, `update` |  |
//! | configmaps |  | its own namespace | `create` |  |
//! | configmaps | `mullion-state` | its own namespace | `get`, `list`, `watch`, `patch` |  |
//! | secrets |  | its own namespace | `create` | `--webhook-service` |
//! | secrets | `mullion-ca`, `mullion-tls` | its own namespace | `get`, `list`, `watch`, `patch`, `delete` | `--webhook-service` |
//!
//! The chart limits each of these writes, except Events, to what the controller writes
//! (`charts/mullion/templates/fence`); [`denied_write`] reports a write that is denied there.
//!
//! It also uses a permission that every authenticated user has: `create` on selfsubjectreviews of
//! `authentication.k8s.io`, to find the owner of the objects that it creates (`cluster::owner_references`). If the
//! admission plugin `OwnerReferencesPermissionEnforcement` is on, existing objects without an owner get it only with
//! permission to `delete` them, which Mullion does not need.

mod admin;
mod args;
mod certificates;
mod control_loops;
mod denied_write;
pub(crate) mod event_reasons;
mod events;
mod leader_context;
mod lease;
pub mod metrics;
pub mod nodes;
mod own_namespace;
mod own_taints;
pub mod pods;
mod policy_status;
mod reachability;
mod repair_mode;
mod report;
mod reported_facts;
mod runtime_classes;
mod settled_builds;
pub(crate) mod start;
pub mod state;
mod webhook_configuration;
pub(crate) mod withdraw;
mod withdrawn;

pub(crate) use args::ControllerArgs;
pub use leader_context::LeaderContext;
pub(crate) use lease::LEASE_NAME;
pub use metrics::{CertificateObject, ControllerMetrics};
pub(crate) use nodes::toleration_text;
pub(crate) use own_namespace::{UnknownNamespace, registered_namespace};
pub(crate) use pods::WebhookSelectors;
pub(crate) use reachability::{Probe, Reach, random_value, send_probe};
pub(crate) use webhook_configuration::{
    CONFIGURATION, OTHER_PODS_WEBHOOK, PODS_WEBHOOK, RegisteredWebhook, TEMPLATES_WEBHOOK, WebhookConfiguration,
};
