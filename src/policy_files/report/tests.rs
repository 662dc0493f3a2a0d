#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use mullion_policy::{PolicyFile, PolicyFiles, PolicyStore};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;

use super::*;

/// Files in a directory that is read at each `read`.
struct Directory {
    store: PolicyStore,
    reporter: PolicyReporter,
}

impl Directory {
    fn new() -> Self {
        let reporter = PolicyReporter::default();
        reporter.set_directories(vec!["/etc/mullion".to_owned()], Vec::new());
        Self { store: PolicyStore::default(), reporter }
    }

    fn read(&mut self, files: &[(&str, &str)], now: i64) {
        let texts = files
            .iter()
            .map(|(name, text)| PolicyFile { name: format!("/etc/mullion/{name}"), bytes: text.as_bytes().to_vec() });
        let reading = self.store.reload(&PolicyFiles { texts: texts.collect(), problems: Vec::new() }, now);
        self.reporter.record(&reading, now);
    }

    fn metrics(&self) -> Vec<String> {
        let mut registry = Registry::with_prefix("mullion");
        registry.register_collector(Box::new(self.reporter.clone()));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    fn has(&self, line: &str) {
        let metrics = self.metrics();
        assert!(metrics.iter().any(|found| found == line), "no {line} in {metrics:#?}");
    }
}

fn policy(name: &str, spec: &str) -> String {
    format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

#[test]
fn each_file_is_reported_while_it_exists() {
    let mut directory = Directory::new();
    let (a, b) = (policy("a", "{priority: 1}"), policy("b", "{priority: 2, mode: Audit}"));
    directory.read(&[("a.yaml", &a), ("b.yaml", &b)], 100);
    directory.has("mullion_policy_files{status=\"in_force\"} 2");
    directory.has("mullion_policy_file_valid{file=\"a.yaml\"} 1");
    directory.has("mullion_policy_file_last_change_timestamp{file=\"b.yaml\"} 100");
    directory.has("mullion_policy_last_good_timestamp 100");
    assert_eq!(directory.reporter.report().changes, "");

    // One file becomes bad, one is added, one is removed: none of this takes effect.
    let bad = policy("a", "{priorty: 1, mode: Of}");
    let c = policy("c", "{priority: 3}");
    directory.read(&[("a.yaml", &bad), ("c.yaml", &c)], 200);
    for line in [
        "mullion_policy_load_errors 2",
        "mullion_policy_files{status=\"bad\"} 1",
        "mullion_policy_files{status=\"waiting\"} 1",
        "mullion_policy_files{status=\"gone\"} 1",
        "mullion_policy_files{status=\"in_force\"} 0",
        "mullion_policy_file_valid{file=\"a.yaml\"} 0",
        "mullion_policy_file_valid{file=\"c.yaml\"} 1",
        "mullion_policy_file_problems{file=\"a.yaml\"} 2",
        "mullion_policy_file_last_change_timestamp{file=\"a.yaml\"} 200",
        "mullion_policy_last_read_timestamp 200",
        "mullion_policy_reload_total{outcome=\"failed\"} 1",
    ] {
        directory.has(line);
    }
    let metrics = directory.metrics().join("\n");
    assert!(!metrics.contains("b.yaml"), "{metrics}");
    let shown = directory.reporter.json();
    let stands: Vec<_> = shown["files"].as_array().unwrap().iter().map(|file| &file["status"]).collect();
    assert_eq!(stands, ["bad", "gone", "waiting"]);
    let bad = &shown["files"][0];
    assert_eq!((&bad["name"], &bad["policies"]), (&json!("/etc/mullion/a.yaml"), &json!(1)));
    assert_eq!(bad["means"], "bad; an older version of it is in force");
    assert_eq!((&bad["problems"][0]["line"], &bad["problems"][0]["column"]), (&json!(4), &json!(8)));
    assert_eq!(
        shown["policies"].as_array().unwrap().iter().find(|policy| policy["name"] == "b").unwrap(),
        &json!({"kind": "PodPolicy", "name": "b", "priority": 2, "mode": "Audit",
        "match": "every pod", "until": null, "file": "/etc/mullion/b.yaml", "line": 1})
    );
    assert_eq!(
        (&shown["inForceSince"], &shown["lastRead"]),
        (&json!("1970-01-01T00:01:40Z"), &json!("1970-01-01T00:03:20Z"))
    );

    // If nothing is new, only the time of reading changes.
    let mut follower = directory.reporter.follow();
    follower.borrow_and_update();
    directory.read(&[("a.yaml", &policy("a", "{priorty: 1, mode: Of}")), ("c.yaml", &c)], 210);
    assert!(!follower.has_changed().unwrap());
    directory.has("mullion_policy_last_read_timestamp 210");

    // The earlier set again, with the same start time, and no change to report.
    directory.read(&[("a.yaml", &a), ("b.yaml", &b)], 300);
    let report = directory.reporter.report();
    assert_eq!((report.since, report.last_good, report.changes.as_str()), (100, Some(100), ""));
    directory.read(&[("a.yaml", &a.replace("priority: 1", "priority: 7")), ("c.yaml", &c)], 400);
    let report = directory.reporter.report();
    assert_eq!((report.since, report.last_good), (400, Some(400)));
    assert_eq!(report.changes, "changed a.yaml; new c.yaml; gone b.yaml");
    assert_eq!(report.files[0].changed, 400);
    directory.has("mullion_policy_load_errors 0");
}

#[test]
fn files_without_number_have_metrics_without_number() {
    let mut directory = Directory::new();
    let names: Vec<String> = (0..300).map(|n| format!("p{n:03}.yaml")).collect();
    let texts: Vec<String> = (0..300).map(|n| policy(&format!("p{n}"), &format!("{{priority: {n}}}"))).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files[250].1 = "kind: PodPolicy";
    directory.read(&files, 1);
    let metrics = directory.metrics();
    assert_eq!(metrics.iter().filter(|line| line.contains("policy_file_valid{")).count(), 64);
    directory.has("mullion_policy_file_valid{file=\"p250.yaml\"} 0");
    directory.has("mullion_policy_files{status=\"waiting\"} 299");
}

#[test]
fn a_panic_is_a_problem_until_the_next_reading() {
    let mut directory = Directory::new();
    let good = policy("a", "{priority: 1}");
    directory.read(&[("a.yaml", &good)], 1);
    directory.reporter.record(&PolicyReading::Panicked, 2);
    directory.reporter.record(&PolicyReading::Panicked, 3);
    directory.has("mullion_policy_load_errors 1");
    directory.has("mullion_policy_reload_total{outcome=\"failed\"} 1");
    assert!(directory.reporter.json()["problems"][0].as_str().unwrap().contains("defect of Mullion"));
    assert_eq!(directory.reporter.report().files[0].standing, PolicyFileState::InForce);
    directory.read(&[("a.yaml", &good)], 4);
    assert_eq!(directory.reporter.json()["problems"], json!([]));
}

#[test]
fn a_warning_stands_with_its_file_while_that_is_in_force() {
    let mut directory = Directory::new();
    let (a, b) = (policy("a", "{priority: 1}"), policy("b", "{priority: 2, detect: {os: windows}}"));
    directory.read(&[("a.yaml", &a), ("b.yaml", &b)], 1);
    // The same applies with a bad version of the file: the good one is still in force.
    for bad in [b.as_str(), "kind: PodPolicy"] {
        directory.read(&[("a.yaml", &a), ("b.yaml", bad)], 2);
        let json = directory.reporter.json();
        let [a, b] = [0, 1].map(|file| json["files"][file]["warnings"].as_array().unwrap());
        assert_eq!((a.len(), json!(b)), (0, json["warnings"].clone()));
        assert_eq!(b[0]["file"], "/etc/mullion/b.yaml");
    }
}

#[test]
fn an_exemption_is_shown_with_its_end_and_ends_without_a_change_of_its_file() {
    let mut directory = Directory::new();
    let a = policy("a", "{until: 1970-01-02, rules: {denials: Warn}}");
    let b = policy("b", "{priority: 1, until: 1970-01-03, rules: {templates: Warn}}");
    let day = 24 * 60 * 60;
    directory.read(&[("a.yaml", &a), ("b.yaml", &b)], 100);
    let end = |name: &str| format!("mullion_policy_exemption_end_timestamp{{policy=\"{name}\"}}");
    directory.has(&format!("{} {}", end("a"), 2 * day));
    directory.has(&format!("{} {}", end("b"), 3 * day));
    let shown = |directory: &Directory, list: &str| -> Vec<String> {
        let json = directory.reporter.json();
        let all = json[list].as_array().unwrap().iter().filter(|policy| !policy["until"].is_null());
        all.map(|policy| policy["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((shown(&directory, "policies"), shown(&directory, "ended")), (vec!["b".into(), "a".into()], vec![]));

    let mut follower = directory.reporter.follow();
    follower.borrow_and_update();
    directory.read(&[("a.yaml", &a), ("b.yaml", &b)], 2 * day);
    assert!(follower.has_changed().unwrap());
    assert_eq!((shown(&directory, "policies"), shown(&directory, "ended")), (vec!["b".into()], vec!["a".into()]));
    directory.has(&format!("{} {}", end("a"), 2 * day));
    // The files are the earlier ones.
    let report = directory.reporter.report();
    assert_eq!((report.since, report.last_good, report.changes.as_str()), (100, Some(100), ""));
    directory.has("mullion_policy_reload_total{outcome=\"loaded\"} 1");

    // Exemptions that end next come first.
    let many: Vec<_> = (10..90)
        .map(|n| policy(&format!("p{n}"), &format!("{{priority: {n}, until: 19{n}-01-02, rules: {{denials: Warn}}}}")))
        .collect();
    let many = many.join("---\n");
    directory.read(&[("a.yaml", &a), ("many.yaml", &many)], 2 * day + 1);
    let metrics = directory.metrics();
    let found = metrics.iter().filter(|line| line.starts_with("mullion_policy_exemption_end_timestamp"));
    assert_eq!(found.count(), 64);
    directory.has(&format!("{} {}", end("p72"), (2 * 365 + 2) * day));
    assert!(!metrics.join("\n").contains(&end("p10")));
}
