//! The answer of a plan, in a few sentences.

use std::collections::BTreeSet;

use mullion_engine::model::text::{counted, list_first, list_with, lower_first};
use mullion_engine::model::windows::{Build, RELEASES, release_name};

use crate::context::PlanContext;
use crate::report::{CalendarEntry, Constraint, ConstraintState, PlannedWorkload, Step, Verdict};
use crate::scope::MoveScope;
use crate::steps::budgets_that_allow;
use crate::unknown::without_build;
use mullion_survey::analysis::Fleet;
use mullion_survey::report::{Coverage, Deadline};
use mullion_survey::{ListEvidence, Statement};

/// The most names in a sentence.
const MAX_NAMES: usize = 5;

/// What the answer is made from.
pub(crate) struct SummaryInput<'a> {
    pub(crate) coverage: &'a Coverage,
    pub(crate) fleet: &'a Fleet<'a>,
    pub(crate) scope: &'a MoveScope,
    pub(crate) context: PlanContext<'a>,
    pub(crate) workloads: &'a [PlannedWorkload],
    /// How many of them move or not is not known.
    pub(crate) unknown_moves: usize,
    /// The number of workloads of unknown operating system.
    pub(crate) undecided: usize,
    pub(crate) constraints: &'a [Constraint],
    pub(crate) steps: &'a [Step],
    pub(crate) calendar: &'a [CalendarEntry],
}

/// The answer: verdicts, the first date, what blocks the move.
pub(crate) fn summary(input: &SummaryInput<'_>) -> Vec<String> {
    if let Some(reason) = nothing_to_plan(input) {
        return vec![reason];
    }
    let mut sentences = vec![verdicts(input)];
    if input.workloads.iter().any(|workload| workload.step.is_some()) {
        sentences.extend(unread_workloads(input));
    }
    sentences.extend(first_date(input));
    sentences.extend(blockers(input));
    sentences
}

/// Why there is no plan.
fn nothing_to_plan(input: &SummaryInput<'_>) -> Option<String> {
    let SummaryInput { fleet, scope, context, .. } = *input;
    if !fleet.known {
        return Some(
            "Nodes were not read, so the plan does not know which pools leave: read the nodes too, and plan again."
                .to_owned(),
        );
    }
    let target = product(scope.target);
    if let Some(from) = context.from.filter(|from| *from > scope.target) {
        return Some(format!(
            "{target} is older than {}, and Windows images do not run on an older host: plan for a newer release.",
            product(from)
        ));
    }
    if scope.leaves() {
        return None;
    }
    let releases: BTreeSet<Build> = fleet.windows_pools().filter_map(|pool| pool.build).collect();
    let has = list_with(releases.iter().map(|build| product(*build)), "and");
    Some(match (fleet.windows_pools().next().is_some(), context.from) {
        (false, _) => "The cluster has no Windows nodes: nothing moves.".to_owned(),
        (true, _) if releases.is_empty() => {
            "No Windows node states its build, so the plan does not know which pools leave.".to_owned()
        }
        (true, _) if unknown_builds(fleet) > 0 => format!(
            "No pool is known to leave: the build of {} is not known, and the other Windows nodes have {has}.",
            counted(unknown_builds(fleet), "Windows node")
        ),
        (true, Some(from)) => format!("No node has {}: nothing moves. The Windows nodes have {has}.", product(from)),
        (true, None) if releases.iter().all(|build| *build == scope.target) => {
            let nodes = fleet.windows_pools().map(|pool| pool.nodes.len()).sum();
            match nodes {
                1 => format!("Nothing moves: the only Windows node has {target}."),
                nodes => format!("Nothing moves: all {} have {target}.", counted(nodes, "Windows node")),
            }
        }
        (true, None) => format!(
            "{target} is older than the release of some nodes, or the same: nothing moves. The Windows nodes have {has}."
        ),
    })
}

/// The number of Windows nodes of which nothing shows whether they leave.
fn unknown_builds(fleet: &Fleet<'_>) -> usize {
    without_build(fleet).count()
}

/// How much is known of which workloads move: their pods, and the builds of the nodes that these are on.
fn moves_evidence(input: &SummaryInput<'_>) -> ListEvidence {
    match (Statement::Moves.evidence(input.coverage), unknown_builds(input.fleet)) {
        (ListEvidence::Whole, nodes @ 1..) => {
            ListEvidence::Part(format!("the build of {} is not known", counted(nodes, "Windows node")))
        }
        (evidence, _) => evidence,
    }
}

/// What the verdicts do not contain, if a part was not read.
fn unread_workloads(input: &SummaryInput<'_>) -> Option<String> {
    match moves_evidence(input) {
        ListEvidence::Whole => None,
        ListEvidence::Part(why) | ListEvidence::Missing(why) => {
            Some(format!("Which other Windows workloads move is not known: {why}."))
        }
    }
}

/// `31 of 34 Windows workloads run as they are on Windows Server 2025; 2 need another tag; 1 needs a rebuild.`
fn verdicts(input: &SummaryInput<'_>) -> String {
    let moving = || input.workloads.iter().filter(|workload| workload.step.is_some());
    let all = moving().count();
    let target = product(input.scope.target);
    if all == 0 {
        let evidence = match (moves_evidence(input), Statement::NothingMoves.evidence(input.coverage)) {
            // Workloads without pods move too.
            (ListEvidence::Whole, ListEvidence::Missing(why)) => ListEvidence::Part(why),
            (ListEvidence::Whole, _) if input.unknown_moves + input.undecided > 0 => {
                let unknown = input.unknown_moves + input.undecided;
                let moves = if unknown == 1 { "moves" } else { "move" };
                ListEvidence::Part(format!("whether {} {moves} is not known", counted(unknown, "workload")))
            }
            (moves, _) => moves,
        };
        return evidence.state(
            &format!("No Windows workload moves to {target}: the old pools have no pods of one."),
            &format!("No Windows workload that was read moves to {target}"),
            &format!("which Windows workloads move to {target}"),
        );
    }
    let count = |verdict: Verdict| moving().filter(|workload| workload.verdict == verdict).count();
    let as_is = count(Verdict::RunsAsIs);
    let run = if as_is == 1 { "runs as it is" } else { "run as they are" };
    let others = input.workloads.len() - all;
    let which = match (others, all) {
        (0, _) => counted(all, "Windows workload"),
        (_, 1) => "1 Windows workload that moves".to_owned(),
        _ => format!("{} that move", counted(all, "Windows workload")),
    };
    let mut parts = vec![format!("{as_is} of {which} {run} on {target}")];
    for (verdict, one, several) in [
        (Verdict::AnotherTag, "needs another tag", "need another tag"),
        (Verdict::Rebuild, "needs a rebuild", "need a rebuild"),
        (Verdict::Unknown, "is unknown", "are unknown"),
    ] {
        match count(verdict) {
            0 => {}
            1 => parts.push(format!("1 {one}")),
            number => parts.push(format!("{number} {several}")),
        }
    }
    if input.unknown_moves > 0 {
        let moves = if input.unknown_moves == 1 { "moves" } else { "move" };
        parts.push(format!("whether {} {moves} is not known", input.unknown_moves));
    }
    let others = others.saturating_sub(input.unknown_moves);
    if others > 0 {
        parts.push(format!("{others} {} not move", if others == 1 { "does" } else { "do" }));
    }
    parts.join("; ") + "."
}

/// The first date of a workload that has passed, the next one, and the next one of the Kubernetes versions of the old pools.
fn first_date(input: &SummaryInput<'_>) -> Vec<String> {
    let today = input.context.survey.today;
    let (of_workloads, of_versions): (Vec<_>, Vec<_>) = input.calendar.iter().partition(|entry| entry.all > 0);
    let passed = first_of(of_workloads.iter().copied().filter(|entry| entry.deadline.date < today));
    let next = first_of(of_workloads.iter().copied().filter(|entry| entry.deadline.date >= today));
    let version = first_of(of_versions.iter().copied().filter(|entry| entry.deadline.date >= today));
    let passed = passed.map(|text| format!("The first date has passed: {text}."));
    let next = next.map(|text| format!("The next date: {text}."));
    let version = version.map(|text| format!("The next date of the Kubernetes version of an old pool: {text}."));
    passed.into_iter().chain(next).chain(version).collect()
}

/// The first date of these entries, with everything that happens then.
fn first_of<'e>(entries: impl Iterator<Item = &'e CalendarEntry> + Clone) -> Option<String> {
    let date = entries.clone().map(|entry| entry.deadline.date).min()?;
    let text = |entry: &CalendarEntry| {
        let Deadline { what, source, as_of, .. } = &entry.deadline;
        let concerned =
            if entry.all == 0 { String::new() } else { format!(", for {}", counted(entry.all, "workload")) };
        format!("{what} ({source}, {as_of}){concerned}")
    };
    let texts: Vec<String> = entries.filter(|entry| entry.deadline.date == date).map(text).collect();
    Some(format!("{date}, {}", texts.join("; ")))
}

/// What the move does not meet, and what must happen before the old pools can be removed.
fn blockers(input: &SummaryInput<'_>) -> Vec<String> {
    let mut sentences: Vec<String> = input
        .constraints
        .iter()
        .filter(|constraint| constraint.state == ConstraintState::NotMet)
        .map(|constraint| {
            let what = constraint.what.trim_end_matches('.');
            format!("The move is not possible in this way: {}. {}", keep_names(what), constraint.action)
                .trim_end()
                .to_owned()
        })
        .collect();
    let with = |verdict: Verdict| {
        let moving = input.workloads.iter().filter(move |one| one.step.is_some() && one.verdict == verdict);
        moving.map(|one| one.object.full_name()).collect::<Vec<_>>()
    };
    for (verdict, before) in [
        (Verdict::Rebuild, "Images to build before the old pools can be removed"),
        (Verdict::Unknown, "Images to find out about before the old pools can be removed"),
    ] {
        let names = with(verdict);
        if !names.is_empty() {
            sentences.push(format!("{before}: those of {}.", list_first(&names, MAX_NAMES)));
        }
    }
    let names = budgets_that_allow(Some(0), input.steps.iter().flat_map(|step| &step.disruptions));
    if !names.is_empty() {
        let (noun, verb, permit) = if names.len() == 1 {
            ("PodDisruptionBudget", "selects", "this budget permits")
        } else {
            ("PodDisruptionBudgets", "select", "these budgets permit")
        };
        sentences.push(format!(
            "If pods that {noun} {} {verb} are still in an old pool at the drain, the drain waits for them, because {permit} no eviction now.",
            list_first(&names, MAX_NAMES)
        ));
    }
    sentences
}

/// The clause in the middle of a sentence: names of products keep their capitals.
fn keep_names(clause: &str) -> String {
    let first = clause.split_whitespace().next().unwrap_or_default();
    if matches!(first, "A" | "An" | "The" | "No" | "Nodes" | "Pools" | "New") {
        lower_first(clause)
    } else {
        clause.to_owned()
    }
}

/// `Windows Server 2025`.
fn product(build: Build) -> String {
    let known = RELEASES.iter().find(|release| release.build == build && release.is_server());
    known.map_or_else(|| release_name(build, &[]).into_owned(), |release| release.product.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use jiff::civil::date;
    use serde_json::json;

    use super::*;
    use crate::test_fleet::{TestPlan, budget, node, workload};
    use mullion_survey::analysis::coverage;
    use mullion_survey::report::Deadline;

    fn aks(name: &str, build: u32) -> serde_json::Value {
        node(name, build, json!({"kubernetes.azure.com/agentpool": name}))
    }

    fn summary_of(plan: &TestPlan, constraints: &[Constraint], calendar: &[CalendarEntry]) -> Vec<String> {
        let inventory = &plan.inventory();
        let fleet = &Fleet::new(inventory);
        let context = plan.context();
        let scope = &MoveScope::new(fleet, inventory, context);
        let (steps, moves) = plan.steps();
        let workloads: Vec<PlannedWorkload> = moves.into_iter().map(|one| one.report).collect();
        let coverage = &coverage(inventory, true);
        summary(&SummaryInput {
            unknown_moves: 0,
            undecided: 0,
            coverage,
            fleet,
            scope,
            context,
            workloads: &workloads,
            constraints,
            steps: &steps,
            calendar,
        })
    }

    #[test]
    fn fleets_that_do_not_move() {
        let web = || workload("Deployment", "web", 1, "w1");
        let with = |nodes: Vec<serde_json::Value>| TestPlan::new(nodes.into_iter().chain(web()).collect());
        let cases = [
            (
                with(vec![aks("w1", 26100), aks("w2", 26100)]),
                "Nothing moves: all 2 Windows nodes have Windows Server 2025.",
            ),
            (with(vec![aks("w1", 26100)]), "Nothing moves: the only Windows node has Windows Server 2025."),
            (
                with(Vec::new()),
                "Nodes were not read, so the plan does not know which pools leave: read the nodes too, and plan again.",
            ),
            (
                TestPlan::new(vec![
                    json!({"kind": "Node", "metadata": {"name": "l", "labels": {"kubernetes.io/os": "linux"}}}),
                ]),
                "The cluster has no Windows nodes: nothing moves.",
            ),
            (
                TestPlan { target: 20348, ..with(vec![aks("w1", 26100)]) },
                "Windows Server 2022 is older than the release of some nodes, or the same: nothing moves. The Windows nodes have Windows Server 2025.",
            ),
            (
                TestPlan { target: 20348, from: Some(26100), ..with(vec![aks("w1", 26100)]) },
                "Windows Server 2022 is older than Windows Server 2025, and Windows images do not run on an older host: plan for a newer release.",
            ),
            (
                TestPlan { from: Some(17763), ..with(vec![aks("w1", 20348)]) },
                "No node has Windows Server 2019: nothing moves. The Windows nodes have Windows Server 2022.",
            ),
        ];
        for (plan, expected) in cases {
            assert_eq!(summary_of(&plan, &[], &[]), [expected]);
        }
    }

    #[test]
    fn the_answer() {
        let mut objects = vec![aks("w1", 20348)];
        for name in ["a", "b", "c", "d", "e"] {
            objects.extend(workload("Deployment", name, 1, "w1"));
        }
        objects.push(budget("a", "a", 0));
        let verdicts = vec![("c", Verdict::AnotherTag), ("d", Verdict::Rebuild), ("e", Verdict::Unknown)];
        let plan = TestPlan { verdicts, ..TestPlan::new(objects) };
        let constraint = Constraint {
            what: "Nodes of Windows Server 2025 require Kubernetes 1.35.".to_owned(),
            state: ConstraintState::NotMet,
            action: "Upgrade first.".to_owned(),
            source: "a page".to_owned(),
            as_of: date(2026, 8, 21),
        };
        let entry = |year: i16, all: usize| CalendarEntry {
            deadline: Deadline {
                date: date(year, 4, 1),
                what: "AKS deletes the node images of Windows Server 2019".to_owned(),
                concerns: String::new(),
                source: "a file".to_owned(),
                as_of: date(2026, 1, 20),
            },
            workloads: Vec::new(),
            all,
        };
        let mut version = entry(2027, 0);
        version.deadline.what = "AKS ends long-term support of Kubernetes 1.32".to_owned();
        let mut same_day = entry(2026, 2);
        same_day.deadline.what = "Microsoft ended support of .NET 9".to_owned();
        let calendar = [entry(2026, 1), same_day, version, entry(2027, 3), entry(2029, 1)];
        assert_eq!(
            summary_of(&plan, &[constraint], &calendar),
            [
                "2 of 5 Windows workloads run as they are on Windows Server 2025; 1 needs another tag; 1 needs a rebuild; 1 is unknown.",
                "The first date has passed: 2026-04-01, AKS deletes the node images of Windows Server 2019 (a file, 2026-01-20), for 1 workload; Microsoft ended support of .NET 9 (a file, 2026-01-20), for 2 workloads.",
                "The next date: 2027-04-01, AKS deletes the node images of Windows Server 2019 (a file, 2026-01-20), for 3 workloads.",
                "The next date of the Kubernetes version of an old pool: 2027-04-01, AKS ends long-term support of Kubernetes 1.32 (a file, 2026-01-20).",
                "The move is not possible in this way: nodes of Windows Server 2025 require Kubernetes 1.35. Upgrade first.",
                "Images to build before the old pools can be removed: those of shop/d.",
                "Images to find out about before the old pools can be removed: those of shop/e.",
                "If pods that PodDisruptionBudget shop/a selects are still in an old pool at the drain, the drain waits for them, because this budget permits no eviction now.",
            ]
        );
    }

    #[test]
    fn no_workload_moves() {
        let moved = [vec![aks("w1", 20348), aks("w2", 26100)], workload("Deployment", "web", 1, "w2")].concat();
        for (objects, expected) in [
            (
                moved,
                "No Windows workload that was read moves to Windows Server 2025; replicasets, statefulsets, daemonsets, jobs, cronjobs and replicationcontrollers were not read.",
            ),
            (
                vec![aks("w1", 20348)],
                "Which Windows workloads move to Windows Server 2025 is not known: pods were not read.",
            ),
        ] {
            assert_eq!(summary_of(&TestPlan::new(objects), &[], &[]), [expected]);
        }
    }
}
