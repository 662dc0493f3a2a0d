//! Words, groups and numbers of a plan that several formats share.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mullion_engine::model::text::{counted, list, plural, thousands};
use mullion_plan::report::{
    BehaviorChange, Capacity, Constraint, ConstraintState, PlanCommand, PlanReport, PlannedContainer, PlannedWorkload,
    PoolPart, ProposalConfidence, StepKind, Target, Verdict,
};

use crate::report::document::{CommandBlock, Inline, Text};
use crate::report::inventory_text::{NOT_KNOWN, known_from_text};

/// The verdicts in the order of the work that they make.
pub(super) const VERDICTS: [Verdict; 4] = [Verdict::RunsAsIs, Verdict::AnotherTag, Verdict::Rebuild, Verdict::Unknown];

/// A verdict in two words.
pub(super) const fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::RunsAsIs => "runs as is",
        Verdict::AnotherTag => "another tag",
        Verdict::Rebuild => "rebuild",
        Verdict::Unknown => "unknown",
    }
}

/// How sure it is that an image exists.
pub(super) const fn confidence_text(confidence: ProposalConfidence) -> &'static str {
    match confidence {
        ProposalConfidence::Registry => "its registry has it",
        ProposalConfidence::Table => "the table of published images has it",
        ProposalConfidence::Running => "nodes of this cluster run it",
        ProposalConfidence::Guess => "a guess from the name",
    }
}

/// How sure it is that an image exists, in one word.
pub(super) const fn confidence_word(confidence: ProposalConfidence) -> &'static str {
    match confidence {
        ProposalConfidence::Registry => "registry",
        ProposalConfidence::Table => "table",
        ProposalConfidence::Running => "running",
        ProposalConfidence::Guess => "guess",
    }
}

/// Whether a constraint is met.
pub(super) const fn state_text(state: ConstraintState) -> &'static str {
    match state {
        ConstraintState::Met => "met",
        ConstraintState::MetByStep => "met by a step",
        ConstraintState::NotMet => "not met",
        ConstraintState::Notice => "notice",
    }
}

/// The constraints with the most urgent first.
pub(super) fn by_state(constraints: &[Constraint]) -> Vec<&Constraint> {
    let urgency = |constraint: &&Constraint| match constraint.state {
        ConstraintState::NotMet => 0,
        ConstraintState::MetByStep => 1,
        ConstraintState::Notice => 2,
        ConstraintState::Met => 3,
    };
    let mut sorted: Vec<&Constraint> = constraints.iter().collect();
    sorted.sort_by_key(urgency);
    sorted
}

/// The part of a pool.
pub(super) const fn part_text(part: PoolPart) -> &'static str {
    match part {
        PoolPart::Leaves => "leaves",
        PoolPart::Target => "target",
        PoolPart::Stays => "stays",
    }
}

/// Whether a source states a change for containers.
pub(super) const fn certainty(change: &BehaviorChange) -> &'static str {
    if change.documented { "documented" } else { "likely" }
}

/// `from ltsc2019 and ltsc2022 to ltsc2025 (10.0.26100), for AKS, with Kubernetes 1.34 at the end`.
pub(super) fn move_text(target: &Target) -> String {
    let from = if target.from.is_empty() { String::new() } else { format!("from {} ", list(&target.from)) };
    let provider = target.provider.as_ref().map(|provider| format!(", for {provider}")).unwrap_or_default();
    let version = target.kubernetes.as_ref().map(|version| format!(", with Kubernetes {version} at the end"));
    format!("{from}to {} ({}){provider}{}", target.release, target.build, version.unwrap_or_default())
}

/// `win25, closed by the taint mullion.dev/move=ltsc2025:NoSchedule`.
pub(super) fn pools_text(target: &Target) -> String {
    if target.pools.is_empty() {
        return "no pool is created or closed".to_owned();
    }
    format!("{}, closed by the taint {}", list(target.pools.iter().map(|pool| &pool.name)), target.taint)
}

/// What is in the calendar.
pub(super) fn calendar_text(report: &PlanReport) -> String {
    let workloads = "Each workload is listed at the first date that ends its support and, if that date has passed, also at its first date to come. Other dates of a workload that have passed are not listed.";
    // Those of Kubernetes versions concern no single workload.
    if report.calendar.iter().all(|entry| entry.all > 0) {
        return workloads.to_owned();
    }
    let leaves = report.pools.iter().any(|pool| pool.part == PoolPart::Leaves);
    let pools = if leaves { "old pools" } else { "Windows pools" };
    format!("{workloads} The dates of Kubernetes versions are those of the {pools}.")
}

/// Numbers of workloads, in the order of [`VERDICTS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VerdictCounts([usize; 4]);

impl VerdictCounts {
    fn add(&mut self, verdict: Verdict) {
        for (count, known) in self.0.iter_mut().zip(VERDICTS) {
            *count += usize::from(known == verdict);
        }
    }

    /// The verdicts with their numbers.
    pub(super) fn iter(self) -> impl Iterator<Item = (Verdict, usize)> {
        VERDICTS.into_iter().zip(self.0)
    }

    /// The number of all workloads.
    pub(super) fn all(self) -> usize {
        self.0.iter().sum()
    }

    /// The verdicts of so many workloads; with that number if it is another one.
    pub(super) fn of(self, workloads: usize) -> String {
        match self.all() {
            all if all == workloads => self.text(),
            0 => thousands(workloads),
            _ => format!("{}: {}", thousands(workloads), self.text()),
        }
    }

    /// `3 run as they are, 1 needs another tag`.
    pub(super) fn text(self) -> String {
        let part = |(verdict, count): (Verdict, usize)| {
            let (one, several) = match verdict {
                Verdict::RunsAsIs => ("runs as it is", "run as they are"),
                Verdict::AnotherTag => ("needs another tag", "need another tag"),
                Verdict::Rebuild => ("needs a rebuild", "need a rebuild"),
                Verdict::Unknown => ("is unknown", "are unknown"),
            };
            format!("{} {}", thousands(count), if count == 1 { one } else { several })
        };
        self.iter().filter(|(_, count)| *count > 0).map(part).collect::<Vec<_>>().join(", ")
    }
}

/// The verdicts of the workloads of each step, and of those without one.
pub(super) fn verdicts_by_step(workloads: &[PlannedWorkload]) -> HashMap<Option<usize>, VerdictCounts> {
    let mut counts: HashMap<Option<usize>, VerdictCounts> = HashMap::new();
    for workload in workloads {
        counts.entry(workload.step).or_default().add(workload.verdict);
    }
    counts
}

/// The verdicts of the workloads that move; of all workloads if the plan has no steps.
pub(super) fn verdicts(report: &PlanReport) -> VerdictCounts {
    let mut counts = VerdictCounts::default();
    let moving = report.workloads.iter().filter(|workload| !stays(workload, report) && !workload.move_not_known);
    for workload in moving {
        counts.add(workload.verdict);
    }
    counts
}

/// Whether others move, and this workload does not.
fn stays(workload: &PlannedWorkload, report: &PlanReport) -> bool {
    !report.steps.is_empty() && workload.step.is_none() && !workload.move_not_known
}

/// `3 run as they are, 1 needs another tag, 2 do not move, of 4 it is not known whether they move`.
pub(super) fn work_text(report: &PlanReport) -> String {
    let stay = match report.workloads.iter().filter(|workload| stays(workload, report)).count() {
        0 => None,
        1 => Some("1 does not move".to_owned()),
        count => Some(format!("{} do not move", thousands(count))),
    };
    let unknown = match report.workloads.iter().filter(|workload| workload.move_not_known).count() {
        0 => None,
        1 => Some("of 1 it is not known whether it moves".to_owned()),
        count => Some(format!("of {} it is not known whether they move", thousands(count))),
    };
    let moving = Some(verdicts(report).text()).filter(|text| !text.is_empty());
    moving.into_iter().chain(stay).chain(unknown).collect::<Vec<_>>().join(", ")
}

/// Whether somebody has to build, to change or to find out something about the images of a workload.
pub(super) fn has_work(workload: &PlannedWorkload, report: &PlanReport) -> bool {
    workload.verdict != Verdict::RunsAsIs && !stays(workload, report)
}

/// The workloads of the steps that gate the new pool.
pub(super) fn gate(report: &PlanReport) -> Vec<&PlannedWorkload> {
    let gates = report.steps.iter().filter(|step| step.kind == StepKind::Gate);
    let gates: BTreeSet<usize> = gates.map(|step| step.number).collect();
    report.workloads.iter().filter(|workload| workload.step.is_some_and(|step| gates.contains(&step))).collect()
}

/// Workloads by namespace and by what manages them.
pub(super) fn by_owner<'r>(
    workloads: impl IntoIterator<Item = &'r PlannedWorkload>,
) -> BTreeMap<(&'r str, &'r str), Vec<&'r PlannedWorkload>> {
    let mut owners: BTreeMap<(&str, &str), Vec<&PlannedWorkload>> = BTreeMap::new();
    for workload in workloads {
        owners.entry((workload.object.namespace.as_str(), owner(workload))).or_default().push(workload);
    }
    owners
}

/// `billing, Helm release billing`.
pub(super) fn owner_text(workload: &PlannedWorkload) -> String {
    let namespace = &workload.object.namespace;
    match owner(workload) {
        "" => namespace.clone(),
        owner => format!("{namespace}, {owner}"),
    }
}

/// The step in which a workload is edited. One that does not move is edited before the pool that it is in is closed, or left
/// until the old pools are gone.
fn edit_step(workload: &PlannedWorkload, report: &PlanReport) -> Option<usize> {
    let kind = if workload.edits.is_empty() { StepKind::RemovePools } else { StepKind::NewPool };
    let number = |kind: StepKind| report.steps.iter().find(|step| step.kind == kind).map(|step| step.number);
    workload.step.or_else(|| number(kind))
}

/// The workloads with something to edit and their steps, in the order of these.
pub(super) fn edited(report: &PlanReport) -> Vec<(&PlannedWorkload, Option<usize>)> {
    let edited = report.workloads.iter().filter(|workload| has_edits(workload));
    let mut edited: Vec<_> = edited.map(|workload| (workload, edit_step(workload, report))).collect();
    // The sort is stable.
    edited.sort_by_key(|(_, step)| (step.is_none(), *step));
    edited
}

/// The step of a workload in the work list: that in which it is edited, also if it does not move.
pub(super) fn work_step(workload: &PlannedWorkload, report: &PlanReport) -> Option<usize> {
    if has_edits(workload) { edit_step(workload, report) } else { workload.step }
}

/// The texts of the commands that a step prints, so that they are not printed again with their workload.
pub(super) fn commands_of_steps(report: &PlanReport) -> HashSet<&str> {
    let all = report.steps.iter().flat_map(|step| step.commands.iter().chain(&step.back));
    all.map(|command| command.run.as_str()).collect()
}

/// Whether a workload has something to edit.
fn has_edits(workload: &PlannedWorkload) -> bool {
    !workload.edits.is_empty()
        || !workload.hold.is_empty()
        || !workload.instead.is_empty()
        || !workload.commands.is_empty()
}

/// `10.0.17763 and 10.0.20348, from its name`.
pub(super) fn builds_text(container: &PlannedContainer) -> String {
    if container.builds.is_empty() {
        return "build unknown".to_owned();
    }
    format!("{}, {}", list(&container.builds), known_from_text(container.known_from))
}

/// `3 pods in win19`, and whether the workload moves if it does not, or if this is not known.
pub(super) fn place_text(workload: &PlannedWorkload, report: &PlanReport) -> Text {
    let pods = workload.pods.map_or_else(|| format!("pods {NOT_KNOWN}"), |pods| counted_exact(pods, "pod"));
    let pools = if workload.pools.is_empty() { String::new() } else { format!(" in {}", list(&workload.pools)) };
    let moves = if workload.move_not_known {
        ", not known whether it moves"
    } else if stays(workload, report) {
        ", does not move"
    } else {
        ""
    };
    Text::plain(format!("{pods}{pools}{moves}"))
}

/// What manages a workload, with where to change it unless [`PlannedWorkload::instead`] tells that.
pub(super) fn manager_text(workload: &PlannedWorkload) -> Option<String> {
    let manager = workload.manager.as_ref()?;
    let change = if workload.instead.is_empty() { format!("; change {}", manager.change) } else { String::new() };
    Some(format!("{}{change}", manager.name))
}

/// Whether a change concerns every workload that moves, so that a list of them is not useful.
pub(super) fn is_of_all(change: &BehaviorChange, report: &PlanReport) -> bool {
    let moving = report.workloads.iter().filter(|workload| workload.step.is_some()).count();
    change.all == moving && moving > ALL_NAMED
}

/// The most workloads that are named if a change concerns all of them.
const ALL_NAMED: usize = 3;

/// `the 3 workloads that mount an SMB volume`.
pub(super) fn concerned_text(change: &BehaviorChange, report: &PlanReport) -> String {
    let that = change.because.strip_prefix("they ").unwrap_or(&change.because);
    match change.all {
        all if is_of_all(change, report) => format!("all {} workloads of the move, which {that}", thousands(all)),
        1 => format!("workloads that {that}"),
        all => format!("the {} workloads that {that}", thousands(all)),
    }
}

/// The command of a plan in a document. It has a source if Mullion's tests do not run it.
pub(super) fn command(label: &'static str, command: &PlanCommand) -> CommandBlock {
    let as_of = command.as_of.map(|as_of| format!(", as of {as_of}")).unwrap_or_default();
    let source = command.source.as_ref().map(|source| format!("source {source}{as_of}"));
    CommandBlock { label, run: command.run.clone(), note: command.note.clone(), source }
}

/// What manages a workload; empty if nothing does.
pub(super) fn owner(workload: &PlannedWorkload) -> &str {
    workload.manager.as_ref().map(|manager| manager.name.as_str()).unwrap_or_default()
}

/// `1.5` of 1500 thousandths.
fn cpus(millis: u64) -> String {
    let (whole, rest) = (thousands(usize::try_from(millis / 1000).unwrap_or(usize::MAX)), millis % 1000);
    if rest == 0 { whole } else { format!("{whole}.{}", format!("{rest:03}").trim_end_matches('0')) }
}

/// What pods need of the new pool, in sentences.
pub(super) fn capacity_text(capacity: &Capacity) -> Text {
    let Capacity { pods, cpu_millis, memory_bytes, without_requests, nodes } = capacity;
    let verb = if *pods == 1 { "requests" } else { "request" };
    let cpu = if *cpu_millis == 0 { "no CPU".to_owned() } else { format!("{} CPU", cpus(*cpu_millis)) };
    let memory = match *memory_bytes {
        0 => Text::from("no memory"),
        bytes => Text::from(Inline::Bytes(bytes)).and(" of memory"),
    };
    let nodes = nodes.map_or_else(
        || " The size of the old nodes was not read.".to_owned(),
        |nodes| format!(" That takes {} of the size of those in the old pools.", counted_exact(nodes, "node")),
    );
    let missing = match without_requests {
        0 => String::new(),
        1 => " 1 of the pods has a container that requests nothing, which the sums do not contain.".to_owned(),
        more => format!(
            " {} of the pods have a container that requests nothing, which the sums do not contain.",
            thousands(*more)
        ),
    };
    let request = format!("{} {verb} {cpu} and ", counted_exact(*pods, "pod"));
    Text::from(request).and(memory).and(format!(".{nodes}{missing}"))
}

/// `1 node`, `2,000 nodes`.
pub(super) fn counted_exact(count: usize, what: &str) -> String {
    if count < 1000 { counted(count, what) } else { format!("{} {}", thousands(count), plural(what)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_exact() {
        for (millis, expected) in [(0, "0"), (250, "0.25"), (1_500, "1.5"), (12_000, "12"), (1_204_001, "1,204.001")] {
            assert_eq!(cpus(millis), expected);
        }
    }

    #[test]
    fn capacity_tells_what_is_missing() {
        let some = Capacity { pods: 1, cpu_millis: 500, memory_bytes: 1 << 30, without_requests: 1, nodes: Some(1) };
        let text =
            |before: &str, after: &str| Text::from(before).and(Inline::Bytes(1 << 30)).and(" of memory").and(after);
        assert_eq!(
            capacity_text(&some),
            text(
                "1 pod requests 0.5 CPU and ",
                ". That takes 1 node of the size of those in the old pools. 1 of the pods has a container that \
                 requests nothing, which the sums do not contain."
            )
        );
        let unread = Capacity { without_requests: 0, nodes: None, pods: 2, ..some };
        let missing = ". The size of the old nodes was not read.";
        assert_eq!(capacity_text(&unread), text("2 pods request 0.5 CPU and ", missing));
    }
}
