//! `kubernetes.tsv`: what the Kubernetes documentation contains about Windows pods, row by row, and the rule for each.
//!
//! Columns: `source` (the symbol or file of Kubernetes, or the page of its documentation), `what` (the row in few
//! words), `rule` (a code; `works`: no finding may appear; `cluster`: it cannot be detected in a pod, for the reason in
//! the last column) and `pod`: JSON that is merged into [`base`], object by object and list item by list item. In it
//! `${x*300}` stands for 300 times x.

use std::collections::BTreeSet;

use mullion_engine::rules::{Rule, catalogue, find};
use serde_json::{Value, json};

use crate::example::{default_policies, sentences};
use crate::run::{self, Beside};
use crate::{Checked, all};

const TABLE: &str = include_str!("kubernetes.tsv");

#[derive(Debug)]
struct Row {
    line: usize,
    what: &'static str,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Rule { code: &'static str, pod: &'static str },
    Works { pod: &'static str },
    Cluster { reason: &'static str },
}

/// A Windows pod without a finding, whose namespace rejects HostProcess pods if it is `baseline`.
fn base() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried", "namespace": "default"},
        "spec": {
            "nodeSelector": {"kubernetes.io/os": "windows"},
            "containers": [{
                "name": "app",
                "image": "mcr.microsoft.com/windows/servercore:ltsc2022",
                "resources": {"limits": {"memory": "512Mi"}},
            }],
        },
    })
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: baseline\n  \
    labels: {pod-security.kubernetes.io/enforce: baseline}\n---\n";

fn rows() -> impl Iterator<Item = Result<Row, String>> {
    TABLE.lines().zip(1..).skip(1).map(|(text, line)| row(text, line))
}

fn row(text: &'static str, line: usize) -> Result<Row, String> {
    let columns: Vec<&str> = text.split('\t').collect();
    let [source, what, outcome, last] = columns.as_slice() else {
        return Err(format!("line {line}: {} columns instead of 4", columns.len()));
    };
    if columns.iter().any(|column| column.trim().is_empty() || column.trim() != *column) {
        return Err(format!("line {line}: an empty column, or one that begins or ends with a space: {source}"));
    }
    let outcome = match *outcome {
        "works" => Outcome::Works { pod: last },
        "cluster" => Outcome::Cluster { reason: last },
        code => Outcome::Rule { code, pod: last },
    };
    Ok(Row { line, what, outcome })
}

pub fn rows_are_well_formed() -> Checked {
    assert_eq!(TABLE.lines().next(), Some("source\twhat\trule\tpod"));
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for row in rows() {
        match row {
            Err(complaint) => complaints.push(complaint),
            Ok(Row { line, what, outcome }) => {
                if !seen.insert(what) {
                    complaints.push(format!("line {line}: {what} stands there twice"));
                }
                match outcome {
                    Outcome::Rule { code, .. } if find(code).is_none() => {
                        complaints.push(format!("line {line}: there is no rule {code}"));
                    }
                    Outcome::Cluster { reason } if reason.starts_with('{') => {
                        complaints.push(format!("line {line}: {what} needs a reason, not a pod"));
                    }
                    _ => {}
                }
            }
        }
    }
    all(&complaints)
}

pub fn every_row_has_its_rule() -> Checked {
    let mut complaints = Vec::new();
    let plain = run::check(&manifest("{}")?, &Beside::default())?;
    assert!(plain[0].findings.is_empty(), "the pod they are laid over: {}", sentences(&plain[0].findings));
    for Row { line, what, outcome } in rows().flatten() {
        let (pod, rule) = match outcome {
            Outcome::Cluster { .. } => continue,
            Outcome::Works { pod } => (pod, None),
            Outcome::Rule { code, pod } => match find(code) {
                None => continue,
                Some(rule) => (pod, Some(rule)),
            },
        };
        let wrong = |why: &str| format!("line {line}: {what}: {why}");
        match judge(pod, rule) {
            Err(why) => complaints.push(wrong(&why)),
            Ok(workload) => {
                let expected: Vec<&str> = rule.iter().map(|rule| rule.code).collect();
                if workload.codes() != expected {
                    let found = sentences(&workload.findings);
                    complaints.push(wrong(&format!("should have findings of {expected:?} alone, not: {found}")));
                }
            }
        }
    }
    all(&complaints)
}

pub fn every_rule_about_a_field_has_a_row() -> Checked {
    let named: Vec<&str> = rows()
        .flatten()
        .filter_map(|row| match row.outcome {
            Outcome::Rule { code, .. } => Some(code),
            Outcome::Works { .. } | Outcome::Cluster { .. } => None,
        })
        .collect();
    let about_fields = catalogue().filter(|rule| rule.code.chars().nth(3).is_some_and(|family| "234".contains(family)));
    let missing = about_fields.filter(|rule| !named.contains(&rule.code));
    all(&missing
        .map(|rule| format!("{} {} is in no row of tests/rules/kubernetes.tsv", rule.code, rule.name))
        .collect::<Vec<_>>())
}

fn judge(pod: &str, rule: Option<&Rule>) -> Result<run::Judged, String> {
    let beside = rule.map_or_else(Beside::default, |rule| default_policies(rule, Beside::default()));
    let mut workloads = run::check(&manifest(pod)?, &beside)?;
    Ok(workloads.remove(0))
}

/// The base with that merged into it, with a namespace.
fn manifest(pod: &str) -> Result<String, String> {
    let over: Value = serde_json::from_str(&repeated(pod)?).map_err(|error| error.to_string())?;
    let mut object = base();
    lay_over(&mut object, over);
    Ok(format!("{NAMESPACE}{object}\n"))
}

/// The text with every `${x*300}` expanded.
fn repeated(text: &str) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let written = part.split_once('}').and_then(|(inner, rest)| {
            let (what, times) = inner.rsplit_once('*')?;
            Some(what.repeat(times.parse().ok()?) + rest)
        });
        whole.push_str(&written.ok_or_else(|| format!("${{{part} is no ${{x*300}}"))?);
    }
    Ok(whole)
}

fn lay_over(below: &mut Value, over: Value) {
    match (below, over) {
        (Value::Object(below), Value::Object(over)) => {
            for (key, value) in over {
                lay_over(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(below), Value::Array(over)) => {
            for (at, value) in over.into_iter().enumerate() {
                match below.get_mut(at) {
                    Some(item) => lay_over(item, value),
                    None => below.push(value),
                }
            }
        }
        (below, over) => *below = over,
    }
}
