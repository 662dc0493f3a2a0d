//! What decided a result: the evidence, and the keys of policy files with their places.

use std::collections::BTreeSet;

use mullion_engine::model::settings::POD_KEYS;
use mullion_engine::model::settings::{Action, Denials, Mode, TemplateDenials};
use mullion_engine::model::{Basis, Cause, WorkloadKind};
use mullion_engine::patch::decision_reason;
use mullion_engine::rules::catalogue;
use mullion_policy::test_cases::ExpectedFinding;
use serde_json::Value;

use crate::cli::policy::test::review::TestedObject;
use crate::report::{FindingResult, decider, set_by};

/// Finds what decided the results of an object.
pub(crate) struct Deciders<'j>(pub(crate) &'j TestedObject);

impl Deciders<'_> {
    /// What decided the operating system.
    pub(crate) fn os(&self) -> Vec<String> {
        let TestedObject { decided, .. } = self.0;
        if !decided.reviewed {
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

    /// What decided its placement, and the changes of the fields that `concerns` selects.
    pub(crate) fn placement(&self, concerns: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = self.os();
        lines.extend(self.unusual());
        let keys = POD_KEYS.iter().filter(|key| key.row.decides.iter().any(|field| concerns(field)));
        let keys: BTreeSet<&str> = keys.map(|key| key.name).collect();
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

    /// What decided whether it is denied: its findings, and the rules of which a denial is expected.
    pub(crate) fn denial(&self, expected: &[&str]) -> Vec<String> {
        let codes = |only_denied: bool| {
            let all = self.0.decided.findings.iter();
            all.filter(move |result| !only_denied || result.action == Action::Deny).map(|result| result.finding.code)
        };
        let mut rules: BTreeSet<&str> = codes(true).chain(expected.iter().copied()).collect();
        if rules.is_empty() {
            rules = codes(false).collect();
        }
        let lines = rules.into_iter().flat_map(|code| self.rules(code));
        let mode = (!self.0.decided.reviewed).then(|| self.setting("mode"));
        dedup(lines.chain(self.unusual()).chain(mode))
    }

    /// What decided the findings.
    pub(crate) fn findings(&self, missing: &[&ExpectedFinding], surplus: &[&FindingResult]) -> Vec<String> {
        let missing = missing.iter().map(|expected| expected.rule.as_str());
        let surplus = surplus.iter().map(|result| result.finding.code);
        let lines = missing.chain(surplus).flat_map(|rule| self.rules(rule));
        dedup(lines.chain(self.unusual()).chain(self.os().into_iter().next()))
    }

    /// A key with its value and its origin: `place.build.mode: Exact (policies/ours.yaml:12)`.
    pub(crate) fn setting(&self, key: &str) -> String {
        let (value, origin) = self.0.setting(key);
        let shown = match value {
            Value::Null => "not set".to_owned(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        format!("{key}: {shown} ({})", set_by(origin))
    }

    /// The settings that weaken rules, if they differ from their defaults.
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

    /// What decides the action of a rule, given by name or code; of a code prefix, for the first four rules.
    fn rules(&self, name_or_prefix: &str) -> Vec<String> {
        let rules = catalogue().filter(|rule| rule.name == name_or_prefix || rule.code.starts_with(name_or_prefix));
        rules.take(4).map(|rule| decider(&self.0.decided.settings, rule)).collect()
    }
}

fn dedup(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    lines.into_iter().filter(|line| seen.insert(line.clone())).collect()
}
