//! `mullion controller`: keeps Windows nodes labelled and tainted, a RuntimeClass for each Windows release, the webhook's
//! certificates, and what must not be forgotten in ConfigMap `mullion-state`.
//!
//! ```text
//! watches (nodes, DaemonSets, RuntimeClasses, namespaces) ─┐
//! policies, every 10 s ────────────────────────────────────┼→ work loop (nodes) → plan_node → one merge patch per node
//!                                                          ├→ runtime_classes::plan → create or merge patch
//! snapshot, policies, ConfigMap mullion-state ────────────────┴→ memory → ConfigMap mullion-state
//! ```
//!
//! Of several controllers one works, the holder of the [`lease`]; the others follow the lease and the policy files and
//! do nothing else.
//!
//! Everything is recomputed from what the cluster holds: a restart or a second controller changes nothing that is
//! right. Writes carry the `resourceVersion` they were computed from, so a race ends in a 409 and a new plan.
//!
//! While `mullion withdraw` keeps Mullion out of the cluster ([`withdraw`]), it changes none of this and says so.
//!
//! Rights it needs, which are those that the chart gives:
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
//! And one that every authenticated user has: `create` on selfsubjectreviews of `authentication.k8s.io`, to find out
//! whose the objects are that it makes (`cluster::owner_references`). Where the admission plugin `OwnerReferencesPermissionEnforcement`
//! is on, objects that exist without their owner get it only with `delete` on them as well: not needed to work.

pub mod admin;

pub mod bound;

pub mod certificates;

pub mod events;

pub mod leader;

pub mod leading;

pub mod lease;

pub mod memory;

pub mod metrics;

pub mod nodes;

pub mod pods;

pub mod policies;

pub mod reachability;

pub mod runtime_classes;

pub mod start;

pub mod withdraw;

pub mod withdrawn;

pub mod args;
pub mod names;
