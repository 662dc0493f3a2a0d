//! Node fit of running pods, by Kubernetes' own rules: the constraints that the controller stores of each pod, typed
//! and small. The rules themselves are in [`node_constraints`](crate::model::scheduling::node_constraints) and
//! `tolerations`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::cluster::{RuntimeClass, Taint};
use crate::model::scheduling::node_constraints::requirement_holds;
use crate::model::scheduling::tolerations;

/// The members of a pod's `spec` that decide between nodes. All other members, and those of later Kubernetes versions,
/// are skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the Kubernetes fields of these names")]
pub struct SchedulingConstraints {
    pub node_name: Option<String>,
    pub node_selector: Option<BTreeMap<String, String>>,
    pub affinity: Option<Affinity>,
    pub tolerations: Option<Vec<TolerationTerm>>,
}

/// A toleration of a pod. It is parsed more leniently than a toleration in a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the Kubernetes fields of these names")]
pub struct TolerationTerm {
    pub key: Option<String>,
    pub operator: Option<String>,
    pub value: Option<String>,
    pub effect: Option<String>,
}

/// `spec.affinity`, as far as it concerns nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the Kubernetes fields of these names")]
pub struct Affinity {
    pub node_affinity: Option<NodeAffinity>,
}

/// `spec.affinity.nodeAffinity`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// Required terms; preferences are ignored.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<Terms>,
}

/// A node selector: at least one term must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the Kubernetes fields of these names")]
pub struct Terms {
    pub node_selector_terms: Option<Vec<Term>>,
}

/// One term: every requirement in it must match. An empty term never matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "the Kubernetes fields of these names")]
pub struct Term {
    pub match_expressions: Option<Vec<Expression>>,
    pub match_fields: Option<Vec<Expression>>,
}

/// One requirement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the Kubernetes fields of these names")]
pub struct Expression {
    pub key: String,
    pub operator: String,
    pub values: Option<Vec<String>>,
}

impl SchedulingConstraints {
    /// Whether the pod's node name, selector and affinity match the node; taints are not checked.
    pub fn fits<'l>(&self, name: &str, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.names(name) && self.missing_label(&label).is_none() && self.affinity_fits(name, label)
    }

    /// Whether the pod's node name, if it has one, is this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        let wanted = self.node_name.as_deref().filter(|wanted| !wanted.is_empty());
        wanted.is_none_or(|wanted| wanted == name)
    }

    /// The first pair of the node selector that the labels do not have.
    pub(crate) fn missing_label<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> Option<(&str, &str)> {
        let mut selector = self.node_selector.iter().flatten();
        let missing = selector.find(|(key, value)| label(key) != Some(value));
        missing.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether the required node affinity, if there is one, matches the node.
    pub(crate) fn affinity_fits<'l>(&self, name: &str, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let mut required =
            self.affinity.iter().filter_map(|affinity| affinity.node_affinity.as_ref()?.required.as_ref());
        required.all(|terms| terms.hold(name, &label))
    }

    /// Adds the constraints of the pod's RuntimeClass, as the API server does (`setScheduling` in
    /// plugin/pkg/admission/runtimeclass/admission.go), except tolerations that are too large to use. Returns false if the API server rejects the pod, because both
    /// select different nodes.
    pub fn takes_over(&mut self, class: &RuntimeClass) -> bool {
        let selector = self.node_selector.get_or_insert_default();
        for (key, value) in &class.node_selector {
            if selector.entry(key.clone()).or_insert_with(|| value.clone()) != value {
                return false;
            }
        }
        let brought = class
            .tolerations
            .parsed()
            .into_iter()
            .flatten()
            .filter_map(|toleration| TolerationTerm::deserialize(toleration).ok());
        self.tolerations.get_or_insert_default().extend(brought);
        true
    }

    /// Whether a toleration covers the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().flatten().any(|toleration| toleration.covers(taint))
    }
}

impl TolerationTerm {
    /// Whether it tolerates the taint.
    pub fn covers(&self, taint: &Taint) -> bool {
        let parts = [&self.key, &self.operator, &self.value, &self.effect];
        tolerations::covers(parts.map(|part| part.as_deref().unwrap_or_default()), taint)
    }
}

impl Terms {
    fn hold<'l>(&self, name: &str, label: &impl Fn(&str) -> Option<&'l str>) -> bool {
        self.node_selector_terms.iter().flatten().any(|term| term.holds(name, label))
    }
}

impl Term {
    fn holds<'l>(&self, name: &str, label: &impl Fn(&str) -> Option<&'l str>) -> bool {
        let expressions = || self.match_expressions.iter().flatten();
        let fields = || self.match_fields.iter().flatten();
        (expressions().next().is_some() || fields().next().is_some())
            && expressions().all(|expression| expression.holds(label(&expression.key)))
            && fields().all(|field| field.key == "metadata.name" && field.holds(Some(name)))
    }
}

impl Expression {
    fn holds(&self, found: Option<&str>) -> bool {
        requirement_holds(&self.operator, self.values.as_deref().unwrap_or_default(), found)
    }
}
