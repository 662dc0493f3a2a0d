//! Waves: the workloads that move together.

use std::collections::HashSet;

use mullion_engine::model::text::{counted, thousands};

use crate::commands::{reading, word};
use crate::report::{Step, StepKind};
use crate::steps::capacity::NodeRooms;
use crate::steps::disruptions::disruptions;
use crate::steps::step_input::{MAX_COMMANDS, StepInput, listed};
use crate::workload_move::WorkloadMove;

/// The waves in order, with heading and reason.
const WAVES: [(StepKind, &str, &str); 5] = [
    (
        StepKind::RunAsIs,
        "Move the stateless workloads that run as they are",
        "The new nodes run their present images, so only the fields that place their pods change.",
    ),
    (
        StepKind::AnotherTag,
        "Move the stateless workloads that need another tag",
        "The tag and the fields that place the pods change together: the old nodes may not run the new image.",
    ),
    (
        StepKind::Rebuild,
        "Rebuild images, and move their stateless workloads",
        "Build each image for the new release (the work list has the bases that are known), push it, and change the tag together with the fields that place the pods.",
    ),
    (
        StepKind::Unknown,
        "Move the stateless workloads whose images are unknown",
        "Find out the Windows builds of their images first, as the list of unknowns describes, and plan again.",
    ),
    (
        StepKind::Stateful,
        "Move the workloads with state, a group managed service account, a graphics device or HostProcess containers",
        "They depend on more than their image: volumes, permissions of the nodes, devices or paths of the host. They move last, when other workloads run on the new nodes.",
    ),
];

/// The waves that have workloads.
pub(crate) fn waves(moves: &[WorkloadMove], rooms: &NodeRooms<'_>, input: StepInput<'_>) -> Vec<Step> {
    let wave = |(kind, title, why): (StepKind, &str, &str)| {
        let own: Vec<&WorkloadMove> = moves.iter().filter(|one| one.moves && one.step_kind() == kind).collect();
        (!own.is_empty()).then(|| one_wave(Step::new(kind, title), why, &own, rooms, input))
    };
    WAVES.into_iter().filter_map(wave).collect()
}

fn one_wave(mut step: Step, why: &str, own: &[&WorkloadMove], rooms: &NodeRooms<'_>, input: StepInput<'_>) -> Step {
    step.workloads = own.len();
    step.why.push(why.to_owned());
    step.why.push(
        "Wait until the new pods of a workload are ready, and check the service, before the next step.".to_owned(),
    );
    step.capacity = rooms.capacity(own.iter().copied());
    let large: Vec<String> =
        own.iter().filter(|one| rooms.is_too_large(one)).map(|one| one.report.object.to_string()).collect();
    if !large.is_empty() {
        step.why.push(format!(
            "A node of the old size has no room for a pod of {}: the new nodes must be larger.",
            listed(&large)
        ));
    }
    if let Some(capacity) = step.capacity.as_ref().filter(|capacity| capacity.without_requests > 0) {
        let count = capacity.without_requests;
        step.why.push(format!(
            "{} {} a container that requests nothing, so the capacity does not contain what it uses.",
            format_args!("{} {}", thousands(count), if count == 1 { "pod" } else { "pods" }),
            if count == 1 { "has" } else { "have" },
        ));
    }
    step.disruptions = own.iter().flat_map(|one| disruptions(one, input)).collect();
    if !step.disruptions.is_empty() {
        step.why.push(
            "PodDisruptionBudgets do not limit the rolling update of this step. They limit a drain of old nodes that still have these pods."
                .to_owned(),
        );
    }
    let scaled: Vec<String> =
        own.iter().filter(|one| one.demand.is_scaled).map(|one| one.report.object.to_string()).collect();
    if !scaled.is_empty() {
        step.why.push(format!("The capacity counts the maximum of the autoscaler of {}.", listed(&scaled)));
    }
    step.pull_bytes = pull_bytes(own);
    add_changes(&mut step, own);
    add_rollouts(&mut step, own);
    add_undo(&mut step, own);
    step
}

/// Bytes to pull for these workloads: each image once. Layers that images share count for each of them.
fn pull_bytes(own: &[&WorkloadMove]) -> Option<u64> {
    let mut images = HashSet::new();
    let mut all = 0_u64;
    for (_, planned) in own.iter().flat_map(|one| one.report.images()) {
        let image = planned.proposal.as_ref().map_or(&planned.image, |proposal| &proposal.image);
        let bytes = planned.pull_bytes?;
        if images.insert(image) {
            all = all.saturating_add(bytes);
        }
    }
    (!images.is_empty()).then_some(all)
}

/// Adds the commands that change the workloads, and a sentence that names those that are changed in another way.
pub(crate) fn add_changes(step: &mut Step, own: &[&WorkloadMove]) {
    let patched: Vec<&&WorkloadMove> = own.iter().filter(|one| !one.report.commands.is_empty()).collect();
    let commands = patched.iter().take(MAX_COMMANDS).flat_map(|one| one.report.commands.iter().cloned());
    step.commands.extend(commands);
    let with = |is_managed: bool| {
        let others = own.iter().filter(|one| one.report.commands.is_empty() && !one.report.instead.is_empty());
        let others = others.filter(|one| one.report.manager.is_some() == is_managed);
        others.map(|one| one.report.object.to_string()).collect::<Vec<_>>()
    };
    for (names, way) in [(with(true), "in the source of their managers"), (with(false), "by hand")] {
        if !names.is_empty() {
            step.why.push(format!("Change these {way}, as the section Edits describes: {}.", listed(&names)));
        }
    }
    if let Some(more @ 1..) = patched.len().checked_sub(MAX_COMMANDS) {
        step.why.push(format!(
            "The commands change the first {MAX_COMMANDS} workloads of this step; the section Edits has those of the other {}.",
            thousands(more)
        ));
    }
}

/// Adds a command for each workload that shows whether its new pods are ready.
pub(crate) fn add_rollouts(step: &mut Step, own: &[&WorkloadMove]) {
    let room = MAX_COMMANDS;
    for one in own.iter().take(room) {
        let object = &one.report.object;
        let (namespace, name) = (word(&object.namespace), word(&object.name));
        step.commands.push(if let Some(kind) = rollout_kind(&object.kind) {
            reading(format!("kubectl rollout status {kind}/{name} --namespace={namespace}"), "")
        } else {
            let kind = word(&object.kind.to_lowercase());
            let (options, note) = get_options(&object.kind);
            reading(format!("kubectl get {kind}/{name} --namespace={namespace}{options}"), note)
        });
    }
    if let Some(more @ 1..) = own.len().checked_sub(room) {
        step.why.push(format!(
            "The commands that wait are for the first {room} workloads of this step; {} more are in the work list.",
            thousands(more)
        ));
    }
}

/// The options of `kubectl get` for a kind without a rollout, and what the command prints.
fn get_options(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "CronJob" => ("", "The next Job of a CronJob has the change: the command prints when the last one started."),
        "Job" => ("", "After you have created the Job again, the command prints whether it has completed."),
        "Pod" => (
            " --output=wide",
            "After you have deleted the pod and created it again, the command prints whether it runs, and on which node.",
        ),
        "ReplicaSet" | "ReplicationController" => {
            ("", "After you have deleted the old pods, the command prints how many new ones are ready.")
        }
        _ => ("", ""),
    }
}

/// Adds the commands that undo the changes of this step. A workload without a change has nothing to undo: another revision of
/// it would be one that somebody made before the move.
pub(crate) fn add_undo(step: &mut Step, own: &[&WorkloadMove]) {
    step.back.extend(own.iter().flat_map(|one| one.report.back.iter().cloned()));
    step.back.truncate(MAX_COMMANDS);
    let is_changed = |one: &&WorkloadMove| {
        one.report.back.is_empty() && (!one.report.edits.is_empty() || !one.report.instead.is_empty())
    };
    let (managed, by_hand): (Vec<&WorkloadMove>, Vec<&WorkloadMove>) =
        own.iter().copied().filter(is_changed).partition(|one| one.report.manager.is_some());
    if !managed.is_empty() {
        let workloads = counted(managed.len(), "workload");
        step.why.push(format!("To go back, revert the change in the source of the {workloads} that a tool manages."));
    }
    if !by_hand.is_empty() {
        step.why.push(restore_by_hand(&by_hand));
    }
}

/// How to go back if no command undoes a change. The API server rejects most changes of a Pod, and those of the template of a
/// Job.
fn restore_by_hand(own: &[&WorkloadMove]) -> String {
    let names: Vec<String> = own.iter().map(|one| one.report.object.to_string()).collect();
    let restore =
        format!("To go back, restore the previous manifests of {}: no command undoes the change.", listed(&names));
    let has = |kind: &str| own.iter().any(|one| one.report.object.kind == kind);
    match (has("Pod"), has("Job")) {
        (true, true) => format!("{restore} Delete a Pod or a Job before you create it again."),
        (true, false) => format!("{restore} Delete a Pod before you create it again."),
        (false, true) => format!("{restore} Delete a Job before you create it again."),
        (false, false) => restore,
    }
}

/// The kinds that have a rollout, as `kubectl` takes them.
fn rollout_kind(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" => Some("deployment"),
        "StatefulSet" => Some("statefulset"),
        "DaemonSet" => Some("daemonset"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::report::{Manager, Verdict};
    use crate::test_fleet::{TestPlan, container, node, workload};

    fn two_moves() -> Vec<WorkloadMove> {
        let mut objects = vec![node("a", 20348, json!({}))];
        for name in ["one", "two"] {
            objects.extend(workload("Deployment", name, 1, "a"));
        }
        TestPlan::new(objects).steps().1
    }

    #[test]
    fn bytes_to_pull() {
        let sized = |image: &str, bytes: Option<u64>| {
            let mut sized = container(image, Verdict::RunsAsIs);
            sized.pull_bytes = bytes;
            sized
        };
        for (second, expected) in [
            (sized("b", Some(5)), Some(8)),
            (sized("a", Some(3)), Some(3)),
            (sized("b", None), None),
            (sized("b", Some(u64::MAX)), Some(u64::MAX)),
        ] {
            let mut moves = two_moves();
            moves[0].report.containers = vec![sized("a", Some(3))];
            moves[1].report.containers = vec![second];
            assert_eq!(pull_bytes(&moves.iter().collect::<Vec<_>>()), expected);
        }
        assert_eq!(pull_bytes(&two_moves().iter().collect::<Vec<_>>()), None);
    }

    #[test]
    fn going_back() {
        let mut moves = two_moves();
        moves[1].report.manager =
            Some(Manager { name: "Helm release two".to_owned(), change: "the values of the chart".to_owned() });
        moves[1].report.back.clear();
        let mut step = Step::new(StepKind::RunAsIs, "");
        add_undo(&mut step, &moves.iter().collect::<Vec<_>>());
        let back: Vec<&str> = step.back.iter().map(|command| command.run.as_str()).collect();
        assert_eq!(back, ["kubectl rollout undo deployment one -n shop"]);
        assert_eq!(step.why, ["To go back, revert the change in the source of the 1 workload that a tool manages."]);
    }
}
