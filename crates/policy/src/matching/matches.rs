//! The match of a policy: the namespaces and pods to which it applies.

use std::collections::BTreeMap;

use mullion_engine::model::settings::{Labels, NamespacePatterns};
use serde::Deserialize;

use crate::matching::selector::LabelSelector;

impl PolicyMatch {
    /// Whether all members match.
    pub fn matches(
        &self,
        namespace: &str,
        namespace_labels: Option<&BTreeMap<String, String>>,
        pod_labels: &dyn Labels,
    ) -> bool {
        self.namespaces.matches(namespace)
            && (self.namespace_selector.is_empty()
                || namespace_labels.is_some_and(|labels| self.namespace_selector.matches(labels)))
            && self.pod_selector.matches(pod_labels)
    }
}

/// `spec.match`: all members must match.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PolicyMatch {
    /// Patterns for names of namespaces; `exclude` takes precedence.
    pub namespaces: NamespacePatterns,
    /// For the labels of the namespace.
    pub namespace_selector: LabelSelector,
    /// For the labels of the pod or of the pod template.
    pub pod_selector: LabelSelector,
}
