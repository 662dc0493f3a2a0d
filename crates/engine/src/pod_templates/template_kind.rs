//! One row of the table of kinds with pod templates.

use crate::pod_templates::expressions::Expressions;
use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_collector::PodCollector;

/// A kind with pod templates that is not one of Kubernetes.
#[derive(Debug, Clone, Copy)]
pub struct TemplateKind {
    /// Its API groups: the current one, and older ones.
    pub groups: &'static [&'static str],
    /// `Workflow`.
    pub kind: &'static str,
    /// Where its pods are, as a phrase.
    pub pods: &'static str,
    /// Which placement of the object its pods get, and what the controller adds.
    pub placement: &'static str,
    /// Whether `mutate --templates` writes into it.
    pub writes: TemplateWrites,
    /// The version of Mullion that reads it first: `0.1`. Under policies that were written for an earlier version its
    /// findings only warn.
    pub since: &'static str,
    /// Where these facts come from.
    pub sources: &'static [&'static str],
    pub(crate) templates: Templates,
    pub(crate) expressions: Expressions,
}

/// Whether `mutate --templates` writes into a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateWrites {
    /// Into its pod templates.
    Templates,
    /// Never, with the reason as a clause.
    Never(&'static str),
}

/// How the pods of a kind are found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Templates {
    /// The controller creates pods from complete pod templates at these pointers; `*` stands for each item of a list.
    At(&'static [&'static str]),
    /// The controller puts pods together from parts of the object.
    Assembled(fn(&PlacedValue<'_>, &mut PodCollector)),
}

impl TemplateKind {
    /// Whether an object of that group and kind is one.
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.kind == kind && self.groups.contains(&group)
    }

    /// Adds the pods of an object of this kind.
    pub(crate) fn collect(&self, object: &PlacedValue<'_>, pods: &mut PodCollector) {
        match self.templates {
            Templates::At(pointers) => pointers.iter().for_each(|pointer| pods.add_templates(object, pointer)),
            Templates::Assembled(collect) => collect(object, pods),
        }
    }
}

/// The group of an `apiVersion`; empty for the core group.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
