//! Tests of the chart's alerts, dashboard and runbooks against the exported metrics. They need neither Prometheus nor Grafana;
//! `make monitoring` also runs promtool.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these read the chart's files")]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod dashboard;
mod exported;
mod picture;
mod promql;
mod rules;

use std::collections::BTreeSet;
use std::fs;

use exported::Exported;
use promql::Query;

fn file(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Problems of a query, or of the labels in its text.
fn complaints(exported: &Exported, query: &str, used_in_text: &[String]) -> Vec<String> {
    let parsed = match Query::of(query) {
        Ok(parsed) => parsed,
        Err(why) => return vec![format!("{why}: {query}")],
    };
    let mut complaints = Vec::new();
    let mut labels: BTreeSet<String> = parsed.strings.iter().cloned().collect();
    for selector in &parsed.selectors {
        match exported.check(selector) {
            Ok(found) => labels.extend(found),
            Err(why) => complaints.push(format!("{why}: {query}")),
        }
    }
    if parsed.selectors.is_empty() {
        complaints.push(format!("no metric in it: {query}"));
    }
    for label in parsed.grouping.iter().filter(|label| !labels.contains(*label)) {
        complaints.push(format!("no metric in it has label {label}: {query}"));
    }
    // An aggregation keeps the labels that it groups by.
    for label in used_in_text {
        let left = if parsed.aggregates { parsed.grouping.contains(label) } else { labels.contains(label) };
        if !left {
            complaints.push(format!("the text uses label {label}, which is not in the result of: {query}"));
        }
    }
    complaints
}

#[test]
fn problems_of_a_query_are_detected() {
    let exported = Exported::new();
    let good = [
        ("sum by (endpoint) (rate(mullion_review_duration_seconds_count[5m]))", "endpoint"),
        ("max by (resource) (mullion_watch_failing{namespace=~\"$namespace\"}) > 0", "resource"),
        ("label_replace(absent(mullion_leader), \"process\", \"controller\", \"\", \"\")", "process"),
        ("mullion_connections and on (instance) mullion_build_info", "pod"),
    ];
    for (query, label) in good {
        assert_eq!(complaints(&exported, query, &[label.to_owned()]), Vec::<String>::new(), "{query}");
    }
    let bad = [
        ("sum(mullion_reviews_total)", "no process exports mullion_reviews_total"),
        ("sum(mullion_admission_reviews_total{decision=\"refused\"})", "decision=\"refused\" is never so"),
        ("sum(mullion_admission_reviews_total{decision=~\"re.*\"})", "decision=~\"re.*\" is never so"),
        ("sum(mullion_leader{endpoint=\"mutate\"})", "has no label endpoint"),
        ("sum by (endpoint) (mullion_leader)", "no metric in it has label endpoint"),
        ("sum(mullion_leader", "brackets do not match"),
        ("1 > 0", "no metric in it"),
    ];
    for (query, expected) in bad {
        let found = complaints(&exported, query, &[]);
        assert!(found.iter().any(|found| found.contains(expected)), "{query}: {found:?}");
    }
    let found = complaints(&exported, "sum(mullion_leader)", &["pod".to_owned()]);
    assert!(found[0].contains("the text uses label pod"), "{found:?}");
}

/// The reference has a row for each metric, or names it below a table.
#[test]
fn every_exported_metric_is_in_the_reference() {
    let page = file("docs/reference/metrics.md");
    let exported = Exported::new();
    let names = exported.names();
    assert!(names.len() > 50, "{} metrics", names.len());
    let missing: Vec<&&str> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/metrics.md lacks {missing:?}");
}

/// Names of metrics in pages for people.
#[test]
fn every_metric_in_the_documentation_is_exported() {
    let exported = Exported::new();
    for page in [
        "docs/operators/alerts.md",
        "docs/concepts/outages.md",
        "docs/how-to/certificates.md",
        "docs/how-to/roll-out.md",
        "docs/reference/metrics.md",
        "docs/reference/security.md",
        "docs/reference/webhooks.md",
    ] {
        let text = file(page);
        for (at, _) in text.match_indices("mullion_") {
            let name: String =
                text[at..].chars().take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_').collect();
            assert!(exported.has(&name), "{page} names {name}, which no process exports");
        }
    }
}
