//! Each page's `Example` triggers its rule and no other; the manifest below `Use instead` has no finding.

use mullion_engine::model::settings::Action;
use mullion_engine::rules::Rule;

use crate::page::fences;
use crate::run::{self, Beside, text};
use crate::{Checked, all};

pub fn check(rule: &Rule) -> Checked {
    let file = format!("crates/engine/src/rules/pages/{}.md", rule.code);
    let example = fences(rule.page, "Example");
    let snapshot = example.iter().find(|(info, _)| info == "yaml snapshot").map(|(_, block)| block.clone());
    let beside = default_policies(rule, Beside { snapshot, ..Beside::default() });
    let mut complaints = Vec::new();
    let (manifests, others): (Vec<_>, Vec<_>) = example.iter().partition(|(info, _)| info == "yaml");
    let instead = fences(rule.page, "Use instead");
    if manifests.len() != 1 || others.iter().any(|(info, _)| info != "yaml snapshot") || others.len() > 1 {
        complaints.push(format!("{file}: \"Example\" needs one ```yaml block, and may have one ```yaml snapshot"));
    }
    if instead.is_empty() || instead.iter().any(|(info, _)| info != "yaml") {
        complaints.push(format!("{file}: \"Use instead\" needs a ```yaml block, and no others"));
    }
    for (_, manifest) in manifests {
        match run::check(manifest, &beside) {
            Err(why) => complaints.push(format!("{file}: its example cannot be judged: {why}")),
            Ok(workloads) => {
                for workload in workloads.iter().filter(|workload| workload.codes() != [rule.code]) {
                    let found = sentences(&workload.findings);
                    complaints.push(format!("{file}: its example should trigger {} alone, not: {found}", rule.code));
                }
            }
        }
    }
    for (_, manifest) in instead {
        match run::check(&manifest, &beside) {
            Err(why) => complaints.push(format!("{file}: its remedy cannot be judged: {why}")),
            Ok(workloads) => {
                for workload in workloads.iter().filter(|workload| !workload.findings.is_empty()) {
                    complaints.push(format!("{file}: its remedy should be clean: {}", sentences(&workload.findings)));
                }
            }
        }
    }
    all(&complaints)
}

/// The default policies; for rules that these allow, one that warns about it.
pub fn default_policies(rule: &Rule, beside: Beside) -> Beside {
    if rule.default == Action::Allow { beside.and(rule.code, Action::Warn) } else { beside }
}

/// Findings as lines; `nothing` for none.
pub fn sentences(findings: &[serde_json::Value]) -> String {
    let sentence = |finding| {
        let [code, path, message] = ["code", "path", "message"].map(|key| text(finding, key));
        format!("\n  {code} {path}: {message}")
    };
    if findings.is_empty() { "nothing".to_owned() } else { findings.iter().map(sentence).collect() }
}
