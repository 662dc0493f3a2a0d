//! Settings of one review, resolved from the policies. The engine does not know policies.

use std::sync::Arc;

use crate::model::settings::node_settings::NodeSettings;
use crate::model::settings::workload_settings::Settings;

/// What policies set for one review.
#[derive(Debug, Clone)]
pub struct ReviewSettings<'a> {
    /// The settings for the workload after the operation.
    pub new: Arc<Settings>,
    /// The settings for the workload before an UPDATE, because its labels may match other policies. `None` if the
    /// request is not such an UPDATE.
    pub old: Option<Arc<Settings>>,
    /// What the NodePolicy sets.
    pub nodes: &'a NodeSettings,
    /// Whether any policy selects namespaces by their labels: if so, labels that are not known may change the result.
    pub by_namespace_labels: bool,
}
