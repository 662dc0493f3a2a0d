//! The summary in at most five sentences, and the coverage of a report.

use std::collections::BTreeSet;

use jiff::civil::Date;
use mullion_engine::model::text::{counted, list_with, thousands};

use crate::evidence::Evidence;
use crate::inventory::{Inventory, KINDS, OTHER_TIMES, REPEATED};
use crate::report::{Coverage, Deadline, Finding, KindCount, NodePool, Severity, Unread, Workload};

/// Times of two inputs that differ by more than this, in seconds, are those of two dumps.
const SAME_DUMP: i64 = 3600;

/// What was read, and what was not. Kinds that only a plan uses are not missing in a survey.
pub(crate) fn coverage(inventory: &Inventory, is_plan: bool) -> Coverage {
    let mut read: Vec<KindCount> = Vec::new();
    let mut unread = inventory.unread.clone();
    for kind in KINDS {
        match inventory.counts.get(kind.plural) {
            Some(objects) => read.push(KindCount { kind: kind.plural.to_owned(), objects: *objects }),
            None if kind.only_for_plans && !is_plan || unread.iter().any(|one| one.kind == kind.plural) => {}
            None => unread.push(Unread {
                kind: kind.plural.to_owned(),
                namespace: None,
                reason: "none in the dump".to_owned(),
                missing: kind.missing.to_owned(),
            }),
        }
    }
    if inventory.others > 0 {
        read.push(KindCount { kind: "others".to_owned(), objects: inventory.others });
    }
    if inventory.repeated > 0 {
        unread.push(Unread {
            kind: REPEATED.to_owned(),
            namespace: None,
            reason: format!("{} in more than one place; the first was read", counted(inventory.repeated, "object")),
            missing: "what changed between two dumps".to_owned(),
        });
    }
    let seconds = |time: &str| time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
    let times: Vec<(i64, &str, &str)> =
        inventory.times.iter().filter_map(|(name, time)| Some((seconds(time)?, name.as_str(), &**time))).collect();
    if let (Some(first), Some(last)) = (times.iter().min(), times.iter().max())
        && last.0 - first.0 > SAME_DUMP
    {
        unread.push(Unread {
            kind: OTHER_TIMES.to_owned(),
            namespace: None,
            reason: format!("{} is of {}, and {} of {}", first.1, first.2, last.1, last.2),
            missing: "one state of the cluster: what ran on a node may have changed in between".to_owned(),
        });
    }
    Coverage { read, unread }
}

/// The lists without which a pod cannot be called misplaced or stuck.
const PLACEMENT: [&str; 2] = ["pods", "nodes"];

/// At most five sentences, the most important first.
pub(crate) fn summary(
    coverage: &Coverage,
    pools: &[NodePool],
    workloads: &[Workload],
    findings: &[Finding],
    deadlines: &[Deadline],
    today: Date,
    nodes_known: bool,
) -> Vec<String> {
    let windows_pools = pools.iter().filter(|pool| pool.os == "windows");
    let windows_nodes: usize = windows_pools.clone().map(|pool| pool.nodes).sum();
    let all_nodes: usize = pools.iter().map(|pool| pool.nodes).sum();
    let windows = workloads.iter().filter(|workload| workload.os == "windows").count();
    let mut sentences = Vec::new();
    sentences.push(if nodes_known {
        let releases: BTreeSet<&str> = windows_pools.filter_map(|pool| pool.release.as_deref()).collect();
        let releases = if releases.is_empty() { String::new() } else { format!(" ({})", list_with(releases, "and")) };
        let nodes = format!("{} of {} run Windows{releases}", thousands(windows_nodes), large(all_nodes, "node"));
        match coverage.evidence(&["pods"]) {
            Evidence::Missing(why) if workloads.is_empty() => {
                format!("{nodes}; how many workloads are for Windows is not known: {why}.")
            }
            Evidence::Missing(_) | Evidence::Part(_) => format!(
                "{nodes}, and {} of {} that {} read {} for Windows.",
                thousands(windows),
                large(workloads.len(), "workload"),
                if workloads.len() == 1 { "was" } else { "were" },
                if windows == 1 { "is" } else { "are" },
            ),
            Evidence::Whole => {
                let all = large(workloads.len(), "workload");
                format!("{nodes}, and {} of {all} are for Windows.", thousands(windows))
            }
        }
    } else {
        format!("{} of {} are for Windows; no nodes were read.", thousands(windows), large(workloads.len(), "workload"))
    });
    let warned = |start: &str| {
        let matching = |finding: &&Finding| finding.severity == Severity::Warning && finding.code.starts_with(start);
        findings.iter().filter(matching).map(|finding| &finding.object).collect::<BTreeSet<_>>().len()
    };
    let stuck: BTreeSet<_> = findings
        .iter()
        .filter(|finding| {
            finding.severity == Severity::Problem
                && (finding.code.starts_with("SUR1") || finding.code.starts_with("SUR2"))
        })
        .map(|finding| &finding.object)
        .collect();
    let misplaced: usize = pools.iter().map(|pool| pool.misplaced_pods).sum();
    if stuck.is_empty() {
        sentences.push(coverage.evidence(&PLACEMENT).state(
            "No pod is misplaced or stuck.",
            "No pod that was read is misplaced or stuck",
            "whether pods are misplaced or stuck",
        ));
    } else {
        let have = if stuck.len() == 1 { "has" } else { "have" };
        let misplaced = match misplaced {
            0 => String::new(),
            1 => "; 1 pod is on a node that cannot run it".to_owned(),
            more => format!("; {} pods are on nodes that cannot run them", thousands(more)),
        };
        sentences
            .push(format!("{} {have} pods that are misplaced or stuck{misplaced}.", large(stuck.len(), "workload")));
    }
    let fragile = warned("SUR3");
    if fragile > 0 {
        let works = if fragile == 1 { "works" } else { "work" };
        sentences.push(format!("{} {works} by luck.", large(fragile, "workload")));
    }
    let absent = warned("SUR4");
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
