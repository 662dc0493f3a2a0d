//! The withdrawal: stops the controller, and removes Mullion's changes from nodes and its RuntimeClasses.
//!
//! ```text
//! list nodes (if that fails, nothing is changed)
//!   → set `withdrawn` in `mullion-state`, wait until the controller reports that it has stopped
//!   → one patch per node, 16 at a time; all nodes again, until nothing is left to remove
//!   → delete those of Mullion's RuntimeClasses that no object uses
//! ```
//!
//! One patch removes a node's taint, labels and record, because a separate removal of the taint could leave its record.
//! Nodes are cleaned first: RuntimeClasses are deleted after the last node, because other objects can delay that. Each
//! patch contains the `resourceVersion` that it was computed from, so taints that others add meanwhile stay: after a
//! 409 the node is read and planned again.
//!
//! A node's record contains Mullion's taint, and kubelets can write the record. So a taint is removed only if it is also
//! one of Mullion's own (`own_taints`).
//!
//! A `mullion-state` that is created here has the controller's ServiceAccount as its owner, as its Lease has: it is
//! deleted with the release, and not before. If there is neither Lease nor state, no controller ever worked, and no
//! state is created, because it would remain and keep the next installation idle.
//!
//! Certificates stay, and the leading controller still renews them. The garbage collector deletes their Secrets with
//! the controller's ServiceAccount.
//!
//! It needs these permissions, which the chart grants to its Job:
//!
//! | on | named | in | verbs | when |
//! |---|---|---|---|---|
//! | nodes |  | the cluster | `get`, `list`, `patch` |  |
//! | runtimeclasses |  | the cluster | `list`, `create`, `delete` |  |
//! | pods, podtemplates, replicationcontrollers, deployments, statefulsets, daemonsets, replicasets, jobs, cronjobs |  | the cluster | `list` | ; without one of these, the RuntimeClasses stay |
//! | leases | `mullion-controller` | its own namespace | `get` |  |
//! | configmaps | `mullion-state` | its own namespace | `get`, `patch` |  |
//! | configmaps |  | its own namespace | `create` |  |
//! | mutatingwebhookconfigurations, validatingwebhookconfigurations | `mullion` | the cluster | `get` | without `--namespace` |

mod calls;
mod classes;
mod controllers;
mod nodes;
mod plan;
mod report;
mod users;
mod withdrawal;

pub(crate) use report::{ControllerStatus, Remainder, WithdrawOptions, WithdrawProgress, WithdrawReport};
pub(crate) use users::ClassUsers;
pub(crate) use withdrawal::{undo, withdraw};

#[cfg(test)]
mod tests;
