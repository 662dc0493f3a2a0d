//! The match of a policy: the namespaces and pods to which it applies.

use std::collections::BTreeMap;

use mullion_engine::model::settings::{Labels, NamespacePatterns};
use mullion_engine::policy_object;
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

policy_object! {
    /// `spec.match`: all members must match.
    #[derive(Debug, Clone, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct PolicyMatch {
        /// Namespaces by name: those that are included and not excluded.
        #[key("namespaces", example: Some("{include: [team-a-*], exclude: [team-a-sandbox]}"))]
        pub namespaces: NamespacePatterns,
        /// Namespaces by their labels. If a namespace is unknown (`mullion check` without `--snapshot`, or a namespace
        /// that could not be read), a policy with a `namespaceSelector` does not match.
        #[key("namespaceSelector", example: Some("{matchLabels: {team: web}}"))]
        pub namespace_selector: LabelSelector,
        /// Pods by their labels; for a workload such as a Deployment, the labels of its pod template. The author of a
        /// pod chooses these labels, so do not rely on them for security.
        #[key("podSelector", example: Some("{matchExpressions: [{key: windows-legacy, operator: Exists}]}"))]
        pub pod_selector: LabelSelector,
    }
}
