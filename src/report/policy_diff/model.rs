//! What two sets of policies decide differently: workloads, nodes, and the keys that cause it.

use std::collections::BTreeMap;

use mullion_engine::model::settings::Origin;
use serde::Serialize;
use serde_json::Value;

use crate::report::json::ObjectName;
use crate::report::workload_result::WorkloadResult;

/// The kind of a difference, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DifferenceCategory {
    /// Denied now, and not before.
    Denied,
    /// Not denied now, and denied before.
    NoLongerDenied,
    /// Another operating system or placement.
    Placed,
    /// Other findings, repairs or hint.
    Reported,
}

/// One key with its values on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct KeyDifference {
    /// Dotted path below `spec`; for a NodePolicy with that word before it.
    pub(crate) key: String,
    pub(crate) old: KeyValue,
    pub(crate) new: KeyValue,
    /// The rule, for an entry of `rules.actions`.
    #[serde(skip)]
    pub(crate) rule: Option<&'static str>,
}

/// The value of a key, and its origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct KeyValue {
    pub(crate) value: Value,
    /// `None` for the built-in default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<Origin>,
}

/// One workload with different results.
#[derive(Debug, Clone)]
pub(crate) struct WorkloadDifference {
    pub(crate) category: DifferenceCategory,
    pub(crate) old: WorkloadResult,
    pub(crate) new: WorkloadResult,
    pub(crate) causes: Vec<KeyDifference>,
}

/// A workload, and its place in the input.
pub(crate) struct ComparedWorkload {
    pub(crate) name: ObjectName,
    /// Kind and name.
    pub(crate) owner: Option<(String, String)>,
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// One node that would be labeled or tainted differently.
pub(crate) struct NodeDifference {
    pub(crate) name: String,
    /// `- taint os=windows:NoSchedule`, `+ label …`: what is present only under the old policy, and only under the new
    /// one.
    pub(crate) lines: Vec<String>,
}

/// A policy that is only on one side, or a key that differs.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum SettingDifference {
    /// Kind and name of a policy, and its origin on each side.
    Policy {
        policy: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        old: Option<Origin>,
        #[serde(skip_serializing_if = "Option::is_none")]
        new: Option<Origin>,
    },
    /// A key of a policy.
    Key {
        policy: String,
        #[serde(flatten)]
        cause: KeyDifference,
    },
}

/// Workloads with the same differences and causes.
pub(super) struct DifferenceGroup {
    pub(super) category: DifferenceCategory,
    pub(super) members: Vec<ComparedWorkload>,
    pub(super) differences: Vec<String>,
    pub(super) causes: Vec<String>,
}

/// What a document shows of the difference between two sets of policies.
#[derive(Default)]
pub(super) struct PolicyDifferences {
    /// The most important first.
    pub(super) groups: Vec<DifferenceGroup>,
    /// The names of nodes by their differences.
    pub(super) nodes: BTreeMap<Vec<String>, Vec<String>>,
    /// The keys that decide about nodes.
    pub(super) node_causes: Vec<String>,
}

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiffTotals {
    /// Pods and templates that are reviewed.
    pub(crate) workloads: usize,
    /// Workloads with different results: the sum of the next four.
    pub(crate) different: usize,
    pub(crate) denied: usize,
    pub(crate) no_longer_denied: usize,
    pub(crate) placed: usize,
    pub(crate) reported: usize,
    /// Nodes that would be labeled or tainted differently.
    pub(crate) nodes: usize,
    /// All nodes.
    pub(crate) nodes_compared: usize,
    /// Pods, `ReplicaSet` and Job objects that are reviewed with their owner.
    pub(crate) reviewed_with_owner: usize,
    /// Files, documents and objects that cannot be read.
    pub(crate) unreadable: usize,
}
