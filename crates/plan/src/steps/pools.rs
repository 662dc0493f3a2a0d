//! Pools: the new one is created closed, the old ones are removed, and the new one is opened.

use std::collections::{BTreeSet, HashMap};

use mullion_engine::model::cluster::Taint;
use mullion_engine::model::names::RUNTIME_CLASS_PREFIX;
use mullion_engine::model::settings::marks_windows;
use mullion_engine::model::text::{counted, thousands};

use crate::commands::{command, destroying, reading, word};
use crate::report::{PlanCommand, PoolPart, Step, StepKind};
use crate::scope::NewPool;
use crate::steps::capacity::NodeRooms;
use crate::steps::commands::{
    NodeSelection, NodeSelections, pool_values, provider_commands, provider_name, provider_rows, zones,
};
use crate::steps::disruptions::budgets_that_allow;
use crate::steps::step_input::{MAX_COMMANDS, StepInput, listed};
use crate::workload_move::WorkloadMove;
use mullion_survey::analysis::{FleetPool, coverage};
use mullion_survey::facts::commands::ProviderStep;
use mullion_survey::{ListEvidence, Statement};

/// The label of nodes that Karpenter creates (kubernetes-sigs/karpenter pkg/apis/v1/labels.go).
const KARPENTER_POOL: &str = "karpenter.sh/nodepool";

/// Creates the new pools, or closes those that exist.
pub(crate) fn new_pools(
    moves: &[WorkloadMove],
    rooms: &NodeRooms<'_>,
    selections: &NodeSelections<'_>,
    input: StepInput<'_>,
) -> Step {
    let scope = input.scope;
    let names = |exist: bool| {
        let with = scope.new_pools.iter().filter(|new| new.existing.is_some() == exist);
        with.map(|new| new.name.as_str()).collect::<Vec<_>>()
    };
    let (created, existing) = (names(false), names(true));
    let title = match (created.len(), existing.is_empty()) {
        (0, _) => format!("Close {} with a taint", pools_named(&existing)),
        (1, true) => format!("Create {} with a taint that keeps it closed", pools_named(&created)),
        (_, true) => format!("Create {} with a taint that keeps them closed", pools_named(&created)),
        (_, false) => format!("Create {} and close {} with a taint", pools_named(&created), pools_named(&existing)),
    };
    let mut step = Step::new(StepKind::NewPool, title);
    step.why.push(format!(
        "{} The taint {} keeps pods off until their step: besides pods that tolerate every taint, only those of the changed workloads can enter.",
        who_enters(input),
        scope.taint
    ));
    if !existing.is_empty() {
        step.why.push(format!("Pods that are in {} now stay there.", pools_named(&existing)));
    }
    step.why.extend(labels_of_provider(input));
    step.why.extend(zones_of_volumes(moves, input));
    step.why.extend(present(moves, &mut step.commands));
    if let Some(pattern) = matching_pattern(&scope.taint, input) {
        step.why.push(format!(
            "The NodePolicy counts this taint as one that marks Windows nodes ({pattern}), so Mullion adds a toleration for it to every Windows pod. Change the NodePolicy before this step."
        ));
    }
    let tolerant: Vec<String> = moves
        .iter()
        .filter(|one| one.moves && one.tolerates_everything && !one.is_daemon_set())
        .map(|one| one.report.object.to_string())
        .collect();
    if !tolerant.is_empty() {
        step.why.push(format!(
            "The taint does not keep pods of {} off, because {}: if their images or fields permit it, they may be placed on the new nodes at once. Change them first, with the commands of this step or as the section Edits describes.",
            listed(&tolerant),
            if tolerant.len() == 1 { "it tolerates every such taint" } else { "they tolerate every such taint" },
        ));
    }
    let is_one = scope.new_pools.len() == 1;
    step.why.push(format!(
        "If an autoscaler creates the nodes of {}, let it keep at least one node{}: the next step checks it. An autoscaler must know the labels and the taint of a pool without nodes.",
        if is_one { "the pool" } else { "the pools" },
        if is_one { "" } else { " in each" },
    ));
    step.why.extend(needed_nodes(moves, rooms, input));
    let karpenter = scope.new_pools.iter().flat_map(|new| &new.replaces).filter_map(|at| input.fleet.pools.get(*at));
    let karpenter: Vec<&str> = karpenter
        .filter(|pool| input.fleet.nodes_of(pool).any(|node| node.node.labels.get(KARPENTER_POOL) == Some(&pool.name)))
        .map(|pool| pool.name.as_str())
        .collect();
    if !karpenter.is_empty() {
        step.why.push(format!(
            "Karpenter creates the nodes of {}: create a NodePool with the taint in spec.template.spec.taints.",
            listed(&karpenter)
        ));
    }
    step.commands.extend(moves.iter().flat_map(|one| one.report.hold.iter().cloned()).take(MAX_COMMANDS));
    for (at, new) in scope.new_pools.iter().enumerate() {
        let values = &pool_values(new, moves, input, rooms.nodes_of(at, moves));
        if new.existing.is_some() {
            let nodes = selections.of_new(new);
            step.commands.extend(set_taint(new, &nodes, values, input));
            step.back.extend(remove_taint(&nodes, values, input));
        } else {
            let commands = provider_commands(ProviderStep::AddPool, values, input);
            if commands.is_empty() {
                step.why.push(format!(
                    "The table of commands has none of {} for a pool of this release: find out whether it offers such nodes.",
                    scope.provider.as_deref().unwrap_or("this provider")
                ));
            }
            step.commands.extend(commands);
            let nodes = selections.of_new(new);
            step.back.extend(delete_pool(word(&new.name), &nodes, input));
        }
    }
    step.commands.truncate(3 * MAX_COMMANDS);
    step.back.truncate(MAX_COMMANDS);
    step
}

/// How many nodes the new pools need, and how many those have that exist.
fn needed_nodes(moves: &[WorkloadMove], rooms: &NodeRooms<'_>, input: StepInput<'_>) -> Option<String> {
    let new_pools = &input.scope.new_pools;
    let nodes: Option<usize> = (0..new_pools.len()).map(|at| rooms.nodes_of(at, moves)).sum();
    let existing: Vec<&FleetPool> = new_pools.iter().filter_map(|new| input.fleet.pools.get(new.existing?)).collect();
    let besides = match existing.len() {
        0 => "",
        1 => ", besides the room of the pods that are in the pool now",
        _ => ", besides the room of the pods that are in the pools now",
    };
    let now = existing.iter().map(|pool| {
        let has = if pool.nodes.len() == 1 {
            "has 1 node".to_owned()
        } else {
            format!("has {} nodes", thousands(pool.nodes.len()))
        };
        format!(" Pool {} {has} now.", pool.name)
    });
    Some(format!(
        "The workloads of all waves need {} together{besides}.{} Waves share nodes, so the numbers of the waves can add up to more.",
        counted(nodes?, "node"),
        now.collect::<String>(),
    ))
}

/// Labels of the new nodes that only the provider can set: the pool must be created with them.
fn labels_of_provider(input: StepInput<'_>) -> Vec<String> {
    let of_provider = input.needs.iter().filter(|need| need.back.is_none());
    of_provider.map(|need| format!("{} Only the provider sets this label.", need.why)).collect()
}

/// The zones of the old nodes, if workloads with persistent volumes move: a disk can be attached only in its zone.
fn zones_of_volumes(moves: &[WorkloadMove], input: StepInput<'_>) -> Vec<String> {
    let created = input.scope.new_pools.iter().filter(|new| new.existing.is_none());
    let sentence = |new: &NewPool| {
        let zones: Vec<&str> = zones(new, moves, input).into_iter().collect();
        let noun = if zones.len() == 1 { "zone" } else { "zones" };
        (!zones.is_empty()).then(|| {
            format!(
                "The old nodes are in {noun} {}, and their persistent volumes can be attached only there: create pool {} in the same {noun}.",
                listed(&zones),
                new.name
            )
        })
    };
    created.filter_map(sentence).collect()
}

/// `pool a`, `pools a and b`.
fn pools_named(names: &[&str]) -> String {
    format!("{} {}", if names.len() == 1 { "pool" } else { "pools" }, listed(names))
}

/// Which pods the taint keeps off.
fn who_enters(input: StepInput<'_>) -> String {
    let is_created = input.scope.new_pools.iter().any(|new| new.existing.is_none());
    let when = if is_created { ", as soon as the first of them is ready" } else { "" };
    if input.context.policies_given {
        format!(
            "Under the default `place.build.mode: Compatible`, Mullion lets every pod whose images the new nodes can run enter them{when}."
        )
    } else {
        format!("Every pod that selects such nodes and tolerates their other taints can be placed there{when}.")
    }
}

/// Workloads in an existing pool of the target, which it closes. Adds their commands.
fn present(moves: &[WorkloadMove], commands: &mut Vec<PlanCommand>) -> Vec<String> {
    let present = || moves.iter().filter(|one| !one.moves && !one.report.edits.is_empty());
    let with = |is_managed: bool| {
        let own = present().filter(|one| one.report.manager.is_some() == is_managed);
        own.map(|one| one.report.object.to_string()).collect::<Vec<_>>()
    };
    commands.extend(present().take(MAX_COMMANDS).flat_map(|one| one.report.commands.iter().cloned()));
    let (own, managed) = (with(false), with(true));
    let mut sentences = Vec::new();
    if !own.is_empty() {
        sentences.push(format!(
            "Before you set the taint, add the toleration to these workloads, which run there, because otherwise no new pod of them may enter: {}.",
            listed(&own)
        ));
    }
    if !managed.is_empty() {
        sentences.push(format!(
            "Before you set the taint, add the toleration to these workloads, which run there, in the source of their managers, as the section Edits describes: {}.",
            listed(&managed)
        ));
    }
    sentences
}

/// What of the NodePolicy matches the taint.
fn matching_pattern(taint: &Taint, input: StepInput<'_>) -> Option<String> {
    let policy = &input.context.survey.policies.nodes;
    if !marks_windows(taint, policy) {
        return None;
    }
    let pattern = policy.windows_taints.iter().find(|pattern| pattern.matches(taint));
    Some(pattern.map_or_else(|| "taint".to_owned(), |pattern| format!("windowsTaints: {}", pattern.0)))
}

fn set_taint(
    new: &NewPool,
    nodes: &NodeSelection,
    values: &HashMap<&'static str, String>,
    input: StepInput<'_>,
) -> Vec<PlanCommand> {
    let mut commands = provider_commands(ProviderStep::ClosePool, values, input);
    if !provider_rows(ProviderStep::ClosePool, input).iter().any(|row| row.existing_nodes) {
        let taint = word(&input.scope.taint.to_string());
        let run = format!("kubectl taint nodes {} {taint} --overwrite", nodes.argument);
        let note = if commands.is_empty() {
            format!("Add the taint to the configuration that registers nodes of pool {} too. {}", new.name, nodes.note)
        } else {
            nodes.note.clone()
        };
        commands.push(command(run, note.trim_end()));
    }
    commands
}

fn remove_taint(
    nodes: &NodeSelection,
    values: &HashMap<&'static str, String>,
    input: StepInput<'_>,
) -> Vec<PlanCommand> {
    let mut commands = provider_commands(ProviderStep::OpenPool, values, input);
    if !provider_rows(ProviderStep::OpenPool, input).iter().any(|row| row.existing_nodes) {
        let run = format!("kubectl taint nodes {} {}-", nodes.argument, word(&input.scope.taint.key));
        // kubectl fails if no node has the taint.
        let first = if commands.is_empty() {
            "Remove the taint from the configuration that registers nodes too."
        } else {
            "Skip this command if the one before has removed the taint: kubectl reports that the taint is not found."
        };
        commands.push(command(run, format!("{first} {}", nodes.note).trim_end()));
    }
    commands
}

/// Deletes a pool. `old`: its name, as a word.
fn delete_pool(old: String, nodes: &NodeSelection, input: StepInput<'_>) -> Vec<PlanCommand> {
    let values = HashMap::from([("{old}", old), ("{oldNodes}", nodes.argument.clone())]);
    let mut commands = provider_commands(ProviderStep::RemovePool, &values, input);
    let selects = |command: &&mut PlanCommand| !nodes.note.is_empty() && command.run.contains(&nodes.argument);
    for command in commands.iter_mut().filter(selects) {
        command.note = String::from([command.note.as_str(), &nodes.note].join(" ").trim());
    }
    commands
}

/// Drains and deletes the old pools.
pub(crate) fn remove_pools(
    moves: &[WorkloadMove],
    waves: &[Step],
    selections: &NodeSelections<'_>,
    input: StepInput<'_>,
) -> Step {
    let leaving = || input.scope.pools_of(input.fleet, PoolPart::Leaves).map(|(_, pool)| pool);
    let names: Vec<&str> = leaving().map(|pool| pool.name.as_str()).collect();
    let mut step = Step::new(StepKind::RemovePools, format!("Drain and delete {}", pools_named(&names)));
    if let Some(why) = input.unknown_pods() {
        step.why.push(why);
        return step;
    }
    let behind = match Statement::Moves.evidence(&coverage(input.inventory, true)) {
        ListEvidence::Whole => "After the waves, only pods of DaemonSets are on these nodes.".to_owned(),
        ListEvidence::Part(why) | ListEvidence::Missing(why) => {
            format!("Whether other pods are on these nodes after the waves is not known: {why}.")
        }
    };
    step.why.push(
        format!(
            "{behind} Cordon the nodes first, so that no new pod is placed there; a Windows pod that is created between this step and the next one waits until the new {} open.",
            if input.scope.new_pools.len() == 1 { "pool is" } else { "pools are" },
        ),
    );
    step.why.extend(estimate(moves, waves, input));
    let bare = moves.iter().filter(|one| one.moves && one.report.object.kind == "Pod");
    let bare: Vec<String> = bare.map(|one| one.report.object.to_string()).collect();
    if !bare.is_empty() {
        step.why.push(format!(
            "`kubectl drain` stops at a pod without a controller: {} must be in {} by now, deleted and created again.",
            listed(&bare),
            if input.scope.new_pools.len() == 1 { "the new pool" } else { "a new pool" },
        ));
    }
    step.why.extend(left_behind(moves));
    let cordon = |verb: &str, pool: &FleetPool, note: &str| {
        let nodes = selections.of(pool);
        command(format!("kubectl {verb} {}", nodes.argument), [note, &nodes.note].join(" ").trim())
    };
    step.commands.extend(leaving().map(|pool| cordon("cordon", pool, "")));
    step.commands.push(reading(
        "mullion survey --details".to_owned(),
        "These pools must have no Windows pods but those of DaemonSets.",
    ));
    step.commands.extend(leaving().map(|pool| {
        let nodes = selections.of(pool);
        let run = format!("kubectl drain {} --ignore-daemonsets --delete-emptydir-data", nodes.argument);
        destroying(run, ["Data in emptyDir volumes is lost.", &nodes.note].join(" ").trim())
    }));
    let mut unique = BTreeSet::new();
    for pool in leaving() {
        let old = provider_name(input.fleet, pool, "OLD_POOL");
        let commands = delete_pool(old, &selections.of(pool), input);
        step.commands.extend(commands.into_iter().filter(|one| unique.insert(one.run.clone())));
    }
    if step.commands.len() > MAX_COMMANDS {
        step.commands.truncate(MAX_COMMANDS);
        step.why.push("Run the same commands for the other old pools.".to_owned());
    }
    let behind = moves.iter().filter(|one| one.stays_behind && one.report.manager.is_none());
    for one in behind.take(MAX_COMMANDS) {
        let (namespace, name) = (word(&one.report.object.namespace), word(&one.report.object.name));
        let run = format!("kubectl delete daemonset {name} --namespace={namespace}");
        step.commands.push(destroying(run, "No node is left for it."));
    }
    let back = if names.len() == 1 {
        "The command works only before the pool is deleted."
    } else {
        "The commands work only before the pools are deleted."
    };
    step.back.extend(leaving().take(MAX_COMMANDS).map(|pool| cordon("uncordon", pool, back)));
    step
}

/// The DaemonSets that stay in the old pools until these are gone.
fn left_behind(moves: &[WorkloadMove]) -> Vec<String> {
    let named = |is_managed: bool| {
        let behind = moves.iter().filter(|one| one.stays_behind && one.report.manager.is_some() == is_managed);
        behind.map(|one| one.report.object.to_string()).collect::<Vec<_>>()
    };
    let sentence = |(names, way): (Vec<String>, &str)| {
        (!names.is_empty()).then(|| {
            format!(
                "Delete {} when the nodes are gone{way}: another DaemonSet with images of the same repository runs in the new pool.",
                listed(&names)
            )
        })
    };
    let managed = named(true);
    let way = if managed.len() == 1 {
        ", in the source of its manager, as the section Edits describes"
    } else {
        ", in the source of their managers, as the section Edits describes"
    };
    [(named(false), ""), (managed, way)].into_iter().filter_map(sentence).collect()
}

/// How long a drain takes that is begun before the waves.
fn estimate(moves: &[WorkloadMove], waves: &[Step], input: StepInput<'_>) -> Vec<String> {
    // A drain does not evict pods without a controller.
    let is_evicted = |one: &&WorkloadMove| !one.is_daemon_set() && one.report.object.kind != "Pod";
    let movable = || moves.iter().filter(|one| one.moves).filter(is_evicted);
    let pods: usize = movable().filter_map(|one| one.report.pods).sum();
    let mut sentences = Vec::new();
    if pods > 0 {
        let budgets: BTreeSet<_> = waves.iter().flat_map(|wave| &wave.disruptions).map(|one| &one.budget).collect();
        let blocking = budgets_that_allow(Some(0), waves.iter().flat_map(|wave| &wave.disruptions));
        let limited = match budgets.len() {
            0 => String::new(),
            many => format!(", within the limits of {}", counted(many, "PodDisruptionBudget")),
        };
        sentences.push(format!(
            "The waves move {} of {}: the drain evicts only those that are left behind{limited}.",
            counted(pods, "pod"),
            counted(movable().filter(|one| one.report.pods > Some(0)).count(), "workload"),
        ));
        if !blocking.is_empty() {
            let one = blocking.len() == 1;
            sentences.push(format!(
                "If pods that {} {} {} are still there, the drain waits for them, because {} no eviction now.",
                if one { "PodDisruptionBudget" } else { "PodDisruptionBudgets" },
                listed(&blocking),
                if one { "selects" } else { "select" },
                if one { "this budget permits" } else { "these budgets permit" },
            ));
        }
        let bytes: Option<u64> =
            waves.iter().map(|wave| wave.pull_bytes).try_fold(0_u64, |all, bytes| Some(all.saturating_add(bytes?)));
        if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
            sentences.push(format!(
                "A new node that runs all these workloads pulls up to {} MiB: an eviction that waits for a ready pod waits for that too.",
                thousands(usize::try_from(bytes.div_ceil(1 << 20)).unwrap_or(usize::MAX))
            ));
        }
    }
    if !input.inventory.counts.contains_key("poddisruptionbudgets") {
        sentences.push(
            "PodDisruptionBudgets were not read: `kubectl get poddisruptionbudgets --all-namespaces` prints what they permit."
                .to_owned(),
        );
    }
    sentences
}

/// Removes the taint of the new pools.
pub(crate) fn open_pools(
    moves: &[WorkloadMove],
    selections: &NodeSelections<'_>,
    rooms: &NodeRooms<'_>,
    input: StepInput<'_>,
) -> Step {
    let names: Vec<&str> = input.scope.new_pools.iter().map(|new| new.name.as_str()).collect();
    let mut step = Step::new(StepKind::OpenPool, format!("Open {}", pools_named(&names)));
    let condition = match Statement::Moves.evidence(&coverage(input.inventory, true)) {
        ListEvidence::Whole => "Every workload has moved, so",
        ListEvidence::Part(why) | ListEvidence::Missing(why) => {
            step.why.push(format!("Whether every workload has moved is not known: {why}."));
            "Once every workload has moved,"
        }
    };
    step.why.push(format!(
        "{condition} the taint {} is not needed: without it, new Windows workloads can be placed here. A toleration that remains in a workload does no harm.",
        input.scope.taint
    ));
    step.why.extend(unused_classes(moves));
    let mut unique = BTreeSet::new();
    for (at, new) in input.scope.new_pools.iter().enumerate() {
        let nodes = selections.of_new(new);
        let values = pool_values(new, moves, input, rooms.nodes_of(at, moves));
        let commands = remove_taint(&nodes, &values, input);
        step.commands.extend(commands.into_iter().filter(|one| unique.insert(one.run.clone())));
        let back = set_taint(new, &nodes, &values, input);
        step.back.extend(back.into_iter().filter(|one| unique.insert(one.run.clone())));
    }
    step.commands.truncate(MAX_COMMANDS);
    step.back.truncate(MAX_COMMANDS);
    step
}

/// The RuntimeClasses that workloads had, and that none has after the move. Mullion deletes its own.
fn unused_classes(moves: &[WorkloadMove]) -> Option<String> {
    let changed = |one: &WorkloadMove| one.report.edits.iter().any(|edit| edit.path.ends_with(".runtimeClassName"));
    let (left, kept): (Vec<&WorkloadMove>, Vec<&WorkloadMove>) = moves.iter().partition(|one| changed(one));
    let kept: BTreeSet<&str> = kept.into_iter().filter_map(|one| one.runtime_class.as_deref()).collect();
    let unused: BTreeSet<&str> = left
        .into_iter()
        .filter_map(|one| one.runtime_class.as_deref())
        .filter(|class| !kept.contains(class) && !class.starts_with(RUNTIME_CLASS_PREFIX))
        .collect();
    let unused: Vec<&str> = unused.into_iter().collect();
    match unused.as_slice() {
        [] => None,
        [one] => Some(format!("No workload that was read uses RuntimeClass {one} now: delete it.")),
        all => Some(format!("No workload that was read uses the RuntimeClasses {} now: delete them.", listed(all))),
    }
}
