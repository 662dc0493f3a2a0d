//! Which namespaces and pods a policy is about.

use std::collections::BTreeMap;

use mullion_engine::model::settings::labels::Labels;
use serde::Deserialize;

use crate::matching::glob::Glob;
use crate::matching::selector::LabelSelector;

impl Match {
    /// Whether all members hold.
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

impl Namespaces {
    /// Whether the namespace is included (no list includes all) and not excluded.
    pub fn matches(&self, namespace: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|glob| glob.matches(namespace)))
            && !self.exclude.iter().any(|glob| glob.matches(namespace))
    }

    /// The namespaces it is about at most, if that can be told without asking a cluster: an `include` without stars.
    pub(crate) fn literal(&self) -> Option<impl Iterator<Item = &str>> {
        let literal = !self.include.is_empty() && self.include.iter().all(Glob::is_literal);
        literal.then(|| self.include.iter().map(|name| name.0.as_str()))
    }
}

/// `spec.match`: all members must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Match {
    /// Globs over namespace names; `exclude` wins.
    pub namespaces: Namespaces,
    /// Over the namespace's labels.
    pub namespace_selector: LabelSelector,
    /// Over the labels of the pod or of the pod template.
    pub pod_selector: LabelSelector,
}

/// `spec.match.namespaces`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Namespaces {
    /// Empty means every namespace.
    pub include: Vec<Glob>,
    /// Wins over `include`.
    pub exclude: Vec<Glob>,
}
