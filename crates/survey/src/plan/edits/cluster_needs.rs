//! What workloads need of the cluster, as changes of objects: labels of the new pools, and RuntimeClasses.

use std::collections::BTreeMap;

use mullion_engine::model::names::WINDOWS_BUILD_LABEL;
use mullion_engine::model::text::list_first;
use serde_json::Value;

use crate::analysis::POOL_LABELS;
use crate::plan::edits::commands::{command, create, quoted};
use crate::plan::needs::ClusterNeed;
use crate::plan::report::{ObjectChange, PlanCommand, Step, StepKind};
use crate::plan::scope::MoveScope;
use crate::plan::workload_move::WorkloadMove;
use crate::report::ObjectRef;

/// The most workloads that a reason names.
const NAMED: usize = 3;

/// Prefixes of labels that a kubelet or a provider sets, so that nobody else should.
const SET_BY_PROVIDER: [&str; 8] = [
    "kubernetes.io/",
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
    "kubernetes.azure.com/",
    "eks.amazonaws.com/",
    "cloud.google.com/",
    "karpenter.",
];

/// A RuntimeClass to create.
struct NewClass<'m> {
    manifest: &'m Value,
    instead_of: &'m str,
    users: Vec<String>,
}

/// The labels and RuntimeClasses that the workloads need, each once.
pub(crate) fn object_changes(moves: &[WorkloadMove], steps: &[Step], scope: &MoveScope) -> Vec<ObjectChange> {
    let mut labels: BTreeMap<(&str, &str), BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    let mut classes: BTreeMap<&str, NewClass<'_>> = BTreeMap::new();
    for one in moves {
        let object = &one.report.object;
        let user = || format!("{} {}/{}", object.kind, object.namespace, object.name);
        for need in &one.needs {
            match need {
                ClusterNeed::Label { pool, key, value } => {
                    labels.entry((pool, key)).or_default().entry(value).or_default().push(user());
                }
                ClusterNeed::RuntimeClass { name, manifest, instead_of } => {
                    let class = NewClass { manifest, instead_of, users: Vec::new() };
                    classes.entry(name).or_insert(class).users.push(user());
                }
            }
        }
    }
    // Nodes have no labels before there are nodes, so both are needed before the first pods move.
    let new_pool = steps.iter().find(|step| step.kind == StepKind::NewPool);
    let step = new_pool.map_or(1, |step| step.number + 1);
    let of_pool = |((pool, key), values): ((&str, &str), BTreeMap<&str, Vec<String>>)| {
        let is_only = values.len() == 1;
        let change = |(value, users): (&str, Vec<String>)| ObjectChange {
            object: ObjectRef { namespace: String::new(), kind: "Node pool".to_owned(), name: pool.to_owned() },
            step,
            why: format!("Give its nodes the label {key}={value}: {}.", selected_by(&users)),
            command: label_command(scope, pool, &format!("{key}={value}"), is_only),
        };
        values.into_iter().map(change).collect::<Vec<_>>()
    };
    let of_class = |(name, class): (&str, NewClass<'_>)| ObjectChange {
        object: ObjectRef { namespace: String::new(), kind: "RuntimeClass".to_owned(), name: name.to_owned() },
        step,
        why: format!("RuntimeClass {} is for nodes that leave: {}.", class.instead_of, used_by(&class.users)),
        command: command(create(class.manifest), String::new()),
    };
    let labels: Vec<ObjectChange> = labels.into_iter().flat_map(of_pool).collect();
    labels.into_iter().chain(classes.into_iter().map(of_class)).collect()
}

fn selected_by(users: &[String]) -> String {
    let verb = if users.len() == 1 { "selects" } else { "select" };
    format!("{} {verb} it", list_first(users, NAMED))
}

fn used_by(users: &[String]) -> String {
    let verb = if users.len() == 1 { "uses" } else { "use" };
    format!("{} {verb} it", list_first(users, NAMED))
}

/// Labels the nodes that are there, or lists those that have the label, if only the provider sets it. `is_only`: whether all
/// nodes may have it.
fn label_command(scope: &MoveScope, pool: &str, label: &str, is_only: bool) -> PlanCommand {
    let model = scope.new_pools.iter().find(|new| new.name == pool).map(|new| &new.node);
    let of_pool = POOL_LABELS.iter().find(|key| model.is_some_and(|node| node.labels.get(key).is_some()));
    // Nodes of a cluster without pools have no label of a pool; those of the target have its build.
    let selector =
        of_pool.map_or_else(|| format!("{WINDOWS_BUILD_LABEL}={}", scope.target), |key| format!("{key}={pool}"));
    if SET_BY_PROVIDER.iter().any(|prefix| label.starts_with(prefix)) {
        let note = "The provider sets this label: create the pool so that it has such nodes. The command lists them.";
        return command(format!("kubectl get nodes -l {}", quoted(&format!("{selector},{label}"))), note.to_owned());
    }
    let label = quoted(label);
    if !is_only {
        let note = format!("Other workloads need another value. Replace NODE with nodes of pool {pool}.");
        return command(format!("kubectl label nodes NODE {label}"), note);
    }
    let note = format!("Set the label in the settings of pool {pool} as well, so that nodes that join later have it.");
    command(format!("kubectl label nodes -l {} {label}", quoted(&selector)), note)
}
