//! Lists that were not read: a report states nothing that needs them, and what was unknown stays unknown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod support;

use std::collections::BTreeSet;

use jiff::civil::date;
use mullion_policy::PolicySet;
use mullion_survey::inventory::{BROKEN_INPUTS, KINDS, OTHER_LABELS, OTHER_NAMESPACES, read_yaml};
use mullion_survey::report::{Knowledge, Source, Unread};
use mullion_survey::{Facts, Inventory, InventoryReader, PlanReport, SurveyContext, SurveyReport, plan, survey};
use support::context;

const MIXED: &str = include_str!("mixed/dump.yaml");
const ODD_NODES: &str = include_str!("unread/odd-nodes.yaml");
const KUBELET_SKEW: &str = include_str!("unread/kubelet-skew.yaml");
const RUNS_AS_IS: &str = include_str!("threads/01-runs-as-is.yaml");

/// The statements that need every pod.
const OF_ALL_PODS: [&str; 4] = [
    "No pod is misplaced or stuck.",
    "No Windows workload moves to",
    "After the waves, only pods of DaemonSets are on these nodes.",
    "Every workload has moved",
];

/// The inventory of a dump without the objects of some kinds. All other kinds were listed, as from a live cluster.
fn inventory(dump: &str, without: &[&str], unread: Option<&Unread>) -> Inventory {
    let mut reader = InventoryReader::default();
    reader.begin("dump");
    let problems = read_yaml(dump, &mut |mut object, _| {
        let items = object.get_mut("items").and_then(serde_json::Value::as_array_mut).map(std::mem::take);
        for object in items.unwrap_or_else(|| vec![object]) {
            let own = object.get("kind").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
            if !without.contains(&own.as_str()) {
                reader.add(object, None, &mut |_| {});
            }
        }
    });
    assert_eq!(problems, Vec::new());
    for kind in KINDS.iter().filter(|kind| !without.contains(&kind.kind)) {
        reader.listed(kind.plural);
    }
    if let Some(unread) = unread {
        reader.unread(unread.clone());
    }
    reader.end();
    reader.finish()
}

fn survey_of(inventory: &Inventory) -> SurveyReport {
    let (policies, facts) = (&PolicySet::built_in(), &Facts::built_in());
    let (source, today) = (Source::Cluster, date(2026, 11, 27));
    survey(inventory, SurveyContext { cluster: "c", source, today, mullion: "0.0.0", policies, facts })
}

fn plan_of(inventory: &Inventory) -> PlanReport {
    plan(inventory, context(Source::Cluster, date(2026, 11, 27), (&PolicySet::built_in(), &Facts::built_in()), 26_100))
}

fn text(report: &impl serde::Serialize) -> String {
    serde_json::to_string(report).unwrap()
}

/// Findings by code and object, and the statements that need every pod. A pod that is stuck or misplaced has a less specific
/// code without the list that explains it.
fn statements(survey: &SurveyReport, plan: &PlanReport) -> BTreeSet<String> {
    let code =
        |code: &str| if code.starts_with("SUR1") || code.starts_with("SUR2") { "stuck" } else { code }.to_owned();
    // Without its owner a pod is reviewed as it is, and its containers may have no limit although those of the template have.
    let findings = survey.findings.iter().filter(|one| one.code != "SUR307");
    let findings = findings.map(|one| format!("{} {:?}", code(&one.code), one.object));
    let text = text(survey) + &text(plan);
    findings.chain(OF_ALL_PODS.iter().filter(|&&of| text.contains(of)).map(|of| (*of).to_owned())).collect()
}

/// Workloads of unknown operating system, and containers of unknown builds.
fn unknown(survey: &SurveyReport) -> BTreeSet<String> {
    let workloads = survey.workloads.iter().filter(|one| one.os == "undecided").map(|one| format!("{:?}", one.object));
    let containers = survey.workloads.iter().flat_map(|one| {
        let unknown = one.containers.iter().filter(|container| container.known_from == Knowledge::Unknown);
        unknown.map(move |container| format!("{:?} {}", one.object, container.name))
    });
    workloads.chain(containers).collect()
}

/// Every workload and container of the report.
fn all(survey: &SurveyReport) -> BTreeSet<String> {
    let workloads = survey.workloads.iter().map(|one| format!("{:?}", one.object));
    let containers = survey
        .workloads
        .iter()
        .flat_map(|one| one.containers.iter().map(move |container| format!("{:?} {}", one.object, container.name)));
    workloads.chain(containers).collect()
}

#[test]
fn a_list_that_was_not_read_adds_no_statement() {
    for dump in [MIXED, RUNS_AS_IS] {
        let whole = inventory(dump, &[], None);
        let (survey, plan) = (survey_of(&whole), plan_of(&whole));
        let (stated, not_known) = (statements(&survey, &plan), unknown(&survey));
        // Namespaces and RuntimeClasses complete the objects that a review reads, and ReplicaSets name the owner of a pod: these
        // lists change the subject of a finding.
        assert!(survey.coverage.read.iter().filter(|read| read.objects > 0).count() > 2);
        for kind in KINDS.iter().filter(|kind| !["Namespace", "RuntimeClass", "ReplicaSet"].contains(&kind.kind)) {
            let partial = inventory(dump, &[kind.kind], None);
            let (survey, plan) = (survey_of(&partial), plan_of(&partial));
            let added: Vec<String> = statements(&survey, &plan).difference(&stated).cloned().collect();
            assert_eq!(added, Vec::<String>::new(), "without {}", kind.plural);
            let (now, present) = (unknown(&survey), all(&survey));
            let lost: Vec<&String> = not_known.difference(&now).filter(|one| present.contains(*one)).collect();
            assert_eq!(lost, Vec::<&String>::new(), "without {}", kind.plural);
        }
    }
}

#[test]
fn a_part_that_was_not_read_is_named() {
    for (kind, namespace, why) in [
        ("pods", Some("shop"), "pods of namespace shop were not read"),
        ("pods", None, "some pods were not read"),
        (OTHER_NAMESPACES, None, "pods of other namespaces were not read"),
        (OTHER_LABELS, None, "pods with other labels were not read"),
        (BROKEN_INPUTS, None, "pods of an input were not read"),
    ] {
        let unread = Unread {
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            reason: "forbidden".to_owned(),
            missing: "a part".to_owned(),
        };
        for dump in [MIXED, ODD_NODES, RUNS_AS_IS] {
            let partial = inventory(dump, &[], Some(&unread));
            let (survey, plan) = (survey_of(&partial), plan_of(&partial));
            let text = text(&survey) + &text(&plan);
            for statement in OF_ALL_PODS {
                assert!(!text.contains(statement), "{statement} although {why}");
            }
            assert!(survey.coverage.is_partial() && plan.coverage.is_partial());
            assert!(plan.summary.iter().any(|sentence| sentence.contains(why)), "{why}: {:#?}", plan.summary);
        }
    }
}

/// kubernetes-sigs/sig-windows-dev-tools#171: a dump of nodes only.
#[test]
fn nothing_about_pods_is_stated_without_them() {
    let mut reader = InventoryReader::default();
    reader.begin("nodes.json");
    assert_eq!(read_yaml(ODD_NODES, &mut |object, kind| reader.add(object, kind, &mut |_| {})), Vec::new());
    reader.end();
    let inventory = reader.finish();
    let (survey, plan) = (survey_of(&inventory), plan_of(&inventory));
    let text = text(&survey) + &text(&plan);
    for statement in OF_ALL_PODS {
        assert!(!text.contains(statement), "{statement}");
    }
    assert_eq!(
        plan.summary[0],
        "Which Windows workloads move to Windows Server 2025 is not known: pods were not read."
    );
    // No command drains or deletes nodes whose pods are not known.
    let commands = plan.steps.iter().flat_map(|step| &step.commands).map(|command| command.run.as_str());
    let destructive = commands.filter(|run| run.contains("drain") || run.contains("delete"));
    assert_eq!(destructive.collect::<Vec<_>>(), Vec::<&str>::new());
    for unknown in [&survey.unknown, &plan.unknown] {
        assert!(unknown.iter().any(|one| one.what.contains("is not known: pods were not read") && one.all > 0));
    }
    // The products of the nodes, with dates of their own.
    let pool = |name: &str| survey.pools.iter().find(|pool| pool.name == name).unwrap_or_else(|| panic!("{name}"));
    for (name, end) in [
        ("Windows 11 23H2", "2026-11-10"),
        ("Windows 11 24H2", "2027-10-12"),
        ("Windows 10 1809 LTSC", "2029-01-09"),
        ("build-19041", "2021-12-14"),
        ("ltsc2019", "2029-01-09"),
    ] {
        let ends = &pool(name).ends;
        assert!(
            ends.iter().any(|one| one.date.to_string() == end && one.what.contains("Windows")),
            "{name}: {ends:#?}"
        );
    }
    assert!(!pool("Windows 11 24H2").ends.iter().any(|one| one.what.contains("Server")));
}

/// Virtual nodes are in no pool, but they and their pods are in the report.
#[test]
fn virtual_nodes_are_named() {
    let dump = "
apiVersion: v1
kind: List
items:
- {kind: Node, apiVersion: v1, metadata: {name: w, labels: {kubernetes.io/os: windows}}, status: {nodeInfo: {kernelVersion: 10.0.20348.1}}}
- {kind: Node, apiVersion: v1, metadata: {name: aci, labels: {kubernetes.io/os: linux, type: virtual-kubelet}}}
- {kind: Pod, apiVersion: v1, metadata: {name: burst, namespace: shop}, spec: {nodeName: aci, containers: [{name: a, image: nginx}]}}
";
    let survey = survey_of(&inventory(dump, &[], None));
    let found = survey.unknown.iter().find(|one| one.what.contains("virtual nodes")).unwrap();
    assert!(found.what.ends_with("1 pod is on them."), "{}", found.what);
    assert_eq!((found.all, found.objects[0].name.as_str()), (1, "aci"));
    assert!(survey.workloads.iter().any(|one| one.object.name == "burst" && one.pods == 1), "{:#?}", survey.workloads);
    assert_eq!(survey.pools.iter().map(|pool| pool.nodes).sum::<usize>(), 1);
}

/// kubernetes.io/releases/version-skew-policy: a kubelet before 1.25 can be two minor versions older.
#[test]
fn an_old_kubelet_permits_two_minor_versions() {
    let plan = plan_of(&inventory(KUBELET_SKEW, &["Pod"], None));
    let says = "Kubelets before Kubernetes 1.25 can be up to 2 minor versions behind the control plane: pool ltsc2019 has 1.20, so the control plane can be at most 1.22 now";
    assert!(plan.constraints.iter().any(|one| one.what.contains(says)), "{:#?}", plan.constraints);
}
