//! Who decided: the evidence, and the keys of policy files with their places.

use std::collections::BTreeSet;

use mullion_engine::model::change::Cause;
use mullion_engine::model::os_decision::Basis;
use mullion_engine::model::settings::rule_actions::{Action, Denials};
use mullion_engine::model::settings::workload_settings::{Mode, TemplateDenials};
use mullion_engine::model::workload::WorkloadKind;
use mullion_engine::patch::annotation::decision_reason;
use mullion_engine::rules::catalogue::catalogue;
use mullion_policy::keys::POD_KEYS;
use mullion_policy::test_cases::types::ExpectedFinding;
use serde_json::Value;

use crate::cli::policy::test::judge::Judged;
use crate::report::rule_page::decider;
use crate::report::set_by;
use crate::report::workload_result::FindingResult;

/// Names who decided what came of an object.
pub(crate) struct Deciders<'j>(pub(crate) &'j Judged);

impl Deciders<'_> {
    /// The operating system.
    pub(crate) fn os(&self) -> Vec<String> {
        let Judged { decided, .. } = self.0;
        if !decided.judged {
            return vec![self.setting("mode"), self.setting("optOut.ignore")];
        }
        let mut lines = vec![format!("os: {}", decision_reason(&decided.decision))];
        if matches!(decided.decision.basis, Basis::Default | Basis::None) {
            lines.push(self.setting("detect.default"));
        }
        if decided.settings.os.is_some() {
            lines.push(self.setting("detect.os"));
        }
        lines
    }

    /// Where it may run, and what became of its fields, as far as that `concerns` them.
    pub(crate) fn placement(&self, concerns: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = self.os();
        lines.extend(self.unusual());
        let keys = POD_KEYS.iter().filter(|key| key.row.decides.iter().any(|field| concerns(field)));
        let keys: BTreeSet<&str> = keys.map(|key| key.name.as_str()).collect();
        lines.extend(keys.into_iter().map(|key| self.setting(key)));
        let rules: BTreeSet<&str> = self
            .0
            .decided
            .repairs
            .iter()
            .filter_map(|change| match change.cause {
                Cause::Rule(code) => Some(code),
                Cause::Placement(_) => None,
            })
            .collect();
        lines.extend(rules.into_iter().flat_map(|code| self.rules(code)));
        lines
    }

    /// Whether it is refused: for the findings it has, and the rules that somebody expected.
    pub(crate) fn denial(&self, expected: &[&str]) -> Vec<String> {
        let found = |denied: bool| {
            let all = self.0.decided.findings.iter();
            all.filter(move |found| !denied || found.action == Action::Deny).map(|found| found.finding.code)
        };
        let mut rules: BTreeSet<&str> = found(true).chain(expected.iter().copied()).collect();
        if rules.is_empty() {
            rules = found(false).collect();
        }
        let lines = rules.into_iter().flat_map(|code| self.rules(code));
        dedup(lines.chain(self.unusual()).chain(if self.0.decided.judged { None } else { Some(self.setting("mode")) }))
    }

    /// What findings came to.
    pub(crate) fn findings(&self, missing: &[&ExpectedFinding], more: &[&FindingResult]) -> Vec<String> {
        let missing = missing.iter().map(|expected| expected.rule.as_str());
        let more = more.iter().map(|found| found.finding.code);
        let lines = missing.chain(more).flat_map(|rule| self.rules(rule));
        dedup(lines.chain(self.unusual()).chain(self.os().into_iter().next()))
    }

    /// A key with its value and where it is set: `place.build.mode: Exact (policies/ours.yaml:12)`.
    pub(crate) fn setting(&self, key: &str) -> String {
        let (value, origin) = self.0.setting(key);
        let shown = match value {
            Value::Null => "not set".to_owned(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        format!("{key}: {shown} ({})", set_by(origin))
    }

    /// Settings that turn down what rules do, where they are not as usual.
    fn unusual(&self) -> Vec<String> {
        let settings = &self.0.decided.settings;
        let template = self.0.kind != WorkloadKind::Pod;
        let keys = [
            ("mode", settings.mode != Mode::Enforce),
            ("rules.denials", settings.denials != Denials::Deny),
            ("rules.templates", template && settings.templates != TemplateDenials::Deny),
        ];
        keys.into_iter().filter(|(_, unusual)| *unusual).map(|(key, _)| self.setting(key)).collect()
    }

    /// What decides for a rule, given by name or code; of a prefix, for each that it means, as long as these are few.
    fn rules(&self, named: &str) -> Vec<String> {
        let meant = catalogue().filter(|rule| rule.name == named || rule.code.starts_with(named));
        meant.take(4).map(|rule| decider(&self.0.decided.settings, rule)).collect()
    }
}

fn dedup(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    lines.into_iter().filter(|line| seen.insert(line.clone())).collect()
}
