//! Groups and words of a report that several formats share.

use std::collections::BTreeSet;

use mullion_engine::model::text::counted;
use mullion_engine::model::windows::{Build, Generation, runs};
use mullion_survey::SurveyCounts;
use mullion_survey::report::{NodePool, Severity, SurveyFinding, SurveyReport, Workload};

use crate::report::document::{Inline, Text, code};

/// Findings with one code.
pub(super) struct CodeGroup<'r> {
    pub(super) code: &'r str,
    pub(super) name: &'r str,
    pub(super) severity: Severity,
    pub(super) findings: Vec<&'r SurveyFinding>,
    /// The number of different objects.
    pub(super) objects: usize,
    /// The number of pods that have them.
    pub(super) pods: usize,
}

/// The findings by code: by severity, then by code.
pub(super) fn by_code(findings: &[SurveyFinding]) -> Vec<CodeGroup<'_>> {
    let mut sorted: Vec<&SurveyFinding> = findings.iter().collect();
    sorted.sort_by_key(|finding| (finding.severity, &finding.code));
    let groups = sorted.chunk_by(|one, next| one.code == next.code && one.severity == next.severity);
    groups
        .filter_map(|group| {
            let first = group.first()?;
            Some(CodeGroup {
                code: &first.code,
                name: &first.name,
                severity: first.severity,
                findings: group.to_vec(),
                objects: group.iter().map(|finding| &finding.object).collect::<BTreeSet<_>>().len(),
                pods: group.iter().map(|finding| finding.pods).sum(),
            })
        })
        .collect()
}

/// `3 objects, 12 pods`.
pub(super) fn extent(group: &CodeGroup<'_>) -> String {
    let objects = counted(group.objects, "object");
    if group.pods == 0 { objects } else { format!("{objects}, {}", counted(group.pods, "pod")) }
}

/// The number of DaemonSets that have no pod in a Windows pool.
pub(super) fn absent_daemon_sets(report: &SurveyReport) -> usize {
    report.daemon_sets.iter().filter(|set| !set.missing.is_empty()).count()
}

/// How many of these DaemonSets miss the pool, and how many are not for it.
pub(super) fn daemon_sets_text(report: &SurveyReport) -> String {
    let missed = SurveyCounts::of(report).absent_daemon_sets;
    let others = absent_daemon_sets(report).saturating_sub(missed);
    let miss = if missed == 1 { "misses" } else { "miss" };
    let are = if others == 1 { "is" } else { "are" };
    let of = counted(report.daemon_sets.len(), "DaemonSet");
    format!("Of {of} for Windows nodes, {missed} {miss} a pool, and {others} {are} not for one.")
}

/// The severities with the word for several findings.
pub(super) const SEVERITIES: [(Severity, &str, &str); 3] = [
    (Severity::Problem, "Problems", "It does not work now."),
    (Severity::Warning, "Warnings", "It works by luck, or will stop at a known date."),
    (Severity::Notice, "Notices", "It is worth knowing."),
];

/// The operating system of a pool's nodes with its version: `Windows ltsc2022`, `Linux`.
pub(super) fn pool_system(pool: &NodePool) -> String {
    match (pool.os.as_str(), &pool.release) {
        // The release of a client is its product.
        ("windows", Some(release)) if release.starts_with("Windows ") => release.clone(),
        ("windows", Some(release)) => format!("Windows {release}"),
        ("windows", None) => "Windows".to_owned(),
        ("linux", _) => "Linux".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// The full versions of a pool's nodes: `10.0.20348.2655 (2 nodes), 10.0.20348.2582 (1 node)`.
pub(super) fn pool_versions(pool: &NodePool) -> String {
    let Some(build) = &pool.build else { return String::new() };
    match pool.revisions.as_slice() {
        [] => build.clone(),
        [only] if only.nodes == pool.nodes => format!("{build}.{}", only.revision),
        several => {
            let version = |revision: &mullion_survey::report::Revision| {
                format!("{build}.{} ({})", revision.revision, counted(revision.nodes, "node"))
            };
            several.iter().map(version).collect::<Vec<_>>().join(", ")
        }
    }
}

/// `os=windows:NoSchedule (2 of 3 nodes)`, for each taint.
pub(super) fn pool_taints(pool: &NodePool) -> impl Iterator<Item = Text> {
    pool.taints.iter().map(|taint| on_nodes(&taint.taint, taint.nodes, pool))
}

/// How many features nodes declare. Their names are too long for a table; JSON has them, and SUR114 names those that are missing.
pub(super) fn pool_features(pool: &NodePool) -> Option<Inline> {
    let features = pool.declared_features.as_ref()?;
    Some(Inline::Plain(counted(features.len(), "declared feature")))
}

/// What all or some nodes of a pool have.
fn on_nodes(what: &str, nodes: usize, pool: &NodePool) -> Text {
    let text = Text::from(code(what));
    if nodes == pool.nodes { text } else { text.and(format!(" ({nodes} of {})", counted(pool.nodes, "node"))) }
}

/// The images of a workload, each once.
pub(super) fn images(workload: &Workload) -> BTreeSet<&str> {
    workload.images().map(|one| one.image.as_str()).collect()
}

/// The builds that run every container of a workload, by build; none if one of them is unknown.
pub(super) fn common_builds(workload: &Workload) -> Vec<&str> {
    let mut containers = workload.containers.iter().map(|container| container.builds.iter().map(String::as_str));
    let Some(first) = containers.next() else { return Vec::new() };
    let common = containers.fold(first.collect::<BTreeSet<_>>(), |common, builds| {
        let builds: BTreeSet<&str> = builds.collect();
        common.intersection(&builds).copied().collect()
    });
    let mut builds: Vec<&str> = common.into_iter().collect();
    builds.sort_by_key(|build| Build::from_label(build));
    builds
}

/// Whether nodes of the pool can run an image of that build without a virtual machine around it.
pub(super) fn pool_runs(pool: &NodePool, build: &str) -> bool {
    let host = pool.build.as_deref().and_then(Build::from_label);
    match (host, Build::from_label(build)) {
        (Some(host), Some(image)) => runs(host, image, Generation::default(), &[]),
        _ => false,
    }
}
