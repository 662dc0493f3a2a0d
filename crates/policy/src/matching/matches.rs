//! The match of a policy: the namespaces and pods to which it applies.

use std::collections::BTreeMap;

use mullion_engine::model::settings::Labels;
use serde::Deserialize;

use crate::matching::glob::Glob;
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

impl NamespaceMatch {
    /// Whether the namespace is included (an empty list includes all) and not excluded.
    pub fn matches(&self, namespace: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|glob| glob.matches(namespace)))
            && !self.exclude.iter().any(|glob| glob.matches(namespace))
    }

    /// The namespaces that it can match, if that is known without a cluster: an `include` without wildcards.
    pub(crate) fn literal(&self) -> Option<impl Iterator<Item = &str>> {
        let literal = !self.include.is_empty() && self.include.iter().all(Glob::is_literal);
        literal.then(|| self.include.iter().map(|name| name.0.as_str()))
    }
}

/// `spec.match`: all members must match.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PolicyMatch {
    /// Patterns for names of namespaces; `exclude` takes precedence.
    pub namespaces: NamespaceMatch,
    /// For the labels of the namespace.
    pub namespace_selector: LabelSelector,
    /// For the labels of the pod or of the pod template.
    pub pod_selector: LabelSelector,
}

/// `spec.match.namespaces`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NamespaceMatch {
    /// Empty means every namespace.
    pub include: Vec<Glob>,
    /// Takes precedence over `include`.
    pub exclude: Vec<Glob>,
}
