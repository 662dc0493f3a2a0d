//! Options, progress and report of a withdrawal.

use std::collections::BTreeMap;

use mullion_engine::model::settings::NodeSettings;
use serde::Serialize;

use crate::controller::withdraw::users::ClassUsers;

/// The options of a withdrawal.
#[derive(Debug, Clone, Default)]
pub(crate) struct WithdrawOptions {
    /// Policies with taints of Mullion, in addition to the built-in ones and those in `mullion-state`.
    pub policies: Vec<NodeSettings>,
    /// Mullion's namespace; `None`: that of the webhook configurations.
    pub namespace: Option<String>,
    /// Whether to write nothing.
    pub dry_run: bool,
}

/// The progress of a withdrawal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WithdrawProgress {
    /// A line of text.
    Note(String),
    /// How many of the nodes with changes of Mullion are done.
    Nodes {
        /// The number of nodes that are done.
        done: usize,
        /// The number of all nodes with changes of Mullion.
        all: usize,
    },
}

/// The result of a withdrawal, or of its dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WithdrawReport {
    /// Mullion's namespace.
    pub namespace: String,
    /// The controller of that namespace.
    pub controller: ControllerStatus,
    /// The number of nodes.
    pub nodes: usize,
    /// Nodes, each with what was removed from it, as text.
    pub cleaned: BTreeMap<String, Vec<String>>,
    /// RuntimeClasses of Mullion, each with its users; those without users are deleted.
    pub classes: BTreeMap<String, ClassUsers>,
    /// Objects that could not be cleaned or deleted.
    pub left: Vec<Remainder>,
}

impl WithdrawReport {
    /// The report of a withdrawal that has found nothing yet.
    pub(crate) fn of(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            controller: ControllerStatus::NeverWorked,
            nodes: 0,
            cleaned: BTreeMap::new(),
            classes: BTreeMap::new(),
            left: Vec::new(),
        }
    }
}

/// The status of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ControllerStatus {
    /// It reports that it changes nothing.
    Stopped,
    /// No process holds the lease. The next holder first reads that Mullion is withdrawn.
    NoLeader,
    /// There is neither lease nor state: no controller ever worked.
    NeverWorked,
    /// A process holds the lease and does not report that it has stopped.
    Silent,
    /// `withdrawn` could not be written.
    NotNotified,
    /// `withdrawn` would be written, or removed (`--dry-run`).
    DryRun,
    /// It may work again (`--undo`).
    Resumed,
    /// It was never withdrawn (`--undo`).
    AtWork,
}

/// An object that could not be cleaned or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remainder {
    /// Kind and name: `node win-7`.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do.
    pub help: String,
}

impl Remainder {
    /// A remainder that another withdrawal removes, once the cause is fixed.
    pub(crate) fn of(what: impl Into<String>, why: String) -> Self {
        Self { what: what.into(), why, help: "fix that, and run mullion withdraw again".to_owned() }
    }
}
