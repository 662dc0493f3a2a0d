//! DaemonSets for Windows nodes, and the pools where they have no pod.

use std::collections::HashSet;

use mullion_engine::model::Os;
use mullion_engine::model::cluster::{Node, Taint};
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::text::{counted, list_with, lower_first};
use mullion_engine::model::{DetectedOs, WorkloadKind};

use crate::analysis::findings::{Findings, FoundPlace};
use crate::analysis::fleet::{Fleet, FleetNode, POOL_LABELS};
use crate::analysis::node_classes::{blocking, fits};
use crate::analysis::workload_view::WorkloadView;
use crate::evidence::{ListEvidence, Statement};
use crate::inventory::Inventory;
use crate::report::{DaemonSetPools, MissingPool};

/// Why a node has no pod.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Absence {
    Taint(Vec<String>),
    Selector(Vec<String>),
    Unknown,
}

/// The pools of a DaemonSet; `None` for other workloads, and for DaemonSets that are not for Windows.
pub(crate) fn find(
    view: &WorkloadView<'_>,
    fleet: &Fleet<'_>,
    inventory: &Inventory,
    found: &mut Findings<'_>,
) -> Option<DaemonSetPools> {
    let evidence = found.coverage().evidence_in(Statement::DaemonSets.lists(), &view.object.namespace);
    if view.kind != WorkloadKind::DaemonSet || evidence != ListEvidence::Whole || view.has_unread_class {
        return None;
    }
    let placed: HashSet<&str> =
        view.pods.iter().filter_map(|pod| pod.node.as_deref().or(pod.target.as_deref())).collect();
    let windows = |name: &&&str| fleet.node(name).is_some_and(|node| node.node.os == Some(Os::Windows));
    let nodes = placed.iter().filter(windows).count();
    // A DaemonSet without an operating system is for every node; those for Linux are not included.
    let for_every_node = view.os != DetectedOs::Linux && !view.is_unverified && nodes > 0;
    if !(view.is_windows() || for_every_node) {
        return None;
    }
    let constraints = &view.placed_constraints(inventory);
    let mut missing = Vec::new();
    for pool in fleet.windows_pools() {
        let absent: Vec<&FleetNode<'_>> =
            fleet.nodes_of(pool).filter(|node| !placed.contains(node.node.name.as_str())).collect();
        let Some(first) = absent.first() else { continue };
        let absence = absence(constraints, first);
        let count = counted(absent.len(), "node");
        let (code, because, action) = match &absence {
            Absence::Taint(taints) => {
                let taints = list_with(taints, "and");
                let action = format!("Add a toleration for {taints} to spec.template.spec.tolerations.");
                ("SUR401", format!("The DaemonSet does not tolerate the taint {taints}."), Some(action))
            }
            Absence::Selector(labels) => {
                let labels = list_with(labels, "and");
                (
                    "SUR402",
                    format!("Selector or affinity of the DaemonSet requires {labels}, which the nodes do not have."),
                    None,
                )
            }
            Absence::Unknown => {
                ("SUR403", "Selector, affinity and tolerations of the DaemonSet fit the nodes.".to_owned(), None)
            }
        };
        let message = format!(
            "{count} of Windows pool {} {} no pod of this DaemonSet: {}",
            pool.name,
            if absent.len() == 1 { "has" } else { "have" },
            lower_first(&because)
        );
        // A selector of one pool by its name is intended.
        let is_meant = matches!(&absence, Absence::Selector(labels) if labels.iter().any(|label| {
            POOL_LABELS.iter().any(|key| label.strip_prefix(key).is_some_and(|rest| rest.starts_with(['=', ' '])))
        }));
        if !is_meant {
            let path = match absence {
                Absence::Taint(_) => "spec.template.spec.tolerations",
                Absence::Selector(_) => excluding_field(view, constraints, first.node),
                Absence::Unknown => "status.currentNumberScheduled",
            };
            let (cause, node) = (format!("{}{:?}", pool.name, pool.build), Some(first.node.name.as_str()));
            found.add(&view.object, FoundPlace { cause, node, action, ..FoundPlace::new(code, path, message) });
        }
        missing.push(MissingPool { pool: pool.name.clone(), nodes: absent.len(), because });
    }
    Some(DaemonSetPools { object: view.object.clone(), nodes, missing })
}

/// The field that excludes a node.
fn excluding_field(view: &WorkloadView<'_>, constraints: &SchedulingConstraints, node: &Node) -> &'static str {
    let by_selector = |constraints: &SchedulingConstraints| {
        let mut wanted = constraints.node_selector.iter().flatten();
        wanted.any(|(key, value)| node.labels.get(key) != Some(value.as_str()))
    };
    if by_selector(&view.authored) {
        "spec.template.spec.nodeSelector"
    } else if by_selector(constraints) {
        // The selector of the RuntimeClass.
        "spec.template.spec.runtimeClassName"
    } else {
        "spec.template.spec.affinity.nodeAffinity"
    }
}

fn absence(constraints: &SchedulingConstraints, node: &FleetNode<'_>) -> Absence {
    let node = node.node;
    if !fits(constraints, node) {
        let wanted = constraints.node_selector.iter().flatten();
        let mut unmatched: Vec<String> = wanted
            .filter(|(key, value)| node.labels.get(key) != Some(value.as_str()))
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        unmatched.extend(unmatched_expressions(constraints, node));
        return Absence::Selector(unmatched);
    }
    // The controller adds tolerations for taints of a node's state (pkg/controller/daemon/util
    // AddOrUpdateDaemonPodTolerations).
    let taints: Vec<String> =
        blocking(constraints, node).filter(|taint| !taint.describes_state()).map(Taint::to_string).collect();
    if taints.is_empty() { Absence::Unknown } else { Absence::Taint(taints) }
}

/// The requirements of an affinity that the node does not satisfy: `pool NotIn a`.
fn unmatched_expressions(constraints: &SchedulingConstraints, node: &Node) -> Vec<String> {
    let required = |all: &SchedulingConstraints| {
        all.affinity.as_ref()?.node_affinity.as_ref()?.required.clone()?.node_selector_terms
    };
    let mut unmatched = Vec::new();
    for term in required(constraints).unwrap_or_default() {
        for expression in term.match_expressions.iter().flatten() {
            let mut single = constraints.clone();
            single.node_selector = None;
            let terms =
                single.affinity.as_mut().and_then(|affinity| affinity.node_affinity.as_mut()?.required.as_mut());
            if let Some(terms) = terms {
                let mut one = term.clone();
                (one.match_expressions, one.match_fields) = (Some(vec![expression.clone()]), None);
                terms.node_selector_terms = Some(vec![one]);
            }
            if !fits(&single, node) {
                let values = list_with(expression.values.iter().flatten(), "or");
                unmatched.push(format!("{} {} {values}", expression.key, expression.operator).trim_end().to_owned());
            }
        }
    }
    unmatched
}
