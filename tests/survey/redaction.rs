//! No name of a cluster survives redaction in any format.

use std::collections::BTreeSet;

use mullion::report::ReportFormat;
use mullion_survey::{Redaction, SurveyReport, compare};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{FORMATS, fixtures, written};

/// The names in the fixture, by the pointers that contain them.
fn names(report: &SurveyReport) -> BTreeSet<String> {
    let mut names = BTreeSet::from([report.header.cluster.clone()]);
    for pool in &report.pools {
        names.insert(pool.name.clone());
    }
    for workload in &report.workloads {
        names.extend([workload.object.namespace.clone(), workload.object.name.clone()]);
        for container in workload.images() {
            names.insert(container.name.clone());
            if !container.image.starts_with("mcr.microsoft.com/") {
                let repository = container.image.rsplit_once(':').map_or(&*container.image, |(name, _)| name);
                names.extend(repository.split('/').filter(|part| part.len() > 3).map(str::to_owned));
                names.extend(
                    repository
                        .split_once('/')
                        .map(|(registry, path)| [registry.to_owned(), path.to_owned()])
                        .into_iter()
                        .flatten(),
                );
            }
        }
        names.extend(workload.managed_by.iter().filter_map(|by| by.rsplit(' ').next()).map(str::to_owned));
    }
    for finding in &report.findings {
        names.extend(finding.nodes.iter().chain(&finding.pod).cloned());
        names.extend(finding.related.iter().map(|object| object.name.clone()));
    }
    names
}

/// The mixed report with other names, everywhere: in members and in texts. Each name is unlike any word of a sentence.
fn renamed(stems: &[String]) -> SurveyReport {
    let report = fixtures::mixed();
    let mut all: Vec<String> = names(&report).into_iter().collect();
    // Longer names first, so that no name is replaced within another.
    all.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let mut text = serde_json::to_string(&report).unwrap();
    for (at, name) in all.iter().enumerate() {
        let stem = &stems[at % stems.len()];
        // With as many digits in each, no name is the beginning of another one.
        let new = format!("zq{at:03}{stem}");
        let new = if name.contains('/') {
            format!("{new}/sub{new}")
        } else if name.contains('.') {
            format!("{new}.example")
        } else {
            new
        };
        // In members whole values, and in sentences whole words.
        for (before, after) in [
            ("\"", "\""),
            ("/", "\""),
            (" ", "\""),
            (" ", " "),
            (" ", "."),
            ("\"", "/"),
            (" ", ":"),
            ("/", ":"),
            ("/", "/"),
            ("\"", ":"),
            (" ", "/"),
        ] {
            text = text.replace(&format!("{before}{name}{after}"), &format!("{before}{new}{after}"));
        }
    }
    let mut renamed: SurveyReport = serde_json::from_str(&text).unwrap();
    // Repositories of Microsoft are public, and stay.
    for (workload, original) in renamed.workloads.iter_mut().zip(&report.workloads) {
        for (container, original) in workload.containers.iter_mut().zip(&original.containers) {
            if original.image.starts_with("mcr.microsoft.com/") {
                container.image.clone_from(&original.image);
            }
        }
    }
    renamed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn no_name_survives_in_any_format(stems in prop::collection::vec("[a-z0-9]([a-z0-9-]{0,12}[a-z0-9])?", 5..40)) {
        let report = renamed(&stems);
        let earlier = { let mut earlier = report.clone(); earlier.findings.truncate(3); earlier };
        let redaction = Redaction::of(&[&earlier, &report]).unwrap();
        let (redacted, redacted_earlier) = (redaction.apply(&report).unwrap(), redaction.apply(&earlier).unwrap());
        let names: Vec<String> = names(&report).into_iter().filter(|name| name.starts_with("zq")).collect();
        prop_assert!(names.len() > 40, "{}", names.len());
        for format in FORMATS {
            let made = written(&redacted, Some(&redacted_earlier), format);
            for name in &names {
                for part in name.split('/') {
                    let at = made.find(part);
                    prop_assert!(at.is_none(), "{format:?} has {part} in {:?}", at.and_then(|at| made.get(at.saturating_sub(80)..at + 80)));
                }
            }
        }
        // The redacted reports compare in the same way as the reports.
        let (plain, hidden) = (compare(&earlier, &report), compare(&redacted_earlier, &redacted));
        prop_assert_eq!(plain.summary, hidden.summary);
    }
}

/// Everything but names is the same, and each name has one replacement.
#[test]
fn nothing_else_changes() {
    let report = fixtures::mixed();
    let redacted = Redaction::of(&[&report]).unwrap().apply(&report).unwrap();
    let names = names(&report);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    flatten(&serde_json::to_value(&report).unwrap(), String::new(), &mut before);
    flatten(&serde_json::to_value(&redacted).unwrap(), String::new(), &mut after);
    assert_eq!(before.len(), after.len());
    for ((pointer, was), (_, now)) in before.iter().zip(&after) {
        let may = pointer == "/header/redacted"
            || was.as_str().is_some_and(|text| names.iter().any(|name| text.contains(name.as_str())));
        assert!(was == now || may, "{pointer}: {was} became {now}");
    }
    assert_eq!(
        redacted.workloads[4].containers[0].image,
        "mcr.microsoft.com/oss/kubernetes-csi/azurefile-csi:v1.33.5-windows-hp"
    );
    assert_eq!(redacted.workloads[4].pools, ["pool-3", "pool-4", "pool-5"]);
    assert_eq!(redacted.pools[2].name, "pool-3");
    let message = &redacted.findings[0].message;
    assert!(
        message.ends_with(
            "of this Linux DaemonSet are on Windows nodes of the pools pool-3 and pool-4. They cannot start there."
        ),
        "{message}"
    );
}

fn flatten(value: &Value, pointer: String, all: &mut Vec<(String, Value)>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| flatten(item, format!("{pointer}/{at}"), all));
        }
        Value::Object(members) => members.iter().for_each(|(key, item)| flatten(item, format!("{pointer}/{key}"), all)),
        other => all.push((pointer, other.clone())),
    }
}

#[test]
fn a_redacted_report_is_marked() {
    let report = fixtures::mixed();
    let redacted = Redaction::of(&[&report]).unwrap().apply(&report).unwrap();
    let json: Value = serde_json::from_str(&written(&redacted, None, ReportFormat::Json)).unwrap();
    assert_eq!(json["header"]["redacted"], json!(true));
    assert!(written(&redacted, None, ReportFormat::Text).contains("names are replaced"));
    assert!(written(&redacted, None, ReportFormat::Html).contains("one name always has the same replacement"));
}
