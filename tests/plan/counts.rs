//! Every number of a plan is the length of a list of the report, and the sum of its parts, in each format: over dumps and
//! random clusters.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::civil::date;
use mullion::report::ReportFormat;
use mullion_plan::report::Verdict;
use mullion_plan::{PlanReport, plan};
use mullion_policy::PolicySet;
use mullion_survey::Facts;
use mullion_survey::report::Source;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::clusters::{any_workload, cluster};
use crate::support::{context, objects_in, read_objects};
use crate::written;

fn planned(objects: Vec<Value>, without: &[&str]) -> PlanReport {
    let (policies, facts) = (PolicySet::built_in(), Facts::built_in());
    let inventory = read_objects(objects, without).finish();
    plan(&inventory, context(Source::Cluster, date(2026, 11, 22), (&policies, &facts), 26_100))
}

fn objects_of(dump: &str) -> Vec<Value> {
    objects_in(&std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(dump)).unwrap())
}

/// The number of a tile; `None` if it is not known.
fn tile(html: &str, label: &str) -> Option<usize> {
    let (before, _) = html.split_once(&format!("</b> <span>{label}<")).unwrap_or_else(|| panic!("no tile {label}"));
    before.rsplit_once("<b>").unwrap().1.parse().ok()
}

fn check(report: &PlanReport, are_pods_read: bool) {
    let (html, text) = (written(report, ReportFormat::Html), written(report, ReportFormat::Text));
    let csv = written(report, ReportFormat::Csv);
    let names: BTreeSet<String> = csv
        .split("\r\n")
        .skip(1)
        .filter(|line| !line.is_empty())
        .map(|line| line.split(',').take(5).collect::<Vec<_>>().join(","))
        .collect();
    let number = |verdict: Verdict| {
        let is_of = |name: &&String| {
            let parts: Vec<&str> = name.split(',').collect();
            parts[4] == verdict.name() && (report.steps.is_empty() || !parts[3].is_empty())
        };
        names.iter().filter(is_of).count()
    };
    for (label, verdict) in [
        ("Run as is", Verdict::RunsAsIs),
        ("Another tag", Verdict::AnotherTag),
        ("Rebuild", Verdict::Rebuild),
        ("Unknown", Verdict::Unknown),
    ] {
        let number = number(verdict);
        assert_eq!(tile(&html, label), (number > 0 || are_pods_read).then_some(number), "{label}");
    }
    let moving = report.workloads.iter().filter(|workload| workload.step.is_some()).count();
    assert_eq!(report.steps.iter().map(|step| step.workloads).sum::<usize>(), moving);
    for step in &report.steps {
        let own = report.workloads.iter().filter(|workload| workload.step == Some(step.number)).count();
        assert_eq!(step.workloads, own, "step {}", step.number);
    }
    if moving > 0 {
        let all = [Verdict::RunsAsIs, Verdict::AnotherTag, Verdict::Rebuild, Verdict::Unknown].map(number);
        assert_eq!(all.iter().sum::<usize>(), moving);
        let stay = report.workloads.len() - moving;
        let that = if stay > 0 { if moving == 1 { " that moves" } else { " that move" } } else { "" };
        let workloads = if moving == 1 { "workload" } else { "workloads" };
        let answer = format!("{} of {moving} Windows {workloads}{that} run", number(Verdict::RunsAsIs));
        assert!(report.summary[0].starts_with(&answer), "{answer}: {}", report.summary[0]);
        for (verdict, words) in [
            (Verdict::AnotherTag, ["1 needs another tag", "need another tag"]),
            (Verdict::Rebuild, ["1 needs a rebuild", "need a rebuild"]),
            (Verdict::Unknown, ["1 is unknown", "are unknown"]),
        ] {
            let number = number(verdict);
            let part = if number == 1 { words[0].to_owned() } else { format!("{number} {}", words[1]) };
            assert_eq!(report.summary[0].contains(&part), number > 0, "{part}: {}", report.summary[0]);
        }
    }
    if !report.workloads.is_empty() {
        let plural = if report.workloads.len() == 1 { "" } else { "s" };
        assert!(text.contains(&format!("Work list: {} Windows workload{plural}", report.workloads.len())));
    }
    for pool in &report.pools {
        let own = report.workloads.iter().filter(|workload| workload.pools.contains(&pool.name)).count();
        assert_eq!(pool.workloads, are_pods_read.then_some(own), "pool {}", pool.name);
    }
    assert!(report.workloads.iter().all(|workload| workload.pods.is_some() == are_pods_read));
}

#[test]
fn numbers_of_dumps_are_those_of_their_lists() {
    for fleet in ["aks", "eks", "rke2", "there"] {
        for (without, are_pods_read) in [(&[][..], true), (&["Pod"], false), (&["Event", "ReplicaSet"], true)] {
            check(&planned(objects_of(&format!("tests/plan_fleets/{fleet}/dump.yaml")), without), are_pods_read);
        }
    }
}

#[test]
fn a_workload_whose_class_was_not_read_is_not_said_to_stay() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1", "labels": {
        "kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"}},
        "status": {"nodeInfo": {"operatingSystem": "windows", "osImage": "Windows Server 2022", "kernelVersion": "10.0.20348.2655",
            "kubeletVersion": "v1.33.1", "containerRuntimeVersion": "containerd://1.7.20"}}});
    let deployment = |name: &str, class: Option<&str>| {
        let image = "mcr.microsoft.com/windows/servercore:ltsc2022";
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
                "spec": {"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "c", "image": image}]}}}});
        object["spec"]["template"]["spec"]["runtimeClassName"] = json!(class);
        object
    };
    let report = planned(vec![node, deployment("web", None), deployment("classy", Some("win"))], &["RuntimeClass"]);
    let unknown = report.workloads.iter().filter(|workload| workload.move_not_known);
    assert_eq!(unknown.map(|workload| workload.object.name.as_str()).collect::<Vec<_>>(), ["classy"]);
    let text = written(&report, ReportFormat::Text);
    assert!(text.contains("not known whether it moves") && !text.contains("does not move"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn numbers_of_random_clusters_are_those_of_their_lists(workloads in prop::collection::vec(any_workload(), 1..6)) {
        check(&planned(cluster(&workloads), &[]), true);
        check(&planned(cluster(&workloads), &["Pod"]), false);
    }
}
