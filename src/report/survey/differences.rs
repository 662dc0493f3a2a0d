//! The differences from an earlier report as lines of plain text, by heading.

use std::collections::BTreeSet;

use mullion_engine::model::text::{counted, list};
use mullion_survey::Comparison;
use mullion_survey::compare::{ChangedFinding, PoolState, WorkloadState};

/// The time of the earlier report, or its day.
pub(super) fn earlier_time(comparison: &Comparison) -> String {
    comparison.earlier.taken_at.clone().unwrap_or_else(|| comparison.earlier.today.to_string())
}

/// Headings with their lines; no heading is without lines.
pub(super) fn differences(comparison: &Comparison) -> Vec<(&'static str, Vec<String>)> {
    let objects = |objects: &[mullion_survey::report::ObjectRef]| objects.iter().map(ToString::to_string).collect();
    let changed = |more: bool| {
        let of = comparison.changed.iter().filter(move |changed| (changed.now.pods > changed.earlier_pods) == more);
        let line = |changed: &ChangedFinding| {
            let (code, object) = (&changed.now.code, &changed.now.object);
            format!("{code} {object}: {}, earlier {}", counted(changed.now.pods, "pod"), changed.earlier_pods)
        };
        of.map(line).collect::<Vec<_>>()
    };
    let new = comparison.new.iter().map(|new| format!("{} {}: {}", new.code, new.object, new.message));
    let gone = comparison.gone.iter().map(|gone| {
        let why = if gone.with_its_object { " (the object is gone)" } else { "" };
        format!("{} {}{why}: {}", gone.was.code, gone.was.object, gone.was.message)
    });
    let mut all: Vec<(&'static str, Vec<String>)> = vec![
        ("Worse: new findings", new.collect()),
        ("Worse: findings with more pods", changed(true)),
        ("Better: findings that are gone", gone.collect()),
        ("Better: findings with fewer pods", changed(false)),
        (
            "Moved: workloads",
            comparison
                .workloads
                .iter()
                .map(|change| format!("{}: {}", change.object, moved(&change.earlier, &change.later)))
                .collect(),
        ),
        (
            "Moved: pools",
            comparison
                .pools
                .iter()
                .map(|change| format!("{}: {}", change.name, grown(change.earlier.as_ref(), change.later.as_ref())))
                .collect(),
        ),
        (
            "Dates that passed",
            comparison
                .passed
                .iter()
                .map(|deadline| format!("{}: {}. {}", deadline.date, deadline.what, deadline.concerns))
                .collect(),
        ),
        ("New workloads", objects(&comparison.added_workloads)),
        ("Workloads that are gone", objects(&comparison.removed_workloads)),
    ];
    all.retain(|(_, lines)| !lines.is_empty());
    all
}

/// `pools win22 instead of win19; builds 10.0.20348 instead of 10.0.17763`.
fn moved(earlier: &WorkloadState, later: &WorkloadState) -> String {
    let instead = |what: &str, was: &BTreeSet<String>, now: &BTreeSet<String>| {
        let words = |set: &BTreeSet<String>| if set.is_empty() { "none".to_owned() } else { list(set) };
        (was != now).then(|| format!("{what} {} instead of {}", words(now), words(was)))
    };
    let os = (earlier.os != later.os).then(|| format!("operating system {} instead of {}", later.os, earlier.os));
    let parts = [os, instead("pools", &earlier.pools, &later.pools), instead("builds", &earlier.builds, &later.builds)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// `5 nodes instead of 3`, `new, 3 nodes`.
fn grown(earlier: Option<&PoolState>, later: Option<&PoolState>) -> String {
    match (earlier, later) {
        (None, Some(now)) => format!("new, {}{}", counted(now.nodes, "node"), of_builds(now)),
        (Some(was), None) => format!("gone, earlier {}{}", counted(was.nodes, "node"), of_builds(was)),
        (Some(was), Some(now)) => {
            let nodes =
                (was.nodes != now.nodes).then(|| format!("{} instead of {}", counted(now.nodes, "node"), was.nodes));
            let builds = (was.builds != now.builds)
                .then(|| format!("builds {} instead of {}", list(&now.builds), list(&was.builds)));
            nodes.into_iter().chain(builds).collect::<Vec<_>>().join("; ")
        }
        (None, None) => String::new(),
    }
}

fn of_builds(pool: &PoolState) -> String {
    if pool.builds.is_empty() { String::new() } else { format!(" of {}", list(&pool.builds)) }
}
