//! What reads a saved inventory finds in it what it finds in the dump: a review, the survey, a plan, and `--snapshot`.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::civil::date;
use mullion_engine::admission::{effective_action, review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::patch::decision_reason;
use mullion_plan::plan;
use mullion_policy::PolicySet;
use mullion_survey::inventory::read_yaml;
use mullion_survey::report::Source;
use mullion_survey::{Facts, Inventory, InventoryReader, SurveyContext, survey};
use serde_json::Value;

use crate::generator::{SEED, pods};
use crate::{golden, support};

/// The object as a saved inventory contains it.
fn saved(object: Value) -> Option<Value> {
    let mut saved = None;
    InventoryReader::default().add(object, None, &mut |kept| saved = Some(kept.clone()));
    saved
}

/// A rule about command lines, of which a saved inventory has only the words that show the operating system.
const READS_COMMANDS: &str = "MUL111";

/// What a review finds in an object: the decision, the findings and what it would change.
fn reviewed(object: &Value, kind: WorkloadKind, policies: &PolicySet) -> Vec<String> {
    let request = ReviewRequest::creation(WorkloadObject { kind, namespace: "shop", object });
    let snapshot = ClusterSnapshot::default();
    let found = review(&request, &snapshot, &policies.resolve(&request, &snapshot));
    let decision = format!("{:?} because of {}", found.decision.os, decision_reason(&found.decision));
    let findings = found.findings.iter().filter(|finding| finding.code != READS_COMMANDS).map(|finding| {
        let action = effective_action(&found, finding);
        format!("{} {} {action:?} {:?}", finding.code, finding.path, finding.rejected_by)
    });
    let changes = found.changes.iter().map(|change| change.edit.pointer().to_owned());
    [decision].into_iter().chain(findings).chain(changes).collect()
}

fn check_review(what: &str, object: &Value, policies: &PolicySet) -> bool {
    let kind = object["kind"].as_str().and_then(WorkloadKind::from_name);
    let Some((kind, kept)) = kind.zip(saved(object.clone())) else { return false };
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        // A survey never has them: they are larger than the object.
        metadata.remove("managedFields");
    }
    assert_eq!(reviewed(&kept, kind, policies), reviewed(&object, kind, policies), "{what}: {object}\n{kept}");
    true
}

#[test]
fn a_review_of_generated_pods() {
    let policies = PolicySet::built_in();
    // The API server rejects one with a larger credential spec, so no cluster has it.
    let is_stored = |what: &str| !(what.contains("gmsaCredentialSpec 64 KiB") && what.contains("and one"));
    let pods: Vec<_> = pods(SEED, 4000).into_iter().filter(|pod| is_stored(&pod.what)).collect();
    assert!(pods.len() > 3000 && pods.iter().all(|pod| check_review(&pod.what, &pod.object, &policies)));
}

#[test]
fn a_review_of_the_fixtures_of_all_rules() {
    let policies = PolicySet::built_in();
    let mut count = 0;
    for code in golden::names("tests/rules").iter().filter(|name| name.starts_with("MUL")) {
        let folder = format!("tests/rules/{code}");
        let names = golden::names(&folder);
        for name in names.iter().filter(|name| Path::new(name).extension().is_some_and(|end| end == "yaml")) {
            let text = fs::read_to_string(golden::path(&format!("{folder}/{name}"))).unwrap();
            read_yaml(&text, &mut |object, _| {
                // Types that the API server rejects are not in a cluster.
                if !code.starts_with("MUL8") && object["metadata"]["name"].is_string() {
                    count += usize::from(check_review(&format!("{code}/{name}"), &object, &policies));
                }
            });
        }
    }
    assert!(count > 300, "{count}");
}

/// The dumps of the tests of survey and plan.
fn dumps() -> Vec<PathBuf> {
    let mut dumps = vec![golden::path("crates/survey/tests/mixed/dump.yaml")];
    for fleet in golden::names("tests/plan_fleets") {
        dumps.push(golden::path(&format!("tests/plan_fleets/{fleet}/dump.yaml")));
    }
    let threads = golden::names("crates/plan/tests/threads");
    dumps.extend(threads.iter().map(|name| golden::path(&format!("crates/plan/tests/threads/{name}"))));
    assert!(dumps.len() > 15);
    dumps
}

/// The inventory of texts, and what is saved of it.
fn read(text: &str) -> (Inventory, String) {
    let mut reader = InventoryReader::default();
    let mut lines = Vec::new();
    reader.begin_input("dump");
    let problems = read_yaml(text, &mut |object, kind| {
        reader.add(object, kind, &mut |kept| lines.push(kept.to_string()));
    });
    assert_eq!((problems, reader.end_input().problems), (Vec::new(), Vec::new()));
    lines.push(reader.saved_end().to_string());
    (reader.finish(), lines.join("\n---\n"))
}

/// The survey, and the plans for two releases, as JSON.
fn reports(inventory: &Inventory) -> Vec<String> {
    let (policies, facts) = (&PolicySet::built_in(), &Facts::built_in());
    let (source, today) = (Source::Dump, date(2026, 11, 22));
    let context = SurveyContext { cluster: "a", source, today, mullion: "0", policies, facts };
    let plan_to = |target| {
        let context = support::context(source, today, (policies, facts), target);
        serde_json::to_string_pretty(&plan(inventory, context)).unwrap()
    };
    vec![serde_json::to_string_pretty(&survey(inventory, context)).unwrap(), plan_to(20348), plan_to(26100)]
}

#[test]
fn survey_and_plan_are_the_same() {
    for path in dumps() {
        let (whole, lines) = read(&fs::read_to_string(&path).unwrap());
        let (again, same) = read(&lines);
        assert_eq!(same, lines, "{}", path.display());
        for (found, expected) in reports(&again).iter().zip(reports(&whole)) {
            assert!(*found == expected, "{}:\n{found}", path.display());
        }
    }
}

#[test]
fn a_saved_inventory_is_a_snapshot() {
    let snapshot = |name: &str, text: &str| {
        let snapshot = mullion_snapshot::dump::from_text(name, text.as_bytes()).unwrap();
        format!("{snapshot:#?}")
    };
    for path in dumps() {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.display().to_string();
        // The file has a line for each object.
        let lines = read(&text).1.replace("\n---\n", "\n");
        assert_eq!(snapshot(&name, &lines), snapshot(&name, &text), "{name}");
    }
}
