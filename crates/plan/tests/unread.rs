//! Lists that were not read: a report states nothing that needs them, and what was unknown stays unknown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

#[path = "support/clusters.rs"]
mod clusters;
mod support;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::civil::date;
use mullion_plan::report::{CommandEffect, StepKind, Verdict};
use mullion_plan::{PlanReport, plan};
use mullion_policy::PolicySet;
use mullion_survey::catalogue::{FINDINGS, FindingGroup, find_kind};
use mullion_survey::inventory::{BROKEN_INPUTS, KINDS, OTHER_LABELS, OTHER_NAMESPACES, read_yaml};
use mullion_survey::report::{ObjectRef, Source, SurveyFinding, Unread};
use mullion_survey::{Facts, Inventory, InventoryReader, Statement, SurveyContext, SurveyReport, survey};
use proptest::prelude::*;
use serde_json::Value;
use support::{context, objects_in, read_objects};

use clusters::{any_workload, cluster};

const MIXED: &str = include_str!("../../survey/tests/mixed/dump.yaml");
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
    let mut reader = read_objects(objects_in(dump), without);
    if let Some(unread) = unread {
        reader.unread(unread.clone());
    }
    reader.finish()
}

/// The policies and the tables, which are read once.
static BUILT_IN: LazyLock<(PolicySet, Facts)> = LazyLock::new(|| (PolicySet::built_in(), Facts::built_in()));

fn survey_of(inventory: &Inventory) -> SurveyReport {
    let (policies, facts) = &*BUILT_IN;
    let (source, today) = (Source::Cluster, date(2026, 11, 27));
    survey(inventory, SurveyContext { cluster: "c", source, today, mullion: "0.0.0", policies, facts })
}

fn plan_of(inventory: &Inventory) -> PlanReport {
    plan(inventory, context(Source::Cluster, date(2026, 11, 27), (&BUILT_IN.0, &BUILT_IN.1), 26_100))
}

fn text(report: &impl serde::Serialize) -> String {
    serde_json::to_string(report).unwrap()
}

/// Whether a finding is a statement of its own. A pod that is stuck has one reason, the most specific one, and without what shows
/// that, the next one of its texts: of these, the statement is that the pod is stuck. So is that its image has no entry for the
/// node, in place of what the image is for.
fn is_own_statement(code: &str) -> bool {
    let kind = find_kind(code).unwrap();
    code != "SUR201" && (kind.group != FindingGroup::Stuck || kind.needs.contains(&"nodes"))
}

/// The object that people edit. The owner of a Job is known only from the Job, and its name is that of the `CronJob` with a
/// number.
fn subject(object: &ObjectRef) -> String {
    match object.kind.as_str() {
        "Job" => format!("CronJob {}", object.name.trim_end_matches("-1")),
        kind => format!("{kind} {}", object.name),
    }
}

/// The objects of a finding. Without the status of a node, its pool can be another one: a finding about a pool is one about
/// each of its nodes, and a date is one about the release.
fn subjects(finding: &SurveyFinding) -> Vec<String> {
    match finding.object.kind.as_str() {
        "NodePool" if ["SUR501", "SUR502", "SUR504", "SUR507"].contains(&finding.code.as_str()) => {
            vec![finding.message.clone()]
        }
        "NodePool" => finding.nodes.clone(),
        _ => vec![subject(&finding.object)],
    }
}

/// What a survey and a plan state, a line each. What is unknown is no statement.
fn statements(survey: &SurveyReport, plan: &PlanReport) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for finding in &survey.findings {
        for object in subjects(finding) {
            if finding.code.starts_with("SUR1") || finding.code.starts_with("SUR2") {
                all.insert(format!("{object} is stuck"));
            }
            if is_own_statement(&finding.code) {
                all.insert(format!("{object} has {}", finding.code));
            }
        }
    }
    for workload in &survey.workloads {
        let object = subject(&workload.object);
        if workload.os != "undecided" {
            all.insert(format!("{object} is for {}", workload.os));
        }
        for container in &workload.containers {
            all.extend(container.builds.iter().map(|build| format!("{object} {} has {build}", container.name)));
        }
        let misplaced = workload.placement.iter().filter(|placed| placed.misplaced_pods > 0);
        all.extend(misplaced.map(|placed| format!("{object} is misplaced in {}", survey.pools[placed.pool].name)));
    }
    for set in &survey.daemon_sets {
        let object = subject(&set.object);
        all.extend(set.missing.iter().map(|missing| format!("{object} is not in {}", missing.pool)));
    }
    for changes in &survey.changes {
        all.extend(
            changes.rules.iter().map(|rule| format!("{} of {} in {}", rule.action, rule.code, changes.namespace)),
        );
    }
    all.extend(survey.deadlines.iter().map(|deadline| format!("{}: {}", deadline.date, deadline.what)));
    for workload in &plan.workloads {
        let object = subject(&workload.object);
        if workload.step.is_some() {
            all.insert(format!("{object} moves"));
        }
        let known = workload.containers.iter().filter(|container| container.verdict != Verdict::Unknown);
        all.extend(known.map(|container| format!("{object} {}: {}", container.name, container.verdict.name())));
    }
    let text = text(survey) + &text(plan);
    all.extend(OF_ALL_PODS.iter().filter(|&&of| text.contains(of)).map(|of| (*of).to_owned()));
    all
}

/// The statements of a part, without those of the whole.
fn added(part: &Inventory, stated: &BTreeSet<String>) -> Vec<String> {
    let (survey, plan) = (survey_of(part), plan_of(part));
    // Without pods, or the build of a node, the plan is one for the templates, and reports it.
    let is_partial =
        plan.summary.iter().any(|sentence| sentence.starts_with("Which other Windows workloads move is not known: "));
    let new = statements(&survey, &plan).difference(stated).cloned().collect::<Vec<_>>();
    new.into_iter().filter(|one| !is_partial || !one.ends_with(" moves")).collect()
}

#[test]
fn a_list_that_was_not_read_adds_no_statement() {
    for dump in [MIXED, RUNS_AS_IS] {
        let whole = inventory(dump, &[], None);
        let survey = survey_of(&whole);
        let stated = statements(&survey, &plan_of(&whole));
        assert!(survey.coverage.read.iter().filter(|read| read.objects > 0).count() > 2);
        for kind in &KINDS {
            let partial = inventory(dump, &[kind.kind], None);
            assert_eq!(added(&partial, &stated), Vec::<String>::new(), "without {}", kind.plural);
        }
    }
}

#[test]
fn a_node_without_a_status_adds_no_statement() {
    for dump in [MIXED, ODD_NODES, KUBELET_SKEW, RUNS_AS_IS] {
        let objects = objects_in(dump);
        let whole = read_objects(objects.clone(), &[]).finish();
        let stated = statements(&survey_of(&whole), &plan_of(&whole));
        for (at, node) in objects.iter().enumerate().filter(|(_, object)| object["kind"] == "Node") {
            let mut less = objects.clone();
            less[at].as_object_mut().unwrap().remove("status");
            let new = added(&read_objects(less, &[]).finish(), &stated);
            assert_eq!(new, Vec::<String>::new(), "without the status of {:#}", node["metadata"]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Neither a list that is not read, nor a status or an Event that is missing, adds a statement, and nothing that was
    /// unknown becomes something else.
    #[test]
    fn less_evidence_adds_no_statement(workloads in prop::collection::vec(any_workload(), 1..5)) {
        let objects = cluster(&workloads);
        let whole = read_objects(objects.clone(), &[]).finish();
        let stated = &statements(&survey_of(&whole), &plan_of(&whole));
        for kind in &KINDS {
            let new = added(&read_objects(objects.clone(), &[kind.kind]).finish(), stated);
            prop_assert!(new.is_empty(), "without {}: {new:#?}", kind.plural);
        }
        for (at, object) in objects.iter().enumerate() {
            let mut less = objects.clone();
            match object["kind"].as_str().unwrap() {
                "Event" => drop(less.remove(at)),
                "Pod" | "Job" | "Node" => drop(less[at].as_object_mut().unwrap().remove("status")),
                _ => continue,
            }
            let new = added(&read_objects(less, &[]).finish(), stated);
            prop_assert!(new.is_empty(), "without the status of, or the Event {:#}: {new:#?}", object["metadata"]);
        }
    }
}

/// Each kind of statement needs lists that exist, and is not known without them.
#[test]
fn every_statement_names_its_lists() {
    let plurals: BTreeSet<&str> = KINDS.iter().map(|kind| kind.plural).collect();
    let of_findings = FINDINGS.iter().map(|kind| (kind.code.to_owned(), kind.needs));
    let others = Statement::ALL.iter().map(|statement| (format!("{statement:?}"), statement.lists()));
    for (name, lists) in of_findings.chain(others) {
        assert!(lists.iter().all(|list| plurals.contains(list)), "{name}: {lists:?}");
    }
    let nothing = read_objects(Vec::new(), &KINDS.map(|kind| kind.kind)).finish();
    let coverage = survey_of(&nothing).coverage;
    for statement in Statement::ALL {
        assert!(statement.evidence(&coverage).to_string().contains("not known: "), "{statement:?}");
    }
}

/// The commands that end pods or remove nodes.
fn drains(plan: &PlanReport) -> Vec<&str> {
    let commands = plan.steps.iter().flat_map(|step| &step.commands);
    commands.filter(|command| command.effect == CommandEffect::Destroys).map(|command| command.run.as_str()).collect()
}

/// No command drains or deletes nodes whose pods are not known, whatever the templates select; of pods without a status, all are
/// known.
#[test]
fn nodes_are_drained_only_if_their_pods_are_known() {
    let whole = plan_of(&inventory(RUNS_AS_IS, &[], None));
    assert!(drains(&whole).iter().any(|run| run.starts_with("kubectl drain ")), "{:#?}", drains(&whole));
    let templates = plan_of(&inventory(RUNS_AS_IS, &["Pod"], None));
    assert!(templates.workloads.iter().any(|workload| workload.step.is_some()), "{:#?}", templates.workloads);
    assert_eq!(drains(&templates), Vec::<&str>::new());
    let removal = templates.steps.iter().find(|step| step.kind == StepKind::RemovePools).unwrap();
    assert!(removal.why[0].starts_with("Which pods are on these nodes is not known: pods were not read."));
    assert!(removal.commands.is_empty() && removal.back.is_empty());
    let mut objects = objects_in(RUNS_AS_IS);
    for pod in objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        pod.as_object_mut().unwrap().remove("status");
    }
    assert!(!drains(&plan_of(&read_objects(objects, &[]).finish())).is_empty());
}

/// Numbers of pods are `null` without pods, and not 0.
#[test]
fn numbers_of_pods_are_not_known_without_pods() {
    for dump in [MIXED, ODD_NODES, RUNS_AS_IS] {
        let partial = inventory(dump, &["Pod"], None);
        let survey: Value = serde_json::from_str(&text(&survey_of(&partial))).unwrap();
        let plan: Value = serde_json::from_str(&text(&plan_of(&partial))).unwrap();
        let members = [
            (&survey["pools"], &["windowsPods", "otherPods", "misplacedPods"][..]),
            (&survey["imageBuilds"], &["pods"]),
            (&survey["workloads"], &["pods", "ready"]),
            (&plan["pools"], &["workloads"]),
            (&plan["workloads"], &["pods"]),
        ];
        for (list, names) in members {
            for item in list.as_array().unwrap() {
                assert!(names.iter().all(|name| item[*name].is_null()), "{item:#}");
            }
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
            assert_eq!(drains(&plan), Vec::<&str>::new());
            assert!(plan.summary.iter().any(|sentence| sentence.contains(why)), "{why}: {:#?}", plan.summary);
        }
    }
}

/// kubernetes-sigs/sig-windows-dev-tools#171: a dump of nodes only.
#[test]
fn nothing_about_pods_is_stated_without_them() {
    let mut reader = InventoryReader::default();
    reader.begin_input("nodes.json");
    assert_eq!(read_yaml(ODD_NODES, &mut |object, kind| reader.add(object, kind, &mut |_| {})), Vec::new());
    reader.end_input();
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
    assert_eq!(drains(&plan), Vec::<&str>::new());
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
    assert!(
        survey.workloads.iter().any(|one| one.object.name == "burst" && one.pods == Some(1)),
        "{:#?}",
        survey.workloads
    );
    assert_eq!(survey.pools.iter().map(|pool| pool.nodes).sum::<usize>(), 1);
}

/// kubernetes.io/releases/version-skew-policy: a kubelet before 1.25 can be two minor versions older.
#[test]
fn an_old_kubelet_permits_two_minor_versions() {
    let plan = plan_of(&inventory(KUBELET_SKEW, &["Pod"], None));
    let says = "Kubelets before Kubernetes 1.25 can be up to 2 minor versions behind the control plane: pool ltsc2019 has 1.20, so the control plane can be at most 1.22 now";
    assert!(plan.constraints.iter().any(|one| one.what.contains(says)), "{:#?}", plan.constraints);
}
