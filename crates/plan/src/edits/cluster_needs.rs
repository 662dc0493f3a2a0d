//! What workloads need of the cluster, as changes of objects: labels of the new pools, and RuntimeClasses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mullion_engine::model::cluster::{Node, Taint};
use mullion_engine::model::names::WINDOWS_BUILD_LABEL;
use mullion_engine::model::text::list_first;
use serde_json::Value;

use crate::commands::{command, destroying, quoted, reading};
use crate::edits::commands::create;
use crate::needs::ClusterNeed;
use crate::report::{ObjectChange, PlanCommand, Step, StepKind};
use crate::scope::{MoveScope, NewPool};
use crate::workload_move::WorkloadMove;
use mullion_survey::analysis::{Fleet, POOL_LABELS};
use mullion_survey::report::ObjectRef;

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

/// The commands for a label.
struct LabelCommands {
    run: PlanCommand,
    back: Option<PlanCommand>,
}

/// The labels and RuntimeClasses that the workloads need, each once. [`set_step`] sets the number of their step.
pub(crate) fn object_changes(moves: &[WorkloadMove], fleet: &Fleet<'_>, scope: &MoveScope) -> Vec<ObjectChange> {
    let mut labels: BTreeMap<(&str, &str), BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    let mut classes: BTreeMap<&str, NewClass<'_>> = BTreeMap::new();
    for one in moves {
        let object = &one.report.object;
        for need in &one.needs {
            match need {
                ClusterNeed::Label { pool, key, value } => {
                    labels.entry((pool, key)).or_default().entry(value).or_default().push(object.to_string());
                }
                ClusterNeed::RuntimeClass { name, manifest, instead_of } => {
                    let class = NewClass { manifest, instead_of, users: Vec::new() };
                    classes.entry(name).or_insert(class).users.push(object.to_string());
                }
            }
        }
    }
    let of_pool = |((pool, key), values): ((&str, &str), BTreeMap<&str, Vec<String>>)| {
        let is_only = values.len() == 1;
        let change = |(value, users): (&str, Vec<String>)| {
            let LabelCommands { run, back } = label_commands(fleet, scope, pool, (key, value), is_only);
            ObjectChange {
                object: ObjectRef::cluster_wide("Node pool", pool),
                step: 0,
                why: format!("Nodes of pool {pool} need the label {key}={value}: {}.", selected_by(&users)),
                command: run,
                back,
            }
        };
        values.into_iter().map(change).collect::<Vec<_>>()
    };
    let of_class = |(name, class): (&str, NewClass<'_>)| ObjectChange {
        object: ObjectRef::cluster_wide("RuntimeClass", name),
        step: 0,
        why: format!(
            "RuntimeClass {name} takes the place of {}, which is for nodes that leave: {}.",
            class.instead_of,
            used_by(&class.users)
        ),
        command: command(create(class.manifest), ""),
        back: Some(destroying(format!("kubectl delete runtimeclass {}", quoted(name)), "")),
    };
    let labels: Vec<ObjectChange> = labels.into_iter().flat_map(of_pool).collect();
    labels.into_iter().chain(classes.into_iter().map(of_class)).collect()
}

/// Sets the number of the step that has the commands of these changes.
pub(crate) fn set_step(changes: &mut [ObjectChange], steps: &[Step]) {
    let gate = steps.iter().find(|step| step.kind == StepKind::Gate).map_or(1, |step| step.number);
    for change in changes {
        change.step = gate;
    }
}

fn selected_by(users: &[String]) -> String {
    let verb = if users.len() == 1 { "selects" } else { "select" };
    format!("{} {verb} it", list_first(users, NAMED))
}

fn used_by(users: &[String]) -> String {
    let verb = if users.len() == 1 { "uses" } else { "use" };
    format!("{} {verb} the old one", list_first(users, NAMED))
}

/// The old nodes with a label, if others do not have it.
struct Labelled {
    nodes: usize,
    all: usize,
    /// The taints that those with the label have, and no others.
    taints: BTreeSet<Taint>,
}

impl Labelled {
    fn new(fleet: &Fleet<'_>, new: &NewPool, (key, value): (&str, &str)) -> Option<Self> {
        let old = new.replaces.iter().filter_map(|pool| fleet.pools.get(*pool));
        let old = old.flat_map(|pool| fleet.nodes_of(pool)).map(|node| node.node);
        let (with, without): (Vec<&Node>, Vec<&Node>) = old.partition(|node| node.labels.get(key) == Some(value));
        let mut taints: BTreeSet<Taint> =
            with.first()?.known_taints().iter().filter(|taint| !taint.describes_state()).cloned().collect();
        taints.retain(|taint| {
            with.iter().all(|node| node.known_taints().contains(taint))
                && !without.iter().any(|node| node.known_taints().contains(taint))
        });
        let found = Self { nodes: with.len(), all: with.len() + without.len(), taints };
        (found.nodes < found.all).then_some(found)
    }
}

/// Whether the nodes of a new pool that get this label also get a taint, so that they take no other pods.
pub(crate) fn keeps_others_off(fleet: &Fleet<'_>, new: &NewPool, label: (&str, &str)) -> bool {
    Labelled::new(fleet, new, label).is_some_and(|labelled| !labelled.taints.is_empty())
}

/// Commands that label the nodes that are there, or that list those with the label, if only the provider sets it. `is_only`:
/// whether all nodes may have it.
fn label_commands(
    fleet: &Fleet<'_>,
    scope: &MoveScope,
    pool: &str,
    (key, value): (&str, &str),
    is_only: bool,
) -> LabelCommands {
    let label = &format!("{key}={value}");
    let new = scope.new_pools.iter().find(|new| new.name == pool);
    let model = new.map(|new| &new.node);
    let of_pool = POOL_LABELS.iter().find(|key| model.is_some_and(|node| node.labels.get(key).is_some()));
    // Nodes of a cluster without pools have no label of a pool; those of the target have its build.
    let selector =
        of_pool.map_or_else(|| format!("{WINDOWS_BUILD_LABEL}={}", scope.target), |key| format!("{key}={pool}"));
    if SET_BY_PROVIDER.iter().any(|prefix| label.starts_with(prefix)) {
        let note = "The provider sets this label: create the pool so that it has such nodes. The command lists them.";
        let run = format!("kubectl get nodes -l {}", quoted(&format!("{selector},{label}")));
        return LabelCommands { run: reading(run, note), back: None };
    }
    let removed = quoted(&format!("{key}-"));
    let labelled = new.and_then(|new| Labelled::new(fleet, new, (key, value)));
    let label = quoted(label);
    if let Some(labelled) = labelled {
        return commands_for_some(&labelled, pool, &label, &removed);
    }
    if !is_only {
        let note = format!("Other workloads need another value. Replace NODE with nodes of pool {pool}.");
        return LabelCommands {
            run: command(format!("kubectl label nodes NODE {label}"), note),
            back: Some(command(format!("kubectl label nodes NODE {removed}"), "")),
        };
    }
    let note = format!("Set the label in the settings of pool {pool} as well, so that nodes that join later have it.");
    let selector = quoted(&selector);
    LabelCommands {
        run: command(format!("kubectl label nodes -l {selector} {label}"), note),
        back: Some(command(format!("kubectl label nodes -l {selector} {removed}"), "")),
    }
}

/// The commands for a label that only some nodes are to have. `label`, `removed`: as words.
fn commands_for_some(labelled: &Labelled, pool: &str, label: &str, removed: &str) -> LabelCommands {
    let Labelled { nodes, all, taints } = labelled;
    let has = if *nodes == 1 { "has" } else { "have" };
    let mut run = format!("kubectl label nodes NODE {label}");
    let mut back = format!("kubectl label nodes NODE {removed}");
    let mut note = format!(
        "{nodes} of the {all} old nodes {has} the label. Replace NODE with the nodes of pool {pool} that are to have it, and set it in their settings as well."
    );
    for taint in taints {
        let removed = quoted(&format!("{}:{}-", taint.key, taint.effect));
        write!(run, "\nkubectl taint nodes NODE {} --overwrite", quoted(&taint.to_string())).ok();
        write!(back, "\nkubectl taint nodes NODE {removed}").ok();
        write!(
            note,
            " The old nodes with the label also have the taint {taint}, which keeps other pods off. Set the taint in their settings too."
        )
        .ok();
    }
    let back = command(back, format!("Replace NODE with the same nodes of pool {pool}."));
    LabelCommands { run: command(run, note), back: Some(back) }
}
