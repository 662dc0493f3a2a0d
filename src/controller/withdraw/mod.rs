//! Taking everything of Mullion out of a cluster again: nodes, RuntimeClasses, and the controllers' hands off both.
//!
//! ```text
//! ask for nodes (nothing is changed where that fails)
//!   → tell the controllers (`withdrawn` in each `mullion-state`), wait until they have stopped
//!   → one patch per node, 16 at a time; all nodes again, until nothing is left to take off
//!   → the RuntimeClasses of ours that nothing names
//! ```
//!
//! A node's taint, labels and record go in one patch: a taint that went alone could leave a record that says it
//! stands. "Taints first" is so among objects: every node is free before the first RuntimeClass goes, and before
//! anything that other objects could hold up. Each patch carries the `resourceVersion` it was made from, so taints that
//! others add meanwhile survive: a 409 reads the node and decides anew.
//!
//! Whose a taint is, the node's record says, and kubelets can write that: only a taint that a policy or `mullion-state`
//! knows goes (see [`Trust`](mullion_engine::node::node_patch::Trust)).
//!
//! A `mullion-state` that is made here belongs to the controller's ServiceAccount, as its Lease does: it goes when the
//! release goes, and not before. Where neither Lease nor state is, no controller ever worked, and none is made: it would
//! be left behind, and tell the next installation to be idle.
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
//! | leases | `mullion-controller` | the cluster | `list` | without `--lease-namespace`; else its own namespace is the only one told |
//! | configmaps | `mullion-state` | the cluster | `list` | without `--lease-namespace` |

pub mod calls;
pub mod classes;
pub mod controllers;
pub mod nodes;
pub mod plan;
pub mod users;

use kube::Client;
use mullion_engine::model::settings::node_settings::NodeSettings;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::controller::withdraw::calls::Calls;

/// What is wanted.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Policies whose taints are known to be Mullion's, besides the built-in and those in `mullion-state`.
    pub policies: Vec<NodeSettings>,
    /// The one namespace to look for Mullion in; `None`: every namespace.
    pub namespace: Option<String>,
    /// Only find out.
    pub dry_run: bool,
}

/// What happens, while it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Worth a line.
    Note(String),
    /// How many nodes of those with something to take off are done.
    Nodes {
        /// Done.
        done: usize,
        /// All.
        all: usize,
    },
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Mullion's namespaces.
    pub controllers: Vec<Told>,
    /// How many nodes there are.
    pub nodes: usize,
    /// Nodes that something was taken off, or would be, in order of name, with what it is.
    pub cleaned: Vec<Cleaned>,
    /// RuntimeClasses of Mullion, in order of name.
    pub classes: Vec<Class>,
    /// What stayed that should have gone.
    pub left: Vec<Left>,
}

/// A namespace with a Mullion of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Its name.
    pub namespace: String,
    /// How its controller took it.
    pub controller: Hearing,
}

/// How a controller took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Hearing {
    /// It says that it leaves the cluster alone.
    Stopped,
    /// Nobody holds the lease: whoever takes it reads first that Mullion is withdrawn.
    Nobody,
    /// Neither lease nor state is there: none ever worked.
    Never,
    /// Somebody holds the lease and said nothing.
    Silent,
    /// It could not be told.
    Untold,
    /// It would be told (`--dry-run`).
    Unasked,
    /// It may work again (`--undo`).
    Resumed,
    /// It was never withdrawn (`--undo`).
    AtWork,
}

/// A node that something was taken off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Its name.
    pub name: String,
    /// What was taken off, in words.
    pub removed: Vec<String>,
}

/// A RuntimeClass of Mullion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Whether it is gone (or would be).
    pub deleted: bool,
    /// The first few that name it: `Deployment shop/web`.
    pub named_by: Vec<String>,
    /// How many name it.
    pub names: usize,
}

/// Something that stayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// What: `node win-7`.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do.
    pub help: String,
}

/// Takes everything of Mullion out of the cluster, until `stop`. An error means that nothing could be read and nothing
/// was changed.
pub async fn withdraw(
    client: Client,
    options: &Options,
    stop: &CancellationToken,
    say: &mut dyn FnMut(Step),
) -> anyhow::Result<Report> {
    let calls = Calls::new(client, stop.clone());
    nodes::first_look(&calls).await?;
    let mut report = Report::default();
    let stopped = controllers::stop(&calls, options, &mut report, say).await;
    let trust = plan::trust(&options.policies, &stopped.states);
    nodes::clean(&calls, &trust, options.dry_run, stopped.for_sure, &mut report, say).await;
    classes::delete(&calls, options.dry_run, &mut report).await;
    Ok(report)
}

/// Lets the controllers work again.
pub async fn undo(
    client: Client,
    options: &Options,
    stop: &CancellationToken,
    say: &mut dyn FnMut(Step),
) -> anyhow::Result<Report> {
    let calls = Calls::new(client, stop.clone());
    calls.first_contact().await?;
    let mut report = Report::default();
    controllers::resume(&calls, options, &mut report, say).await;
    Ok(report)
}

#[cfg(test)]
mod tests;
