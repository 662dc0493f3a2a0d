//! Resolved settings of one review: the engine itself knows no policies.

use std::sync::Arc;

use crate::model::settings::node_settings::NodeSettings;
use crate::model::settings::workload_settings::Settings;

/// What policies set for one review.
#[derive(Debug, Clone)]
pub struct ReviewSettings<'a> {
    /// For the workload after the operation.
    pub new: Arc<Settings>,
    /// For the workload before an UPDATE, whose labels may match other policies. `None`: the request is not such an UPDATE.
    pub old: Option<Arc<Settings>>,
    /// What the NodePolicy sets.
    pub nodes: &'a NodeSettings,
    /// Whether any policy selects namespaces by their labels: then labels that are not known may change the result.
    pub by_namespace_labels: bool,
}
