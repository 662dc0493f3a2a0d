//! The summary in at most five sentences, and the coverage of a report.

use std::collections::BTreeSet;

use jiff::civil::Date;
use mullion_engine::model::text::{counted, list_with, thousands};

use crate::counts::SurveyCounts;
use crate::evidence::{ListEvidence, Statement};
use crate::inventory::{
    Inventory, KINDS, KindReading, OTHER_TIMES, PROVISIONER_KINDS, REPEATED, STATUSES, is_only_in_dumps,
};
use crate::report::{Coverage, Deadline, KindCount, NodePool, SurveyFinding, Unread, Workload};

/// Times of two inputs that differ by more than this, in seconds, are those of two dumps.
const SAME_DUMP: i64 = 3600;

/// What was read, and what was not. Kinds that only a plan uses are not missing in a survey.
pub fn coverage(inventory: &Inventory, is_plan: bool) -> Coverage {
    let mut read: Vec<KindCount> = Vec::new();
    let mut unread = inventory.unread.clone();
    let unused = if is_plan { KindReading::OnlyInDumps } else { KindReading::OnlyForPlans };
    if is_plan {
        unread.retain(|one| !is_only_in_dumps(&one.kind));
    }
    for kind in KINDS {
        match inventory.counts.get(kind.plural) {
            Some(objects) => read.push(KindCount { kind: kind.plural.to_owned(), objects: *objects }),
            None if kind.reading == unused || unread.iter().any(|one| one.kind == kind.plural) => {}
            None => unread.push(Unread::new(kind.plural, "none in the dump", kind.missing)),
        }
    }
    for (_, kind) in PROVISIONER_KINDS {
        let objects = inventory.counts.get(kind.plural);
        read.extend(objects.map(|objects| KindCount { kind: kind.plural.to_owned(), objects: *objects }));
    }
    if inventory.others > 0 {
        read.push(KindCount { kind: "others".to_owned(), objects: inventory.others });
    }
    let without_status = inventory.pods.iter().filter(|pod| !pod.reported).count();
    if without_status > 0 {
        let have = if without_status == 1 { "has" } else { "have" };
        unread.push(Unread::new(
            STATUSES,
            format!("{} {have} no status", counted(without_status, "pod")),
            "whether these pods run, and what is wrong with them",
        ));
    }
    if inventory.repeated > 0 {
        unread.push(Unread::new(
            REPEATED,
            format!("{} in more than one place; the first was read", counted(inventory.repeated, "object")),
            "what changed between two dumps",
        ));
    }
    let seconds = |time: &str| time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
    let times: Vec<(i64, &str, &str)> =
        inventory.times.iter().filter_map(|(name, time)| Some((seconds(time)?, name.as_str(), &**time))).collect();
    if let (Some(first), Some(last)) = (times.iter().min(), times.iter().max())
        && last.0 - first.0 > SAME_DUMP
    {
        unread.push(Unread::new(
            OTHER_TIMES,
            format!("{} is of {}, and {} of {}", first.1, first.2, last.1, last.2),
            "one state of the cluster: what ran on a node may have changed in between",
        ));
    }
    Coverage { read, unread }
}

/// At most five sentences, the most important first. `waiting`: the number of pods that have not started, and of which nothing states
/// why; an Event may have stated it, and is gone after an hour.
pub(crate) fn summary(
    coverage: &Coverage,
    pools: &[NodePool],
    workloads: &[Workload],
    findings: &[SurveyFinding],
    deadlines: &[Deadline],
    today: Date,
    waiting: usize,
) -> Vec<String> {
    let counts = SurveyCounts::of_lists(pools, workloads, findings);
    let SurveyCounts { nodes: all_nodes, windows_nodes, windows_workloads: windows, .. } = counts;
    let mut sentences = Vec::new();
    sentences.push(if matches!(Statement::Nodes.evidence(coverage), ListEvidence::Missing(_)) {
        format!("{} of {} are for Windows; no nodes were read.", thousands(windows), large(workloads.len(), "workload"))
    } else {
        let windows_pools = pools.iter().filter(|pool| pool.os == "windows");
        let releases: BTreeSet<&str> = windows_pools.filter_map(|pool| pool.release.as_deref()).collect();
        let releases = if releases.is_empty() { String::new() } else { format!(" ({})", list_with(releases, "and")) };
        let nodes = format!("{} of {} run Windows{releases}", thousands(windows_nodes), large(all_nodes, "node"));
        match Statement::Pods.evidence(coverage) {
            ListEvidence::Missing(why) if workloads.is_empty() => {
                format!("{nodes}; how many workloads are for Windows is not known: {why}.")
            }
            ListEvidence::Missing(_) | ListEvidence::Part(_) => format!(
                "{nodes}, and {} of {} that {} read {} for Windows.",
                thousands(windows),
                large(workloads.len(), "workload"),
                if workloads.len() == 1 { "was" } else { "were" },
                if windows == 1 { "is" } else { "are" },
            ),
            ListEvidence::Whole => {
                let all = large(workloads.len(), "workload");
                format!("{nodes}, and {} of {all} are for Windows.", thousands(windows))
            }
        }
    });
    let stuck = counts.stuck_workloads;
    if stuck > 0 {
        let have = if stuck == 1 { "has" } else { "have" };
        let misplaced = match counts.misplaced_pods {
            None | Some(0) => String::new(),
            Some(1) => "; 1 pod is on a node that cannot run it".to_owned(),
            Some(more) => format!("; {} pods are on nodes that cannot run them", thousands(more)),
        };
        sentences.push(format!(
            "{} {have} pods that are misplaced or stuck{misplaced}. To list those that can never start where they are, run \
             mullion repair.",
            large(stuck, "workload")
        ));
    } else {
        let evidence = match (Statement::Placement.evidence(coverage), waiting) {
            (ListEvidence::Whole, 1..) => {
                let have = if waiting == 1 { "has" } else { "have" };
                ListEvidence::Part(format!("{} {have} not started yet", large(waiting, "pod")))
            }
            (evidence, _) => evidence,
        };
        sentences.push(evidence.state(
            "No pod is misplaced or stuck.",
            "No pod that was read is misplaced or stuck",
            "whether pods are misplaced or stuck",
        ));
    }
    let rejected = counts.rejected_workloads;
    if rejected > 0 {
        let have = if rejected == 1 { "has" } else { "have" };
        sentences.push(format!("{} {have} no pods, because the API server rejects them.", large(rejected, "workload")));
    }
    let lucky = counts.lucky_workloads;
    if lucky > 0 {
        let works = if lucky == 1 { "works" } else { "work" };
        sentences.push(format!("{} {works} by luck.", large(lucky, "workload")));
    }
    let absent = counts.absent_daemon_sets;
    if absent > 0 {
        let misses = if absent == 1 { "misses" } else { "miss" };
        sentences.push(format!("{} {misses} a Windows pool.", large(absent, "DaemonSet")));
    }
    if let Some(next) = deadlines.iter().find(|deadline| deadline.date >= today) {
        sentences.push(format!("The next date is {}: {}.", next.date, next.what));
    }
    sentences.truncate(5);
    sentences
}

fn large(count: usize, what: &str) -> String {
    counted(count, what).replacen(&count.to_string(), &thousands(count), 1)
}
