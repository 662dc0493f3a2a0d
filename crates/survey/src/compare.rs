//! The differences between two reports: findings that are gone, new or have other numbers of pods; workloads and pools
//! that moved; dates that passed.
//!
//! A finding is the same in both reports if code, object and cause are equal. The cause is the field path without the
//! pod's name, because the pods of a controller have other names every time.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ptr;

use jiff::Timestamp;
use mullion_engine::model::text::{counted, list};
use serde::{Deserialize, Serialize};

use crate::report::{Deadline, Header, NodePool, ObjectRef, Severity, SurveyFinding, SurveyReport, Workload};

/// The differences between two reports. Lists are sorted like those of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The subject of the earlier report.
    pub earlier: Header,
    /// Why the comparison is less certain, as sentences: other clusters, other coverage.
    pub caveats: Vec<String>,
    /// The summary, as sentences: what is better, what is worse, what moved.
    pub summary: Vec<String>,
    /// Findings that only the earlier report has.
    pub gone: Vec<GoneFinding>,
    /// Findings that only the later report has.
    pub new: Vec<SurveyFinding>,
    /// Findings of both, with other numbers of pods.
    pub changed: Vec<ChangedFinding>,
    /// Workloads that only the earlier report has.
    pub removed_workloads: Vec<ObjectRef>,
    /// Workloads that only the later report has.
    pub added_workloads: Vec<ObjectRef>,
    /// Workloads whose pools, builds or operating system differ.
    pub workloads: Vec<WorkloadChange>,
    /// Pools that are new, gone, or have other nodes or builds.
    pub pools: Vec<PoolChange>,
    /// Dates that passed between the reports.
    pub passed: Vec<Deadline>,
}

/// A finding that only the earlier report has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GoneFinding {
    /// The finding in the earlier report.
    #[serde(flatten)]
    pub was: SurveyFinding,
    /// Whether its workload is not in the later report either.
    pub with_its_object: bool,
}

/// A finding of both reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFinding {
    /// The finding in the later report.
    #[serde(flatten)]
    pub now: SurveyFinding,
    /// The number of pods in the earlier report.
    pub earlier_pods: usize,
}

/// A workload of both reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadChange {
    /// Its name.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// In the earlier report.
    pub earlier: WorkloadState,
    /// In the later report.
    pub later: WorkloadState,
}

/// The pools of a workload, and the builds of its images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadState {
    /// `windows`, `linux`, `undecided` or `conflict`.
    pub os: String,
    /// The pools in which its pods are.
    pub pools: BTreeSet<String>,
    /// The builds of its images.
    pub builds: BTreeSet<String>,
}

/// A pool of one of the reports, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolChange {
    /// Its name.
    pub name: String,
    /// In the earlier report.
    pub earlier: Option<PoolState>,
    /// In the later report.
    pub later: Option<PoolState>,
}

/// The nodes of one pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolState {
    /// The number of nodes.
    pub nodes: usize,
    /// Windows builds, with the revision where it is known: `10.0.20348.2655`.
    pub builds: BTreeSet<String>,
}

/// Compares two reports.
pub fn compare(earlier: &SurveyReport, later: &SurveyReport) -> Comparison {
    let mut comparison = Comparison {
        earlier: earlier.header.clone(),
        caveats: caveats(earlier, later),
        summary: Vec::new(),
        gone: Vec::new(),
        new: Vec::new(),
        changed: Vec::new(),
        removed_workloads: Vec::new(),
        added_workloads: Vec::new(),
        workloads: Vec::new(),
        pools: pools(&earlier.pools, &later.pools),
        passed: later
            .deadlines
            .iter()
            .filter(|deadline| (earlier.header.today..later.header.today).contains(&deadline.date))
            .cloned()
            .collect(),
    };
    findings(earlier, later, &mut comparison);
    workloads(earlier, later, &mut comparison);
    comparison.summary = summary(&comparison);
    comparison
}

/// The key by which two findings are the same.
type Cause<'r> = (&'r str, &'r ObjectRef, String);

/// Codes of findings about a date. Their message begins with the date.
const DATES: [&str; 4] = ["SUR501", "SUR502", "SUR504", "SUR507"];

fn cause(finding: &SurveyFinding) -> Cause<'_> {
    // The code changes on the day itself, and the tense of the text in a later version of the tables.
    if DATES.contains(&finding.code.as_str()) {
        let date = finding.message.split(':').next().unwrap_or_default();
        return ("date", &finding.object, format!("{date} {}", finding.path));
    }
    let path = match finding.pod.as_deref() {
        Some(pod) if !pod.is_empty() => finding.path.replace(pod, ""),
        _ => finding.path.clone(),
    };
    (&finding.code, &finding.object, path)
}

fn findings(earlier: &SurveyReport, later: &SurveyReport, comparison: &mut Comparison) {
    // Several findings may have one cause, for example those of two images: the first of one report is paired with the
    // first of the other.
    let mut before: BTreeMap<Cause<'_>, Vec<&SurveyFinding>> = BTreeMap::new();
    for finding in earlier.findings.iter().rev() {
        before.entry(cause(finding)).or_default().push(finding);
    }
    for now in &later.findings {
        match before.get_mut(&cause(now)).and_then(Vec::pop) {
            None => comparison.new.push(now.clone()),
            // A date that has passed: the earlier warning is not gone.
            Some(was) if was.code != now.code => comparison.new.push(now.clone()),
            Some(was) if was.pods != now.pods => {
                comparison.changed.push(ChangedFinding { now: now.clone(), earlier_pods: was.pods });
            }
            Some(_) => {}
        }
    }
    let objects: BTreeSet<&ObjectRef> = later.workloads.iter().map(|workload| &workload.object).collect();
    let was_listed: BTreeSet<&ObjectRef> = earlier.workloads.iter().map(|workload| &workload.object).collect();
    let left: HashSet<*const SurveyFinding> = before.into_values().flatten().map(ptr::from_ref).collect();
    for finding in earlier.findings.iter().filter(|finding| left.contains(&ptr::from_ref(*finding))) {
        let with_its_object = was_listed.contains(&finding.object) && !objects.contains(&finding.object);
        comparison.gone.push(GoneFinding { was: finding.clone(), with_its_object });
    }
}

fn state(workload: &Workload) -> WorkloadState {
    WorkloadState {
        os: workload.os.clone(),
        pools: workload.pools.iter().cloned().collect(),
        builds: workload.containers.iter().flat_map(|container| container.builds.iter().cloned()).collect(),
    }
}

fn workloads(earlier: &SurveyReport, later: &SurveyReport, comparison: &mut Comparison) {
    let mut before: BTreeMap<&ObjectRef, &Workload> =
        earlier.workloads.iter().map(|workload| (&workload.object, workload)).collect();
    for workload in &later.workloads {
        let Some(was) = before.remove(&workload.object) else {
            comparison.added_workloads.push(workload.object.clone());
            continue;
        };
        let (was, now) = (state(was), state(workload));
        // A workload without pods is in no pool, and a build that becomes known is not a change of the workload.
        let differ = |was: &BTreeSet<String>, now: &BTreeSet<String>| was != now && !was.is_empty() && !now.is_empty();
        if was.os != now.os || differ(&was.pools, &now.pools) || differ(&was.builds, &now.builds) {
            comparison.workloads.push(WorkloadChange { object: workload.object.clone(), earlier: was, later: now });
        }
    }
    comparison.removed_workloads = before.into_keys().cloned().collect();
}

/// The pools by name. While nodes are upgraded, one name has several entries.
fn by_name(pools: &[NodePool]) -> BTreeMap<&str, PoolState> {
    let mut states: BTreeMap<&str, PoolState> = BTreeMap::new();
    for pool in pools {
        let state = states.entry(&pool.name).or_default();
        state.nodes += pool.nodes;
        let Some(build) = &pool.build else { continue };
        if pool.revisions.is_empty() {
            state.builds.insert(build.clone());
        }
        state.builds.extend(pool.revisions.iter().map(|revision| format!("{build}.{}", revision.revision)));
    }
    states
}

fn pools(earlier: &[NodePool], later: &[NodePool]) -> Vec<PoolChange> {
    let (mut before, mut after) = (by_name(earlier), by_name(later));
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let changes = names.into_iter().map(|name| PoolChange {
        name: name.to_owned(),
        earlier: before.remove(name),
        later: after.remove(name),
    });
    changes.filter(|change| change.earlier != change.later).collect()
}

fn caveats(earlier: &SurveyReport, later: &SurveyReport) -> Vec<String> {
    let mut caveats = Vec::new();
    let (was, now) = (&earlier.header, &later.header);
    if was.redacted != now.redacted {
        let which = if was.redacted { "earlier" } else { "later" };
        caveats.push(format!(
            "Only the names of the {which} report are replaced, so objects of the two reports have different names. \
             Compare two reports with names, and redact the comparison."
        ));
    } else if was.redacted {
        caveats.push(
            "Both reports have replaced names, and one name may stand for another object in each. Compare two reports \
             with names, and redact the comparison."
                .to_owned(),
        );
    } else if was.cluster != now.cluster {
        caveats.push(format!(
            "The earlier report is about {}, and this one is about {}. If these are different clusters, the comparison \
             has no meaning.",
            was.cluster, now.cluster
        ));
    }
    let time = |header: &Header| header.taken_at.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
    let reversed = match (time(was), time(now)) {
        (Some(was), Some(now)) => was > now,
        _ => was.today > now.today,
    };
    if reversed {
        caveats.push("The report that is given as the earlier one is newer than this one.".to_owned());
    }
    let unread = |report: &SurveyReport| -> BTreeSet<String> {
        let kinds = report.coverage.unread.iter().map(|unread| match &unread.namespace {
            Some(namespace) => format!("{} in namespace {namespace}", unread.kind),
            None => unread.kind.clone(),
        });
        kinds.collect()
    };
    let (unread_then, unread_now) = (unread(earlier), unread(later));
    let only = |some: &BTreeSet<String>, others: &BTreeSet<String>| list(some.difference(others));
    let (lost, gained) = (only(&unread_now, &unread_then), only(&unread_then, &unread_now));
    if !lost.is_empty() {
        caveats.push(format!(
            "This survey did not read what the earlier one read: {lost}. Findings that depend on it appear to be gone."
        ));
    }
    if !gained.is_empty() {
        caveats.push(format!(
            "This survey read what the earlier one did not: {gained}. Findings that depend on it appear to be new."
        ));
    }
    caveats
}

fn summary(comparison: &Comparison) -> Vec<String> {
    let is = |count: usize| if count == 1 { "is" } else { "are" };
    let has = |count: usize| if count == 1 { "has" } else { "have" };
    let mut sentences = Vec::new();
    let mut say = |count: usize, sentence: String| {
        if count > 0 {
            sentences.push(sentence);
        }
    };
    let of_findings = |findings: &mut dyn Iterator<Item = &SurveyFinding>, state: &str| {
        let (problems, others): (Vec<&SurveyFinding>, Vec<&SurveyFinding>) =
            findings.partition(|finding| finding.severity == Severity::Problem);
        let all = problems.len() + others.len();
        let text = match (problems.len(), others.len()) {
            (0, others) => counted(others, "finding"),
            (problems, 0) => counted(problems, "problem"),
            (problems, others) => format!("{} and {}", counted(problems, "problem"), counted(others, "other finding")),
        };
        (all, format!("{text} {} {state}.", is(all)))
    };
    let (gone, sentence) = of_findings(&mut comparison.gone.iter().map(|gone| &gone.was), "gone");
    say(gone, sentence);
    let (new, sentence) = of_findings(&mut comparison.new.iter(), "new");
    say(new, sentence);
    let more = comparison.changed.iter().filter(|changed| changed.now.pods > changed.earlier_pods).count();
    let fewer = comparison.changed.len() - more;
    say(more, format!("{} {} more pods than before.", counted(more, "finding"), has(more)));
    say(fewer, format!("{} {} fewer pods than before.", counted(fewer, "finding"), has(fewer)));
    let moved = comparison.workloads.iter().filter(|change| change.earlier.pools != change.later.pools).count();
    let rebuilt = comparison.workloads.iter().filter(|change| change.earlier.builds != change.later.builds).count();
    say(moved, format!("{} {} in other pools.", counted(moved, "workload"), is(moved)));
    say(rebuilt, format!("{} {} images of other builds.", counted(rebuilt, "workload"), has(rebuilt)));
    let (added, removed) = (comparison.added_workloads.len(), comparison.removed_workloads.len());
    say(added, format!("{} {} new.", counted(added, "workload"), is(added)));
    say(removed, format!("{} {} gone.", counted(removed, "workload"), is(removed)));
    let pools = comparison.pools.len();
    say(pools, format!("{} {} other nodes or builds.", counted(pools, "pool"), has(pools)));
    let passed = comparison.passed.len();
    say(passed, format!("{} passed.", counted(passed, "date")));
    if sentences.is_empty() {
        sentences.push("Nothing differs from the earlier report.".to_owned());
    }
    sentences
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;
    use crate::report::SCHEMA;

    fn finding(code: &str, name: &str, pod: &str, pods: usize) -> Value {
        json!({
            "code": code, "finding": "x", "severity": "problem", "namespace": "shop", "kind": "Deployment", "name": name,
            "path": format!("Pod {pod}: status.reason"), "pod": pod, "message": "It fails.", "action": "Do it.",
            "raw": null, "pods": pods, "nodes": [],
        })
    }

    fn workload(name: &str, pool: &str, build: &str) -> Value {
        let builds: Vec<&str> = if build.is_empty() { Vec::new() } else { vec![build] };
        let pools: Vec<&str> = if pool.is_empty() { Vec::new() } else { vec![pool] };
        json!({
            "namespace": "shop", "kind": "Deployment", "name": name, "os": "windows", "because": "x",
            "containers": [{"name": "a", "image": "a", "builds": builds, "knownFrom": "name"}],
            "pods": 1, "ready": 1, "pools": pools, "managedBy": null, "findings": [],
        })
    }

    fn pool(name: &str, revision: u32, nodes: usize) -> Value {
        json!({
            "name": name, "provider": null, "os": "windows", "release": "ltsc2022", "build": "10.0.20348",
            "revisions": [{"revision": revision, "nodes": nodes}], "kubelets": [], "runtimes": [], "taints": [],
            "nodes": nodes, "ready": nodes, "cordoned": 0, "windowsPods": 0, "otherPods": 0, "misplacedPods": 0, "ends": [],
        })
    }

    fn report(today: &str, with: &Value) -> SurveyReport {
        let mut report = json!({
            "schema": SCHEMA,
            "header": {
                "cluster": "prod", "source": "dump", "takenAt": format!("{today}T08:00:00Z"), "mullion": "0.1.0",
                "kubernetes": null, "today": today, "datesAsOf": "2026-11-01", "redacted": false,
            },
            "coverage": {"read": [], "unread": []}, "summary": [], "pools": [], "imageBuilds": [], "workloads": [],
            "findings": [], "daemonSets": [], "changes": [], "deadlines": [], "unknown": [],
        });
        for (key, value) in with.as_object().unwrap() {
            report[key] = value.clone();
        }
        serde_json::from_value(report).unwrap()
    }

    #[test]
    fn what_is_the_same_is_no_difference() {
        let all = json!({
            "findings": [finding("SUR101", "web", "web-1", 2), finding("SUR101", "web", "web-1", 3)],
            "workloads": [workload("web", "win", "10.0.20348")],
            "pools": [pool("win", 1, 2)],
        });
        let mut later = report("2026-11-23", &all);
        // Another pod of the same Deployment has the same finding.
        for finding in &mut later.findings {
            finding.path = finding.path.replace("web-1", "web-2");
            finding.pod = Some("web-2".to_owned());
        }
        let found = compare(&report("2026-11-20", &all), &later);
        assert_eq!(found.summary, ["Nothing differs from the earlier report."]);
        assert!(found.caveats.is_empty(), "{:?}", found.caveats);
        assert!(found.gone.is_empty() && found.new.is_empty() && found.changed.is_empty(), "{found:?}");
    }

    #[test]
    fn differences_are_found_by_what_they_are_about() {
        let deadline = |date| json!({"date": date, "what": "x", "concerns": "y.", "source": "z", "asOf": "2026-01-01"});
        let deadlines =
            json!([deadline("2026-11-19"), deadline("2026-11-20"), deadline("2026-11-22"), deadline("2026-11-23")]);
        let earlier = json!({
            "findings": [
                finding("SUR101", "web", "web-1", 2), finding("SUR101", "web", "web-1", 2), finding("SUR201", "api", "api-1", 1),
                finding("SUR101", "old", "old-1", 1),
            ],
            "workloads": [
                workload("web", "win19", "10.0.17763"), workload("old", "win19", "10.0.17763"), workload("api", "", ""),
            ],
            "pools": [pool("win", 1, 2), pool("gone", 1, 1), pool("same", 1, 1)],
            "deadlines": deadlines,
        });
        let later = json!({
            "findings": [finding("SUR101", "web", "web-7", 2), finding("SUR201", "api", "api-1", 9), finding("SUR301", "api", "api-1", 1)],
            "workloads": [
                workload("web", "win22", "10.0.20348"), workload("new", "win22", ""), workload("api", "win22", "10.0.20348"),
            ],
            "pools": [pool("win", 2, 2), pool("new", 1, 1), pool("same", 1, 1)],
            "deadlines": deadlines,
        });
        let found = compare(&report("2026-11-20", &earlier), &report("2026-11-23", &later));
        let codes = |findings: &mut dyn Iterator<Item = &SurveyFinding>| -> Vec<String> {
            findings.map(|finding| format!("{} {}", finding.code, finding.object.name)).collect()
        };
        assert_eq!(codes(&mut found.gone.iter().map(|gone| &gone.was)), ["SUR101 web", "SUR101 old"]);
        assert_eq!(found.gone.iter().map(|gone| gone.with_its_object).collect::<Vec<_>>(), [false, true]);
        assert_eq!(codes(&mut found.new.iter()), ["SUR301 api"]);
        assert_eq!(codes(&mut found.changed.iter().map(|changed| &changed.now)), ["SUR201 api"]);
        assert_eq!(found.changed[0].earlier_pods, 1);
        // `api` had no pods and no known build: it did not move.
        assert_eq!(found.workloads.iter().map(|change| &*change.object.name).collect::<Vec<_>>(), ["web"]);
        assert_eq!(found.added_workloads[0].name, "new");
        assert_eq!(found.removed_workloads[0].name, "old");
        let pools: Vec<_> = found
            .pools
            .iter()
            .map(|change| (&*change.name, change.earlier.is_some(), change.later.is_some()))
            .collect();
        assert_eq!(pools, [("gone", true, false), ("new", false, true), ("win", true, true)]);
        let passed: Vec<String> = found.passed.iter().map(|deadline| deadline.date.to_string()).collect();
        assert_eq!(passed, ["2026-11-20", "2026-11-22"]);
        assert_eq!(
            found.summary,
            [
                "2 problems are gone.",
                "1 problem is new.",
                "1 finding has more pods than before.",
                "1 workload is in other pools.",
                "1 workload has images of other builds.",
                "1 workload is new.",
                "1 workload is gone.",
                "3 pools have other nodes or builds.",
                "2 dates passed.",
            ]
        );
    }

    /// A warning about a date does not disappear on the day after it: it becomes another finding.
    #[test]
    fn a_date_that_passed_is_not_gone() {
        let ends = |code: &str, date: &str, what: &str| {
            let mut finding = finding(code, "images", "", 0);
            finding["path"] = json!("spec.containers[*].image");
            finding["message"] = json!(format!("{date}: {what}. Source of 2026-08-13: x."));
            finding
        };
        let (net, framework) = ("2026-11-10", "2027-01-12");
        let earlier =
            json!({"findings": [ends("SUR502", net, "Microsoft ends .NET 8"), ends("SUR502", framework, "x")]});
        for (code, new) in [("SUR507", vec!["SUR507"]), ("SUR502", Vec::new())] {
            let later =
                json!({"findings": [ends("SUR502", framework, "x"), ends(code, net, "Microsoft ended .NET 8")]});
            let found = compare(&report("2026-11-10", &earlier), &report("2026-11-11", &later));
            assert!(found.gone.is_empty(), "{:?}", found.gone);
            assert_eq!(found.new.iter().map(|new| new.code.as_str()).collect::<Vec<_>>(), new);
        }
        // The image was replaced.
        let later = json!({"findings": [ends("SUR502", framework, "x")]});
        let found = compare(&report("2026-11-10", &earlier), &report("2026-11-11", &later));
        assert_eq!(found.gone.iter().map(|gone| &gone.was.message[..10]).collect::<Vec<_>>(), [net]);
    }

    #[test]
    fn what_makes_it_uncertain_is_reported() {
        let unread = |kind| {
            json!({"coverage": {"read": [], "unread": [
            {"kind": kind, "namespace": null, "reason": "forbidden", "missing": "Much."}]}})
        };
        let mut earlier = report("2026-11-23", &unread("events"));
        let mut later = report("2026-11-20", &unread("jobs"));
        later.header.cluster = "test".to_owned();
        let caveats = compare(&earlier, &later).caveats;
        let begin: Vec<&str> =
            caveats.iter().filter_map(|caveat| caveat.split_once('.')).map(|(first, _)| first).collect();
        assert_eq!(
            begin,
            [
                "The earlier report is about prod, and this one is about test",
                "The report that is given as the earlier one is newer than this one",
                "This survey did not read what the earlier one read: jobs",
                "This survey read what the earlier one did not: events",
            ]
        );
        earlier.header.redacted = true;
        assert!(compare(&earlier, &later).caveats[0].starts_with("Only the names of the earlier report are replaced"));
        later.header.redacted = true;
        assert!(compare(&earlier, &later).caveats[0].starts_with("Both reports have replaced names"));
    }
}
