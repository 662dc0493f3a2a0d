//! Every number of a survey is the length of a list of the report, and the sum of its parts, in each format: over fixtures,
//! dumps and random clusters.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::civil::date;
use mullion::report::ReportFormat;
use mullion_policy::PolicySet;
use mullion_survey::report::{Severity, Source, SurveyFinding};
use mullion_survey::{Facts, SurveyContext, SurveyReport, survey};
use proptest::prelude::*;
use serde_json::Value;

use crate::clusters::{any_workload, cluster};
use crate::support::{objects_in, read_objects};
use crate::{fixtures, written};

/// The codes of each number of the summary, as the documentation of the report lists them.
const MISPLACED: [&str; 6] = ["SUR101", "SUR102", "SUR103", "SUR201", "SUR210", "SUR214"];
const LUCK: [&str; 3] = ["SUR301", "SUR302", "SUR305"];
const ABSENT: [&str; 2] = ["SUR401", "SUR403"];
const REJECTED: &str = "SUR112";

fn surveyed(objects: Vec<Value>, without: &[&str]) -> SurveyReport {
    survey(
        &read_objects(objects, without).finish(),
        SurveyContext {
            cluster: "c",
            source: Source::Cluster,
            today: date(2026, 11, 22),
            mullion: "0.0.0",
            policies: &PolicySet::built_in(),
            facts: &Facts::built_in(),
        },
    )
}

fn objects_of(dump: &str) -> Vec<Value> {
    objects_in(&std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(dump)).unwrap())
}

/// The cells of a line of CSV without line ends in cells.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

/// The number of a tile; `None` if it is not known.
fn tile(html: &str, label: &str) -> Option<usize> {
    let plural = format!("</b> <span>{label}");
    let (before, _) = html.split_once(&plural).unwrap_or_else(|| panic!("no tile {label}"));
    before.rsplit_once("<b>").unwrap().1.replace(',', "").parse().ok()
}

/// The number with its noun, as in a sentence.
fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn with_code<'r>(report: &'r SurveyReport, codes: &[&str]) -> Vec<&'r SurveyFinding> {
    report.findings.iter().filter(|finding| codes.contains(&finding.code.as_str())).collect()
}

/// Compares the numbers of a report with its lists, as CSV and JSON have them.
fn check(report: &SurveyReport) {
    let csv = written(report, None, ReportFormat::Csv);
    let rows: Vec<Vec<String>> = csv.split("\r\n").skip(1).filter(|line| !line.is_empty()).map(cells).collect();
    let sum = |column: usize, is_of: &dyn Fn(&Vec<String>) -> bool| -> Option<usize> {
        let own: Vec<&Vec<String>> = rows.iter().filter(|row| is_of(row)).collect();
        own.iter().map(|row| row[column].parse::<usize>().ok()).sum()
    };
    let is_windows = |row: &Vec<String>| row[3] == "windows";
    let html = written(report, None, ReportFormat::Html);
    let text = written(report, None, ReportFormat::Text);
    let markdown = written(report, None, ReportFormat::Markdown);
    assert_eq!(rows.len(), report.workloads.len());

    // Pools are the sums of their workloads.
    for (at, pool) in report.pools.iter().enumerate() {
        let here = |windows: bool| {
            let of = report.workloads.iter().filter(move |workload| (workload.os == "windows") == windows);
            of.flat_map(|workload| &workload.placement).filter(move |placed| placed.pool == at)
        };
        let pods = |windows: bool| here(windows).map(|placed| placed.pods).sum::<usize>();
        let misplaced = here(true).chain(here(false)).map(|placed| placed.misplaced_pods).sum::<usize>();
        for (number, sum) in
            [(pool.windows_pods, pods(true)), (pool.other_pods, pods(false)), (pool.misplaced_pods, misplaced)]
        {
            assert!(number.is_none_or(|number| number == sum), "pool {}: {number:?} and {sum}", pool.name);
        }
        // The sentence and the picture have the workloads with a pod there, and those with a misplaced one.
        let placed: Vec<_> = here(true).chain(here(false)).collect();
        assert_eq!(
            placed.iter().any(|placed| placed.misplaced_pods > 0),
            pool.misplaced_pods.is_some_and(|pods| pods > 0)
        );
    }

    // Builds are the sums of the Windows workloads.
    let windows = rows.iter().filter(|row| is_windows(row)).count();
    assert_eq!(report.image_builds.iter().map(|build| build.workloads).sum::<usize>(), windows);
    assert_eq!(report.image_builds.iter().map(|build| build.pods).sum::<Option<usize>>(), sum(8, &is_windows));

    // Tiles, headings and groups.
    let are_pods_known = report.workloads.iter().all(|workload| workload.pods.is_some()) && !report.pools.is_empty();
    let known = |number: usize| (number > 0 || are_pods_known).then_some(number);
    let of = |severity: Severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    for (label, heading, severity) in
        [("Problem", "Problems", Severity::Problem), ("Warning", "Warnings", Severity::Warning)]
    {
        let number = of(severity);
        assert_eq!(tile(&html, label), known(number), "{label}");
        let line = format!("{heading}: {}", counted(number, "finding"));
        assert_eq!(text.contains(&line), number > 0, "{line}");
    }
    let are_pods_read = report.coverage.read.iter().any(|read| read.kind == "pods");
    assert_eq!(tile(&html, "Windows workload"), (windows > 0 || are_pods_read).then_some(windows));
    for code in report.findings.iter().map(|finding| finding.code.as_str()).collect::<BTreeSet<_>>() {
        let own = with_code(report, &[code]);
        let objects = own.iter().map(|finding| &finding.object).collect::<BTreeSet<_>>().len();
        let pods = own.iter().map(|finding| finding.pods).sum::<usize>();
        let pods = if pods == 0 { String::new() } else { format!(", {}", counted(pods, "pod")) };
        let extent = format!("{}: {}{pods}\n", own[0].name, counted(objects, "object"));
        assert!(text.contains(&extent) && markdown.contains(&extent), "{extent}");
    }

    // Misplaced pods: of the pools, of the workloads, of the findings, in each table.
    let misplaced: Option<usize> =
        report.pools.iter().map(|pool| pool.misplaced_pods).sum::<Option<usize>>().filter(|_| are_pods_known);
    if let Some(misplaced) = misplaced {
        assert_eq!(tile(&html, "Misplaced pod"), Some(misplaced));
        assert_eq!(with_code(report, &MISPLACED).iter().map(|finding| finding.pods).sum::<usize>(), misplaced);
        let of_rows = text.lines().skip_while(|line| !line.contains("MISPLACED")).skip(1);
        let of_rows = of_rows.take(report.pools.len()).map(|line| {
            let cell = line.split_whitespace().last().unwrap();
            cell.parse::<usize>().unwrap_or_default()
        });
        assert_eq!(of_rows.sum::<usize>(), misplaced, "{text}");
    }
}

/// Which codes a sentence counts, the noun after the number, and the end of the sentence.
type Sentence<'c> = (&'c dyn Fn(&str) -> bool, &'c str, &'c str);

/// Compares the sentences of the summary with the rows of the workloads.
fn check_summary(report: &SurveyReport) {
    let summary = report.summary.join("\n");
    let rows = |codes: &dyn Fn(&str) -> bool| {
        report.workloads.iter().filter(|workload| workload.findings.iter().any(|code| codes(code))).count()
    };
    let is_stuck = |code: &str| (code.starts_with("SUR1") || code.starts_with("SUR2")) && code != REJECTED;
    let sentences: [Sentence<'_>; 4] = [
        (&is_stuck, "workload", "pods that are misplaced or stuck"),
        (&|code| code == REJECTED, "workload", "no pods, because the API server rejects them"),
        (&|code| LUCK.contains(&code), "workload", "by luck"),
        (&|code| ABSENT.contains(&code), "DaemonSet", "a Windows pool"),
    ];
    for (codes, noun, about) in sentences {
        let number = rows(codes);
        let verbs = if number == 1 { ["has", "works", "misses"] } else { ["have", "work", "miss"] };
        let stated = verbs.iter().any(|verb| summary.contains(&format!("{} {verb} {about}", counted(number, noun))));
        assert_eq!(stated, number > 0, "{number} {noun} {about}: {summary}");
    }
    let misplaced = report.pools.iter().map(|pool| pool.misplaced_pods).sum::<Option<usize>>().unwrap_or_default();
    let is = if misplaced == 1 { "is on a node" } else { "are on nodes" };
    assert_eq!(
        summary.contains(&format!("{} {is}", counted(misplaced, "pod"))),
        misplaced > 0,
        "{misplaced}: {summary}"
    );
    let nodes: usize = report.pools.iter().map(|pool| pool.nodes).sum();
    assert!(report.pools.is_empty() || summary.contains(&format!(" of {} run Windows", counted(nodes, "node"))));
}

#[test]
fn numbers_of_dumps_are_those_of_their_lists() {
    check(&fixtures::mixed());
    let fleets = ["aks", "eks", "rke2", "there"].map(|fleet| format!("tests/plan_fleets/{fleet}/dump.yaml"));
    for dump in fleets.iter().map(String::as_str).chain(["crates/survey/tests/mixed/dump.yaml"]) {
        for without in [&[][..], &["Pod"], &["Node"], &["ReplicaSet"]] {
            let report = surveyed(objects_of(dump), without);
            check(&report);
            check_summary(&report);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn numbers_of_random_clusters_are_those_of_their_lists(workloads in prop::collection::vec(any_workload(), 1..6)) {
        for without in [&[][..], &["Pod"], &["Node"]] {
            let report = surveyed(cluster(&workloads), without);
            check(&report);
            check_summary(&report);
        }
    }
}

/// A pod and its Deployment are one row, whether or not `ReplicaSets` were read; a pod without `pod-template-hash` is not joined to a
/// Deployment by its name.
#[test]
fn a_pod_and_its_deployment_are_one_row() {
    let dump = |label: &str, set: &str| {
        let spec = serde_json::json!({"containers": [{"name": "a", "image": "nginx:1.27"}]});
        let owner = serde_json::json!([{"kind": "ReplicaSet", "name": set, "controller": true}]);
        vec![
            serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "a", "name": "web"}, "spec": {"template": {"spec": spec}}}),
            serde_json::json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {"namespace": "a", "name": "web-5d-1", "labels": {label: "5d"}, "ownerReferences": owner}}),
        ]
    };
    let cut = format!("{}-5d", "a".repeat(250));
    let cases = [
        ("pod-template-hash", "web-5d", 1),
        ("app", "web-5d", 2),
        ("pod-template-hash", "web5d", 2),
        ("pod-template-hash", &cut, 2),
    ];
    for (label, set, rows) in cases {
        let report = surveyed(dump(label, set), &["ReplicaSet"]);
        let named: Vec<String> =
            report.workloads.iter().map(|one| format!("{} {}", one.object.kind, one.object.name)).collect();
        assert_eq!(named.len(), rows, "{label} {set}: {named:?}");
        assert!(named.contains(&"Deployment web".to_owned()));
    }
}
