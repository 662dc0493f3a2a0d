//! Tests of `charts/mullion/rules/mullion.yaml`, and of the runbook of each alert in `docs/operators/alerts.md`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::exported::Exported;
use crate::{complaints, dashboard, file};

const RULES: &str = "charts/mullion/rules/mullion.yaml";
const RUNBOOKS: &str = "docs/operators/alerts.md";
/// The test file of promtool, for `make monitoring`.
const CASES: &str = "tests/monitoring/rules.test.yaml";
/// The parts of every runbook, in this order.
const PARTS: [&str; 5] = ["**Meaning**", "**Impact**", "**Diagnosis**", "**Mitigation**", "**Resolved**"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alert {
    #[serde(rename = "alert")]
    name: String,
    expr: String,
    #[serde(default)]
    r#for: Option<String>,
    labels: Labels,
    annotations: Annotations,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    severity: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotations {
    summary: String,
    description: String,
    runbook_url: String,
}

fn alerts() -> Vec<Alert> {
    let rules: Value = serde_saphyr::from_str(&file(RULES)).unwrap();
    let groups = rules["groups"].as_array().unwrap();
    groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
        .map(|rule| serde_json::from_value(rule.clone()).unwrap_or_else(|error| panic!("{error}: {rule}")))
        .collect()
}

fn names() -> BTreeSet<String> {
    alerts().into_iter().map(|alert| alert.name).collect()
}

/// `.Labels.x` is a label of the query in `range`, `$labels.x` of the alert's query.
fn labels_after(text: &str, prefix: &str) -> Vec<String> {
    let of = |(at, _): (usize, &str)| {
        text[at + prefix.len()..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    text.match_indices(prefix).map(of).collect()
}

/// The queries in a template.
fn queries_in(template: &str) -> Vec<String> {
    let words: Vec<&str> = template.split("query \"").skip(1).collect();
    let end = |text: &&str| {
        let mut escaped = false;
        text.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })
    };
    words.iter().filter_map(|text| Some(text[..end(text)?].replace("\\\"", "\""))).collect()
}

#[test]
fn every_alert_queries_exported_metrics() {
    let exported = Exported::new();
    let alerts = alerts();
    assert!(alerts.len() > 10);
    let mut wrong = Vec::new();
    for Alert { name: alert, expr, annotations, .. } in &alerts {
        let texts = format!("{} {}", annotations.summary, annotations.description);
        let found = complaints(&exported, expr, &labels_after(&texts, "$labels."));
        wrong.extend(found.into_iter().map(|found| format!("{alert}: {found}")));
        for query in queries_in(&texts) {
            let found = complaints(&exported, &query, &labels_after(&texts, ".Labels."));
            wrong.extend(found.into_iter().map(|found| format!("{alert}: {found}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn queries_in_templates_are_found() {
    let template = "a {{ range query \"sum(m{a=\\\"b\\\"})\" }} {{ .Labels.x }} {{ with query \"n\" }}{{ end }}";
    assert_eq!(queries_in(template), ["sum(m{a=\"b\"})", "n"]);
    assert_eq!(labels_after(template, ".Labels."), ["x"]);
}

#[test]
fn every_alert_has_a_severity_and_a_runbook_link() {
    for Alert { name: alert, r#for, labels, annotations, .. } in alerts() {
        assert!(alert.starts_with("Mullion"), "{alert}");
        assert!(["critical", "warning", "info"].contains(&labels.severity.as_str()), "{alert}: {}", labels.severity);
        // A page must not be for a condition that ends before a person can react.
        let minutes =
            r#for.as_deref().and_then(|time| time.strip_suffix('m')).map(|minutes| minutes.parse::<u32>().unwrap());
        assert!(labels.severity != "critical" || minutes.is_some_and(|minutes| minutes >= 5), "{alert}");
        assert!(!annotations.summary.ends_with('.') && annotations.summary.len() < 100, "{alert}");
        assert!(annotations.description.ends_with('.'), "{alert}: {}", annotations.description);
        let anchor = alert.to_lowercase();
        assert_eq!(annotations.runbook_url, format!("{RUNBOOKS}#{anchor}"), "{alert}");
    }
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let page = file(RUNBOOKS);
    let sections: Vec<(&str, &str)> =
        page.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    let runbooks: Vec<&(&str, &str)> = sections.iter().filter(|(title, _)| title.starts_with("Mullion")).collect();
    let titles: BTreeSet<String> = runbooks.iter().map(|(title, _)| (*title).to_owned()).collect();
    assert_eq!(titles, names());
    for (title, text) in runbooks {
        let places: Vec<Option<usize>> = PARTS.iter().map(|part| text.find(part)).collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{title} lacks one of {PARTS:?}, or their order"
        );
        // In the table of contents, with the severity of the rule.
        for alert in alerts().iter().filter(|alert| alert.name == *title) {
            let row = format!("| [{title}](#{}) |", title.to_lowercase());
            let row = page.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("no line {row}"));
            assert!(row.contains(&alert.labels.severity), "{row}: it is {}", alert.labels.severity);
        }
    }
}

/// A case lists all alerts that fire at certain times, so an alert that fires at one time and not at another is tested
/// in both states.
#[test]
fn every_alert_starts_firing_in_a_test_case() {
    let cases: Value = serde_saphyr::from_str(&file(CASES)).unwrap();
    let times: Vec<Vec<String>> = cases["tests"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|case| case["promql_expr_test"].as_array())
        .map(|times| times.iter().map(|time| time["exp_samples"].to_string()).collect())
        .collect();
    for name in names() {
        let fires = |samples: &String| samples.contains(&format!("alertname=\\\"{name}\\\""));
        let begins = |times: &Vec<String>| times.iter().any(fires) && !times.iter().all(fires);
        assert!(times.iter().any(begins), "{CASES} has no case in which {name} begins to fire");
    }
}

/// Tests that need Prometheus's own tools.
#[test]
#[ignore = "needs promtool: make monitoring"]
fn promtool_agrees() {
    let promtool = |arguments: &[&str]| {
        let ran = Command::new("promtool").args(arguments).output().expect("promtool starts");
        let output = [ran.stdout, ran.stderr].concat();
        assert!(ran.status.success(), "promtool {arguments:?}:\n{}", String::from_utf8_lossy(&output));
    };
    promtool(&["check", "rules", RULES]);
    promtool(&["test", "rules", CASES]);
    // The dashboard's queries as rules, because promtool checks a query without a server only in rules.
    let rules: Vec<Value> = dashboard::queries().iter().map(|query| json!({"record": "q", "expr": query})).collect();
    let groups: Vec<Value> =
        rules.iter().enumerate().map(|(at, rule)| json!({"name": at.to_string(), "rules": [rule]})).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dashboard.yaml");
    fs::write(&file, json!({ "groups": groups }).to_string()).unwrap();
    promtool(&["check", "rules", "--lint=none", file.to_str().unwrap()]);
}
