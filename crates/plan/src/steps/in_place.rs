//! The other way of a move: the provider changes the Windows release of old pools in place. What must hold before, what
//! differs from the steps with a new pool, and the commands.

use std::collections::{BTreeSet, HashMap};

use mullion_engine::model::text::{counted, upper_first};

use crate::commands::{reading, word};
use crate::constraints::{InPlaceOffer, kubelets_of};
use crate::report::{ConstraintState, InPlaceChange, InPlaceGate, InPlaceWorkload, Step, StepKind, Verdict};
use crate::steps::commands::{NodeSelections, provider_commands, provider_name};
use crate::steps::disruptions::{budgets_that_allow, disruptions};
use crate::steps::step_input::{MAX_COMMANDS, StepInput, listed};
use crate::steps::waves::{add_rollouts, add_undo};
use crate::workload_move::WorkloadMove;
use mullion_engine::model::MinorVersion;
use mullion_survey::analysis::{FleetPool, coverage};
use mullion_survey::facts::commands::ProviderStep;
use mullion_survey::{ListEvidence, Statement};

/// How the pools of the offer change. `changed`: the workloads, edited for the change in place, for which the scope of `input`
/// is.
pub(crate) fn in_place(offer: &InPlaceOffer, changed: &[WorkloadMove], input: StepInput<'_>) -> InPlaceChange {
    let own: Vec<&WorkloadMove> = changed.iter().filter(|one| one.moves).collect();
    let pinned: Vec<&WorkloadMove> = own.iter().copied().filter(|one| is_pinned(one)).collect();
    let mut steps: Vec<Step> = (!pinned.is_empty()).then(|| prepare(&pinned)).into_iter().collect();
    steps.push(change(offer, &own, input));
    for (step, number) in steps.iter_mut().zip(1..) {
        step.number = number;
    }
    let changes_before = own.iter().filter(|one| is_pinned(one) || one.report.verdict != Verdict::RunsAsIs);
    let workloads = changes_before.map(|one| InPlaceWorkload {
        object: one.report.object.clone(),
        verdict: one.report.verdict,
        edits: one.report.edits.clone(),
        instead: one.report.instead.clone(),
        commands: one.report.commands.clone(),
        back: one.report.back.clone(),
    });
    let mut workloads: Vec<InPlaceWorkload> = workloads.collect();
    workloads.sort_by(|a, b| a.object.cmp(&b.object));
    InPlaceChange {
        preview: offer.preview,
        what: format!("{}.", upper_first(&offer.row.what)),
        source: offer.row.source.clone(),
        as_of: offer.row.as_of,
        pools: pools(offer, input).map(|pool| pool.name.clone()).collect(),
        others: offer.others.clone(),
        differs: differs(offer, input),
        gates: gates(offer, &own, &pinned, input),
        steps,
        workloads,
    }
}

fn pools<'a>(offer: &'a InPlaceOffer, input: StepInput<'a>) -> impl Iterator<Item = &'a FleetPool> {
    offer.pools.iter().filter_map(move |at| input.fleet.pools.get(*at))
}

/// Whether its pods cannot be placed on the changed nodes as it is.
fn is_pinned(one: &WorkloadMove) -> bool {
    !one.report.edits.is_empty() || !one.report.instead.is_empty()
}

fn names(workloads: &[&WorkloadMove]) -> String {
    listed(&workloads.iter().map(|one| one.report.object.to_string()).collect::<Vec<_>>())
}

/// `pool win22`, `pools win22 and w22spt`.
fn named_pools(offer: &InPlaceOffer, input: StepInput<'_>) -> String {
    let names: Vec<&str> = pools(offer, input).map(|pool| pool.name.as_str()).collect();
    format!("{} {}", if names.len() == 1 { "pool" } else { "pools" }, listed(&names))
}

/// What differs from the steps of the plan.
fn differs(offer: &InPlaceOffer, input: StepInput<'_>) -> Vec<String> {
    let release = &input.scope.release;
    let mut all = vec![
        "There is no second pool, no taint of the move and no order of waves: a pool keeps its name and its taints, and only the labels of its build and release change."
            .to_owned(),
        format!(
            "A workload has no time of its own: while a pool changes, its pods are placed on nodes of either release, and afterwards all nodes have {release}. What its pods need must fit both before the change."
        ),
        format!(
            "There is no way back: no row of the tables states that a pool can change from {release} to an older release. With the steps, the old pools are the way back until they are deleted."
        ),
        format!(
            "You cannot try one workload first in the pool that changes: create a small pool of {release} for that, as step 1 of the steps does."
        ),
        "What behaves differently is the same as with a new pool, except what follows from a new pool itself, such as its identity.".to_owned(),
    ];
    if offer.preview {
        all.push(
            "Whether the preview is open to your cluster is not known to the plan: try it with a pool of a test cluster first."
                .to_owned(),
        );
    }
    if !offer.others.is_empty() {
        let (noun, whose) = if offer.others.len() == 1 { ("Pool", "its") } else { ("Pools", "their") };
        all.push(format!(
            "{noun} {} cannot change in place: the steps are for {whose} workloads.",
            listed(&offer.others)
        ));
    }
    all
}

impl InPlaceGate {
    fn met(what: String) -> Self {
        Self { what, state: ConstraintState::Met, action: String::new() }
    }

    fn new(state: ConstraintState, what: String, action: impl Into<String>) -> Self {
        Self { what, state, action: action.into() }
    }
}

/// What must hold before the change.
fn gates(
    offer: &InPlaceOffer,
    own: &[&WorkloadMove],
    pinned: &[&WorkloadMove],
    input: StepInput<'_>,
) -> Vec<InPlaceGate> {
    let mut all = versions(offer, input);
    all.extend(images(own, input));
    all.push(if pinned.is_empty() {
        InPlaceGate::met("No workload that was read requires nodes of the old release.".to_owned())
    } else {
        InPlaceGate::new(
            ConstraintState::MetByStep,
            format!(
                "{} nodes of the old release, so after the change no new pod can be placed: {}.",
                if pinned.len() == 1 {
                    "1 workload requires".to_owned()
                } else {
                    format!("{} require", counted(pinned.len(), "workload"))
                },
                names(pinned)
            ),
            "Change them before, as step 1 of the section Steps in place does.",
        )
    });
    all.extend(budgets(own, input));
    let bare: Vec<&WorkloadMove> = own.iter().copied().filter(|one| one.report.object.kind == "Pod").collect();
    if !bare.is_empty() {
        all.push(InPlaceGate::new(
            ConstraintState::NotMet,
            format!("Nothing creates a pod without a controller again after its node is drained: {}.", names(&bare)),
            "Save their manifests, delete them before the change, and create them again afterwards.",
        ));
    }
    all.push(InPlaceGate::new(
        ConstraintState::Notice,
        format!(
            "The change adds at least one node to each pool before it drains the first old one: {}.",
            named_pools(offer, input)
        ),
        "Make sure that your quota and the addresses of the subnet are enough for it.",
    ));
    all
}

/// The versions in which a pool can have both releases.
fn versions(offer: &InPlaceOffer, input: StepInput<'_>) -> Vec<InPlaceGate> {
    let range = match (offer.from, offer.until) {
        (Some(from), Some(until)) => format!("Both releases exist with Kubernetes {from} to {until}"),
        (Some(from), None) => format!("Both releases exist from Kubernetes {from} on"),
        (None, Some(until)) => format!("Both releases exist until Kubernetes {until}"),
        (None, None) => return Vec::new(),
    };
    let (mut unread, mut older, mut newer, mut within) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for pool in pools(offer, input) {
        let versions: BTreeSet<MinorVersion> = kubelets_of(input.fleet, pool).collect();
        let (Some(oldest), Some(newest)) = (versions.first(), versions.last()) else {
            unread.push(pool.name.clone());
            continue;
        };
        if offer.from.is_some_and(|from| *oldest < from) {
            older.push(format!("{} ({oldest})", pool.name));
        } else if offer.until.is_some_and(|until| *newest > until) {
            newer.push(format!("{} ({newest})", pool.name));
        } else {
            within.push(format!("{} ({oldest})", pool.name));
        }
    }
    let first = offer.from.map(|from| from.to_string()).unwrap_or_default();
    let gates = [
        (newer, "newer pools", ConstraintState::NotMet, "Use the steps with a new pool.".to_owned()),
        (
            older,
            "older pools",
            ConstraintState::MetByStep,
            format!("Upgrade the control plane and these pools to {first} before the change."),
        ),
        (
            unread,
            "pools whose versions were not read",
            ConstraintState::Notice,
            "Compare the output of `kubectl get nodes`.".to_owned(),
        ),
        (within, "pools in this range", ConstraintState::Met, String::new()),
    ];
    let gates = gates.into_iter().filter(|(pools, ..)| !pools.is_empty());
    let gate = |(pools, which, state, action): (Vec<String>, &str, ConstraintState, String)| {
        InPlaceGate::new(state, format!("{range}; {which}: {}.", listed(&pools)), action)
    };
    let mut all: Vec<InPlaceGate> = gates.map(gate).collect();
    if let (Some(until), Some(end)) = (offer.until, input.context.kubernetes.and_then(MinorVersion::of))
        && end > until
    {
        all.push(InPlaceGate::new(
            ConstraintState::Notice,
            format!("{range}, and the move ends at {end}."),
            format!("Change the pools first, and upgrade them beyond {until} afterwards."),
        ));
    }
    all
}

/// Whether the images run on both releases.
fn images(own: &[&WorkloadMove], input: StepInput<'_>) -> Vec<InPlaceGate> {
    let release = &input.scope.release;
    let with = |verdicts: &[Verdict]| {
        own.iter().copied().filter(|one| verdicts.contains(&one.report.verdict)).collect::<Vec<&WorkloadMove>>()
    };
    let mut all = Vec::new();
    let lacking = with(&[Verdict::AnotherTag, Verdict::Rebuild]);
    if !lacking.is_empty() {
        all.push(InPlaceGate::new(
            ConstraintState::NotMet,
            format!("Nodes of {release} do not run the images of {}: {}.", counted(lacking.len(), "workload"), names(&lacking)),
            "Before the change, use images that run on both releases, such as an index with an image for each: there is no moment at which a tag for one release fits all nodes of the pool.",
        ));
    }
    let unknown = with(&[Verdict::Unknown]);
    if !unknown.is_empty() {
        all.push(InPlaceGate::new(
            ConstraintState::NotMet,
            format!(
                "Whether nodes of {release} run the images of {} is not known: {}.",
                counted(unknown.len(), "workload"),
                names(&unknown)
            ),
            "Find out before the change, as the section Not known describes.",
        ));
    }
    if let ListEvidence::Part(why) | ListEvidence::Missing(why) =
        Statement::Moves.evidence(&coverage(input.inventory, true))
    {
        all.push(InPlaceGate::new(
            ConstraintState::NotMet,
            format!("Whether other workloads are in these pools is not known: {why}."),
            "Read them too, and plan again.",
        ));
    } else if all.is_empty() {
        all.push(InPlaceGate::met(format!("Nodes of {release} run the images of all workloads of these pools.")));
    }
    all
}

/// Whether a node can be drained.
fn budgets(own: &[&WorkloadMove], input: StepInput<'_>) -> Vec<InPlaceGate> {
    if !input.inventory.counts.contains_key("poddisruptionbudgets") {
        return vec![InPlaceGate::new(
            ConstraintState::Notice,
            "PodDisruptionBudgets were not read.".to_owned(),
            "Look at what they permit, with `kubectl get poddisruptionbudgets --all-namespaces`.",
        )];
    }
    // A drain leaves the pods of DaemonSets.
    let found: Vec<_> = own.iter().filter(|one| !one.is_daemon_set()).flat_map(|one| disruptions(one, input)).collect();
    let (blocking, unread) = (budgets_that_allow(Some(0), &found), budgets_that_allow(None, &found));
    let mut all = Vec::new();
    if !blocking.is_empty() {
        all.push(InPlaceGate::new(
            ConstraintState::NotMet,
            format!(
                "{} {} no eviction now, and the change waits until a node is drained: {}.",
                counted(blocking.len(), "PodDisruptionBudget"),
                if blocking.len() == 1 { "permits" } else { "permit" },
                listed(&blocking)
            ),
            "Scale up, or change the budget, before the change.",
        ));
    }
    if !unread.is_empty() {
        all.push(InPlaceGate::new(
            ConstraintState::Notice,
            format!(
                "The status of {} was not read: {}.",
                counted(unread.len(), "PodDisruptionBudget"),
                listed(&unread)
            ),
            "Look at what they permit, with `kubectl get poddisruptionbudgets --all-namespaces`.",
        ));
    }
    if all.is_empty() {
        all.push(InPlaceGate::met("Every PodDisruptionBudget of these workloads permits an eviction now.".to_owned()));
    }
    all
}

/// Changes workloads so that their pods can be placed on nodes of both releases.
fn prepare(pinned: &[&WorkloadMove]) -> Step {
    let mut step = Step::new(StepKind::PrepareWorkloads, "Let the workloads run on nodes of both releases");
    step.workloads = pinned.len();
    step.why.push(
        "These workloads require labels that change. After this step, their pods can be placed before, during and after the change."
            .to_owned(),
    );
    let patched: Vec<&&WorkloadMove> = pinned.iter().filter(|one| !one.report.commands.is_empty()).collect();
    step.commands.extend(patched.iter().take(MAX_COMMANDS).flat_map(|one| one.report.commands.iter().cloned()));
    let others: Vec<&WorkloadMove> = pinned.iter().copied().filter(|one| one.report.commands.is_empty()).collect();
    if !others.is_empty() {
        step.why
            .push(format!("No command changes these: the table of workloads below describes how. {}.", names(&others)));
    }
    if patched.len() > MAX_COMMANDS {
        step.why.push(format!(
            "The commands change the first {MAX_COMMANDS} workloads; the table below has those of the others."
        ));
    }
    add_rollouts(&mut step, pinned);
    add_undo(&mut step, pinned);
    step
}

/// Changes the pools.
fn change(offer: &InPlaceOffer, own: &[&WorkloadMove], input: StepInput<'_>) -> Step {
    let release = &input.scope.release;
    let mut step =
        Step::new(StepKind::ChangePools, format!("Change {} to {release} in place", named_pools(offer, input)));
    step.workloads = own.iter().filter(|one| !one.is_daemon_set()).count();
    step.why.push(
        "The nodes are replaced one after the other: each is drained, which ends its pods and deletes the data of their emptyDir volumes. No command undoes it."
            .to_owned(),
    );
    step.why.push("Change one pool after the other, and go on when all of its nodes are Ready.".to_owned());
    let selections = NodeSelections::new(input.fleet);
    if let Some(why) = input.unknown_pods() {
        step.why.push(why);
    } else {
        let mut is_offered = true;
        for pool in pools(offer, input).take(MAX_COMMANDS) {
            let name = provider_name(input.fleet, pool, "OLD_POOL");
            let is_old = |from: &MinorVersion| kubelets_of(input.fleet, pool).any(|version| version < *from);
            if let Some(from) = offer.from.filter(is_old) {
                let values = HashMap::from([("{kubernetes}", word(&from.to_string())), ("{pool}", name.clone())]);
                step.commands.extend(provider_commands(ProviderStep::UpgradePool, &values, input));
            }
            let values = HashMap::from([("{old}", name)]);
            let commands = provider_commands(ProviderStep::ChangePool, &values, input);
            is_offered &= !commands.is_empty();
            step.commands.extend(commands);
        }
        if !is_offered {
            step.why.push("The table of commands has none for this step: ask the provider for it.".to_owned());
        }
        if offer.pools.len() > MAX_COMMANDS {
            step.why.push("Run the same commands for the other pools.".to_owned());
        }
    }
    for pool in pools(offer, input).take(MAX_COMMANDS) {
        let nodes = selections.of(pool).argument;
        // A selector by the old build selects no changed node.
        if nodes.starts_with("--selector=") && !nodes.contains("windows-build") {
            step.commands.push(reading(
                format!("kubectl get nodes {nodes} --output=wide"),
                format!("Every node must be Ready and have {release}."),
            ));
        }
    }
    step.commands
        .push(reading("mullion survey --details".to_owned(), "No pod of these workloads may be misplaced or stuck."));
    step
}
