//! `tests/rules/<CODE>/`: `bad.yaml` and `good.yaml`, and their findings and repairs.
//!
//! Each document of `bad.yaml` has a finding of the rule, those of `good.yaml` have none at all. If they need it,
//! `snapshot.yaml` contains the cluster snapshot and `policy.yaml` the policies. `findings.txt` contains what `check`
//! finds in `bad.yaml`; `fixed.yaml` (rules with a repair only) is the output of `mutate --templates` for it under a
//! policy that sets Repair for the rule. `make rules` generates both.

use std::fmt::Write;
use std::fs;

use mullion_engine::model::settings::Action;
use mullion_engine::rules::{Rule, find};

use crate::example::{default_policies, sentences};
use crate::run::{self, Beside, Judged, text};
use crate::{Checked, all, golden};

const MADE: [&str; 2] = ["findings.txt", "fixed.yaml"];
const WRITTEN: [&str; 4] = ["bad.yaml", "good.yaml", "snapshot.yaml", "policy.yaml"];

pub fn check(rule: &Rule) -> Checked {
    let folder = format!("tests/rules/{}", rule.code);
    let read = |name: &str| fs::read_to_string(golden::path(&folder).join(name)).ok();
    let missing = |name: &str| format!("{folder}/{name} is missing: {} {} needs it", rule.code, rule.name);
    let bad = read("bad.yaml").ok_or_else(|| missing("bad.yaml"))?;
    let good = read("good.yaml").ok_or_else(|| missing("good.yaml"))?;
    let plain = Beside { policies: read("policy.yaml").into_iter().collect(), snapshot: read("snapshot.yaml") };
    let beside = if plain.policies.is_empty() { default_policies(rule, plain.clone()) } else { plain.clone() };

    let mut complaints = Vec::new();
    let workloads = run::check(&bad, &beside).map_err(|why| format!("{folder}/bad.yaml: {why}"))?;
    for workload in workloads.iter().filter(|workload| !workload.codes().contains(&rule.code)) {
        let found = sentences(&workload.findings);
        complaints.push(format!("{folder}/bad.yaml: {} has no {}, but {found}", workload.name, rule.code));
    }
    for workload in run::check(&good, &beside).map_err(|why| format!("{folder}/good.yaml: {why}"))? {
        if !workload.findings.is_empty() {
            complaints.push(format!("{folder}/good.yaml: {}: {}", workload.name, sentences(&workload.findings)));
        }
    }
    complaints.extend(golden::file(&format!("{folder}/findings.txt"), &lines(&workloads)).err());
    complaints.extend(fixed(rule, &folder, &bad, &plain).err());
    complaints.extend(no_strangers(rule, &folder).err());
    all(&complaints)
}

/// One line for each finding.
fn lines(workloads: &[Judged]) -> String {
    let mut lines = String::new();
    for workload in workloads {
        for finding in &workload.findings {
            let [code, action, path, message, help] =
                ["code", "action", "path", "message", "help"].map(|key| text(finding, key));
            let help = if help.is_empty() { String::new() } else { format!("; {help}") };
            let (name, line, column) = (&workload.name, &finding["line"], &finding["column"]);
            writeln!(lines, "{name}: {line}:{column}: {code} {action}: {path}: {message}{help}").unwrap();
        }
    }
    lines
}

/// The repair changes every document, and leaves no finding of the rule.
fn fixed(rule: &Rule, folder: &str, bad: &str, plain: &Beside) -> Checked {
    if !rule.repair {
        return Ok(());
    }
    let beside = plain.clone().and(rule.code, Action::Repair);
    let fixed = run::mutate(bad, &beside).map_err(|why| format!("{folder}/bad.yaml is not repaired: {why}"))?;
    let mut complaints = Vec::new();
    if fixed == bad {
        complaints.push(format!("{folder}: the repair changes nothing"));
    }
    for workload in run::check(&fixed, &beside).map_err(|why| format!("{folder}/fixed.yaml: {why}"))? {
        if workload.codes().contains(&rule.code) {
            complaints.push(format!("{folder}/fixed.yaml: {} still has {}", workload.name, rule.code));
        }
    }
    complaints.extend(golden::file(&format!("{folder}/fixed.yaml"), &fixed).err());
    all(&complaints)
}

/// A file that is not read has a misspelled name.
fn no_strangers(rule: &Rule, folder: &str) -> Checked {
    let known = |name: &str| WRITTEN.contains(&name) || (MADE.contains(&name) && (name != "fixed.yaml" || rule.repair));
    let strangers = golden::names(folder).into_iter().filter(|name| !known(name));
    all(&strangers.map(|name| format!("{folder}/{name} is never read; remove it")).collect::<Vec<_>>())
}

pub fn every_folder_has_a_rule() -> Checked {
    let folders =
        golden::names("tests/rules").into_iter().filter(|name| golden::path("tests/rules").join(name).is_dir());
    let lost = folders.filter(|name| find(name).is_none_or(|rule| rule.code != name));
    all(&lost.map(|name| format!("tests/rules/{name} belongs to no rule of the catalogue")).collect::<Vec<_>>())
}
