//! NetworkPolicies that select pods of Windows workloads, on nodes where no known engine enforces them.

use std::collections::HashSet;

use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::text::list_with_others;
use mullion_policy::matching::LabelSelector;

use crate::analysis::agents::enforcing_nodes;
use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::fleet::Fleet;
use crate::analysis::workload_view::WorkloadView;
use crate::inventory::Inventory;
use crate::report::{FirstObjects, ObjectRef, Unknown};

/// The maximum number of comparisons of a requirement with the labels of a workload in one survey: 1,000 policies of one
/// namespace with 10,000 workloads.
const MAX_COMPARISONS: usize = 10_000_000;

/// The maximum number of policies that a finding names.
const MAX_NAMED: usize = 3;

/// The policies and the nodes that enforce them.
#[derive(Debug)]
pub(crate) struct NetworkPolicies<'a> {
    inventory: &'a Inventory,
    /// `None` if that is not known.
    enforcing: Option<HashSet<&'a str>>,
    left: usize,
    /// Workloads that were not compared.
    not_compared: FirstObjects,
}

impl<'a> NetworkPolicies<'a> {
    pub(crate) fn new(inventory: &'a Inventory, fleet: &Fleet<'_>, found: &Findings<'_>) -> Self {
        let has_policies = !inventory.network_policies.is_empty();
        let enforcing = has_policies.then(|| enforcing_nodes(inventory, fleet, found)).flatten();
        Self { inventory, enforcing, left: MAX_COMPARISONS, not_compared: FirstObjects::default() }
    }

    /// Adds the pods of a Windows workload that policies select and nothing protects.
    pub(crate) fn find(&mut self, view: &WorkloadView<'_>, fleet: &Fleet<'_>, found: &mut Findings<'_>) {
        // The network of the host is not that of a pod.
        let Some(enforcing) = self.enforcing.as_ref().filter(|_| view.is_known_windows() && !view.host_process) else {
            return;
        };
        let is_open = |name: &&str| !enforcing.contains(name) && fleet.is_windows(name);
        let open: Vec<_> = view
            .pods
            .iter()
            .filter(|pod| !pod.ended)
            .filter_map(|pod| Some((pod, pod.node.as_deref().filter(is_open)?)))
            .collect();
        if open.is_empty() {
            return;
        }
        let Some(policies) = self.selecting(view) else { return };
        let Some(message) = sentence(&policies) else { return };
        for (pod, node) in open {
            let place = FoundPlace {
                pod: Some(&pod.name),
                node: Some(node),
                related: policies.iter().take(MAX_NAMED).map(|name| policy_object(view, name)).collect(),
                ..FoundPlace::new("SUR309", view.path("metadata.labels"), message.clone())
            };
            found.add(&view.object, place);
        }
    }

    /// The policies that select the pods of a workload; `None` if that takes too long to compute.
    fn selecting(&mut self, view: &WorkloadView<'_>) -> Option<Vec<&'a str>> {
        let policies = self.inventory.network_policies.get(view.object.namespace.as_str())?;
        let pod = Pod::of(view.kind, &view.value)?;
        let mut selecting = Vec::new();
        for policy in policies {
            let Some(left) = self.left.checked_sub(comparisons(&policy.selector)) else {
                self.not_compared.add(&view.object);
                return None;
            };
            self.left = left;
            if policy.selector.matches(&pod) {
                selecting.push(&*policy.name);
            }
        }
        Some(selecting)
    }

    /// The workloads for which too many policies would have to be compared.
    pub(crate) fn unknown(self) -> Option<Unknown> {
        Unknown::of(
            "Which NetworkPolicies select the pods of these workloads is not known: there are too many to compare.",
            "Survey one namespace at a time with -n.",
            self.not_compared,
        )
    }
}

/// The number of comparisons of a selector with labels.
fn comparisons(selector: &LabelSelector) -> usize {
    let of_expressions = selector.match_expressions.iter().map(|requirement| 1 + requirement.values.len());
    1 + selector.match_labels.len() + of_expressions.sum::<usize>()
}

fn policy_object(view: &WorkloadView<'_>, name: &str) -> ObjectRef {
    ObjectRef { namespace: view.object.namespace.clone(), kind: "NetworkPolicy".to_owned(), name: name.to_owned() }
}

/// What the policies mean; `None` without one.
fn sentence(policies: &[&str]) -> Option<String> {
    let (noun, verb, them) = match policies.len() {
        1 => ("NetworkPolicy", "selects", "it"),
        _ => ("NetworkPolicies", "select", "them"),
    };
    (!policies.is_empty()).then(|| {
        format!(
            "The {noun} {} {verb} these pods, and no engine that Mullion knows has a pod on their Windows nodes to enforce {them}.",
            list_with_others(policies, MAX_NAMED)
        )
    })
}
