//! What a workload needs of the cluster besides its own change: labels of the new pool, and RuntimeClasses.

use serde_json::Value;

/// What a workload needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClusterNeed {
    /// Nodes of a new pool with a label.
    Label { pool: String, key: String, value: String },
    /// A RuntimeClass, with its manifest, in place of another one.
    RuntimeClass { name: String, manifest: Value, instead_of: String },
}
