//! What the new nodes must have before workloads move to them: DaemonSets, injected containers, CSI drivers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mullion_engine::model::text::counted;

use crate::commands::{reading, word};
use crate::report::{ObjectChange, PlanCommand, Step, StepKind, Verdict};
use crate::steps::commands::NodeSelections;
use crate::steps::step_input::{MAX_COMMANDS, MAX_NAMES, StepInput, listed};
use crate::steps::waves::{add_changes, add_rollouts, add_undo};
use crate::workload_move::WorkloadMove;
use mullion_survey::facts::behavior_changes::Use;

/// The gate. `selections`: of the pools.
pub(crate) fn gate(moves: &[WorkloadMove], selections: &NodeSelections<'_>, input: StepInput<'_>) -> Step {
    let mut step = Step::new(StepKind::Gate, "Check what the new nodes must have");
    let daemon_sets: Vec<&WorkloadMove> = moves.iter().filter(|one| one.moves && one.is_daemon_set()).collect();
    step.workloads = daemon_sets.len();
    step.why.push(
        "Network, storage, logs and metrics of a node come from DaemonSets: a workload that moves before them fails or is not observed."
            .to_owned(),
    );
    for verdict in [Verdict::RunsAsIs, Verdict::AnotherTag, Verdict::Rebuild, Verdict::Unknown] {
        let with: Vec<String> = daemon_sets
            .iter()
            .filter(|one| one.report.verdict == verdict)
            .map(|one| one.report.object.to_string().replacen("DaemonSet ", "", 1))
            .collect();
        if !with.is_empty() {
            let count = counted(with.len(), "DaemonSet");
            step.why.push(format!("{count} {}: {}.", says(verdict, with.len()), listed(&with)));
        }
    }
    step.why.extend(kept_off(&daemon_sets, input));
    step.why.extend(injected(moves));
    step.why.extend(drivers(input));
    step.why.extend(devices(moves));
    let mut seen = BTreeSet::new();
    for new in &input.scope.new_pools {
        let nodes = selections.of_new(new);
        if seen.insert(nodes.argument.clone()) && nodes.argument.starts_with("--selector=") {
            step.commands.push(reading(
                format!("kubectl get nodes {} --output=wide", nodes.argument),
                "Every new node must be Ready.",
            ));
        }
    }
    step.commands.push(reading(
        "kubectl get daemonsets --all-namespaces".to_owned(),
        "READY must equal DESIRED. For the DaemonSets of this step, DESIRED must also count the new nodes whose other taints they tolerate.",
    ));
    step.commands.push(reading(
        format!(
            "kubectl get csinodes {}",
            word("--output=custom-columns=NODE:.metadata.name,DRIVERS:.spec.drivers[*].name")
        ),
        "The new nodes must have the drivers of the old ones.",
    ));
    step.commands.truncate(MAX_COMMANDS);
    let checks = std::mem::take(&mut step.commands);
    // Nodes have no labels before there are nodes, and the first pods that need what these commands create are those of this
    // step.
    step.commands.extend(input.needs.iter().map(command_with_reason));
    add_changes(&mut step, &daemon_sets);
    step.commands.extend(checks);
    add_rollouts(&mut step, &daemon_sets);
    add_undo(&mut step, &daemon_sets);
    // Workloads use them, so they go last.
    step.back.extend(input.needs.iter().filter_map(|need| need.back.clone()));
    step
}

/// The command that creates what workloads need, with the reason, because the section that has it comes much later.
fn command_with_reason(need: &ObjectChange) -> PlanCommand {
    let note = [need.why.as_str(), &need.command.note].join(" ");
    PlanCommand { note: note.trim_end().to_owned(), ..need.command.clone() }
}

/// The DaemonSets that the new nodes get only if they change, and why.
fn kept_off(daemon_sets: &[&WorkloadMove], input: StepInput<'_>) -> Vec<String> {
    let named = |filter: &dyn Fn(&WorkloadMove) -> bool| {
        let found = daemon_sets.iter().filter(|one| filter(one));
        found.map(|one| one.report.object.to_string()).collect::<Vec<_>>()
    };
    let is_pinned = |one: &WorkloadMove| {
        let fields = ["nodeSelector", "affinity", "runtimeClassName"];
        one.report.edits.iter().any(|edit| fields.iter().any(|field| edit.path.contains(field)))
    };
    let closed_to = named(&|one| !one.tolerates_everything);
    let pinned = named(&|one| one.tolerates_everything && is_pinned(one));
    let mut sentences = Vec::new();
    if !closed_to.is_empty() {
        let one = closed_to.len() == 1;
        sentences.push(format!(
            "{} {} not tolerate the taint {}: without the toleration, the new nodes get no pod of {}.",
            listed(&closed_to),
            if one { "does" } else { "do" },
            input.scope.taint,
            if one { "it" } else { "them" },
        ));
    }
    if !pinned.is_empty() {
        let one = pinned.len() == 1;
        sentences.push(format!(
            "{} must change, because {} selector {} pods off the new nodes.",
            listed(&pinned),
            if one { "its" } else { "their" },
            if one { "keeps its" } else { "keeps their" },
        ));
    }
    sentences
}

/// As the rest of a sentence about containers or workloads.
fn says(verdict: Verdict, count: usize) -> &'static str {
    match (verdict, count) {
        (Verdict::RunsAsIs, 1) => "runs as it is",
        (Verdict::RunsAsIs, _) => "run as they are",
        (Verdict::AnotherTag, 1) => "needs another tag",
        (Verdict::AnotherTag, _) => "need another tag",
        (Verdict::Rebuild, 1) => "needs a rebuild",
        (Verdict::Rebuild, _) => "need a rebuild",
        (Verdict::Unknown, 1) => "has images whose Windows builds are unknown",
        (Verdict::Unknown, _) => "have images whose Windows builds are unknown",
    }
}

/// A sentence for each injector.
fn injected(moves: &[WorkloadMove]) -> Vec<String> {
    let mut injectors: BTreeMap<&str, (Verdict, usize)> = BTreeMap::new();
    for one in moves.iter().filter(|one| one.moves) {
        let mut of_workload: BTreeMap<&str, Verdict> = BTreeMap::new();
        for (_, planned) in one.report.images() {
            let Some(injector) = planned.injected_by.as_deref() else { continue };
            let worst = of_workload.entry(injector).or_insert(planned.verdict);
            *worst = planned.verdict.max(*worst);
        }
        for (injector, verdict) in of_workload {
            let (worst, workloads) = injectors.entry(injector).or_insert((verdict, 0));
            *worst = verdict.max(*worst);
            *workloads += 1;
        }
    }
    let sentence = |(injector, (verdict, workloads)): (&str, (Verdict, usize))| {
        let then = if verdict == Verdict::RunsAsIs { "" } else { ": update the injector before these workloads move" };
        let workloads = counted(workloads, "workload");
        format!("Images that {injector} adds to {workloads} {}{then}.", says(verdict, 2))
    };
    injectors.into_iter().take(MAX_NAMES).map(sentence).collect()
}

/// The devices that workloads request. The inventory has none, so nothing shows whether the new nodes offer them.
fn devices(moves: &[WorkloadMove]) -> Option<String> {
    let uses_gpu = |one: &&WorkloadMove| one.moves && one.uses.contains_key(&Use::Gpu);
    let users: Vec<String> = moves.iter().filter(uses_gpu).map(|one| one.report.object.to_string()).collect();
    (!users.is_empty()).then(|| {
        format!(
            "New nodes must offer the graphics devices that these workloads request, with the device plugin: {}.",
            listed(&users)
        )
    })
}

/// What the CSINodes of the old pools report.
fn drivers(input: StepInput<'_>) -> Vec<String> {
    if !input.inventory.counts.contains_key("csinodes") {
        return vec!["CSINodes were not read: compare the CSI drivers of the old and the new nodes.".to_owned()];
    }
    let of_node = |name: &str| input.inventory.drivers.get(name);
    let mut sentences = BTreeSet::new();
    for new in &input.scope.new_pools {
        let old = new.replaces.iter().filter_map(|at| input.fleet.pools.get(*at));
        let old: BTreeSet<&Arc<str>> = old
            .flat_map(|pool| input.fleet.nodes_of(pool))
            .filter_map(|node| of_node(&node.node.name))
            .flatten()
            .collect();
        let Some(pool) = new.existing.and_then(|at| input.fleet.pools.get(at)) else {
            if !old.is_empty() {
                sentences.insert(format!(
                    "The old nodes have {}: the new nodes need {} before workloads with volumes move.",
                    named(&old),
                    if old.len() == 1 { "it" } else { "them" },
                ));
            }
            continue;
        };
        let has = |driver: &Arc<str>| {
            input.fleet.nodes_of(pool).all(|node| of_node(&node.node.name).is_some_and(|all| all.contains(driver)))
        };
        let missing: BTreeSet<&Arc<str>> = old.into_iter().filter(|driver| !has(driver)).collect();
        if !missing.is_empty() {
            sentences.insert(format!(
                "Nodes of pool {} do not have {}, which the old nodes have: workloads with such volumes cannot move yet.",
                pool.name,
                named(&missing),
            ));
        }
    }
    sentences.into_iter().take(MAX_NAMES).collect()
}

/// `the CSI driver a`, `the CSI drivers a and b`.
fn named(drivers: &BTreeSet<&Arc<str>>) -> String {
    let noun = if drivers.len() == 1 { "driver" } else { "drivers" };
    format!("the CSI {noun} {}", listed(&drivers.iter().collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_fleet::{TestPlan, container, node, workload};
    use crate::test_nodes;

    #[test]
    fn graphics_devices() {
        let web = test_nodes::workload("web", &[0], Vec::new(), &[]);
        assert_eq!(devices(std::slice::from_ref(&web)), None);
        let render = test_nodes::workload("render", &[0], Vec::new(), &[Use::Gpu]);
        let sentence = devices(&[web, render]).unwrap_or_default();
        assert!(sentence.ends_with("with the device plugin: Deployment a/render."), "{sentence}");
    }

    /// dapr/dapr#5644: the sidecar had no image for the new nodes.
    #[test]
    fn injected_containers() {
        let mut objects = vec![node("a", 20348, json!({}))];
        for name in ["one", "two", "three"] {
            objects.extend(workload("Deployment", name, 1, "a"));
        }
        let (_, mut moves) = TestPlan::new(objects).steps();
        for (one, (injector, verdict)) in moves.iter_mut().zip([
            (Some("Dapr"), Verdict::RunsAsIs),
            (Some("Dapr"), Verdict::Rebuild),
            (Some("a webhook"), Verdict::RunsAsIs),
        ]) {
            let mut sidecar = container("sidecar:1", verdict);
            sidecar.injected_by = injector.map(str::to_owned);
            one.report.containers = vec![container("app:1", Verdict::Unknown), sidecar];
        }
        assert_eq!(
            injected(&moves),
            [
                "Images that Dapr adds to 2 workloads need a rebuild: update the injector before these workloads move.",
                "Images that a webhook adds to 1 workload run as they are.",
            ]
        );
    }
}
