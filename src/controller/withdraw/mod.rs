//! Taking everything of Mullion out of a cluster again: nodes, RuntimeClasses, and the controllers' hands off both.
//!
//! ```text
//! ask for nodes (nothing is changed where that fails)
//!   → set `withdrawn` in each `mullion-state`, wait until the controllers report that they have stopped
//!   → one patch per node, 16 at a time; all nodes again, until nothing is left to take off
//!   → the RuntimeClasses of ours that nothing names
//! ```
//!
//! A node's taint, labels and record go in one patch: a taint that went alone could leave a record of it. "Taints first" is
//! so among objects: every node is free before the first RuntimeClass goes, and before anything that other objects could
//! hold up. Each patch carries the `resourceVersion` it was made from, so taints that others add meanwhile survive: a 409
//! reads the node and decides again.
//!
//! A node's record names Mullion's taint, and kubelets can write that: only a taint that a policy or `mullion-state`
//! knows goes (see [`Trust`](mullion_engine::node::node_patch::Trust)).
//!
//! A `mullion-state` that is made here belongs to the controller's ServiceAccount, as its Lease does: it goes when the
//! release goes, and not before. Where neither Lease nor state is, no controller ever worked, and none is made: it would
//! be left behind, and keep the next installation idle.
//!
//! Rights it needs, which are those that the chart gives to its Job:
//!
//! | on | named | in | verbs | when |
//! |---|---|---|---|---|
//! | nodes |  | the cluster | `get`, `list`, `patch` |  |
//! | runtimeclasses |  | the cluster | `list`, `create`, `delete` |  |
//! | pods, podtemplates, replicationcontrollers, deployments, statefulsets, daemonsets, replicasets, jobs, cronjobs |  | the cluster | `list` | ; without one of these, the RuntimeClasses stay |
//! | leases | `mullion-controller` | its own namespace | `get` |  |
//! | configmaps | `mullion-state` | its own namespace | `get`, `patch` |  |
//! | configmaps |  | its own namespace | `create` |  |
//! | leases | `mullion-controller` | the cluster | `list` | without `--lease-namespace`; else only that namespace's controller stops |
//! | configmaps | `mullion-state` | the cluster | `list` | without `--lease-namespace` |

pub mod calls;
pub mod classes;
pub mod controllers;
pub mod nodes;
pub mod plan;
pub mod users;

use std::collections::BTreeMap;

use kube::Client;
use mullion_engine::model::settings::node_settings::NodeSettings;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::controller::withdraw::calls::Calls;
use crate::controller::withdraw::users::ClassUsers;

/// What a withdrawal is given.
#[derive(Debug, Clone, Default)]
pub struct WithdrawOptions {
    /// Policies whose taints are known to be Mullion's, besides the built-in and those in `mullion-state`.
    pub policies: Vec<NodeSettings>,
    /// The one namespace to look for Mullion in; `None`: every namespace.
    pub namespace: Option<String>,
    /// Nothing is written.
    pub dry_run: bool,
}

/// What happens during a withdrawal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithdrawProgress {
    /// A line for people.
    Note(String),
    /// How many nodes of those with something to take off are done.
    Nodes {
        /// Done.
        done: usize,
        /// All.
        all: usize,
    },
}

/// What a withdrawal did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WithdrawReport {
    /// Mullion's namespaces, each with its controller.
    pub controllers: BTreeMap<String, ControllerStatus>,
    /// How many nodes there are.
    pub nodes: usize,
    /// Nodes, each with what was taken off it, in words.
    pub cleaned: BTreeMap<String, Vec<String>>,
    /// RuntimeClasses of Mullion, each with who names it: those that nothing names are deleted.
    pub classes: BTreeMap<String, ClassUsers>,
    /// What stayed that should have gone.
    pub left: Vec<Remainder>,
}

/// What is known of the controller of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ControllerStatus {
    /// It reports that it leaves the cluster alone.
    Stopped,
    /// Nobody holds the lease: whoever takes it reads first that Mullion is withdrawn.
    #[serde(rename = "nobody")]
    NoLeader,
    /// Neither lease nor state is there: none ever worked.
    #[serde(rename = "never")]
    NeverWorked,
    /// Somebody holds the lease and does not report that it has stopped.
    Silent,
    /// `withdrawn` could not be written.
    NotNotified,
    /// `withdrawn` would be written, or taken away (`--dry-run`).
    DryRun,
    /// It may work again (`--undo`).
    Resumed,
    /// It was never withdrawn (`--undo`).
    AtWork,
}

/// Something that stayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remainder {
    /// What: `node win-7`.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do.
    pub help: String,
}

impl Remainder {
    /// Of what another withdrawal takes away, once its cause is gone.
    pub(crate) fn of(what: impl Into<String>, why: String) -> Self {
        Self { what: what.into(), why, help: "see to that, and run mullion withdraw again".to_owned() }
    }
}

/// Takes everything of Mullion out of the cluster, until `stop`. An error means that nothing could be read and nothing
/// was changed.
pub async fn withdraw(
    client: Client,
    options: &WithdrawOptions,
    stop: &CancellationToken,
    progress: &mut dyn FnMut(WithdrawProgress),
) -> anyhow::Result<WithdrawReport> {
    let calls = Calls::new(client, stop.clone());
    nodes::check_access(&calls).await?;
    let mut report = WithdrawReport::default();
    let states = controllers::stop(&calls, options, &mut report, progress).await;
    let trust = plan::trust(&options.policies, &states);
    nodes::clean(&calls, &trust, options.dry_run, &mut report, progress).await;
    classes::delete(&calls, options.dry_run, &mut report).await;
    Ok(report)
}

/// Lets the controllers work again.
pub async fn undo(
    client: Client,
    options: &WithdrawOptions,
    stop: &CancellationToken,
    progress: &mut dyn FnMut(WithdrawProgress),
) -> anyhow::Result<WithdrawReport> {
    let calls = Calls::new(client, stop.clone());
    calls.check_server().await?;
    let mut report = WithdrawReport::default();
    controllers::resume(&calls, options, &mut report, progress).await;
    Ok(report)
}

#[cfg(test)]
mod tests;
