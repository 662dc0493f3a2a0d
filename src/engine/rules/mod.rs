//! The rule catalogue: every check with a stable code and name.
//!
//! Rules that differ only in field, harmless values and text are rows of one table ([`linux_only`]); other rules have a
//! file each. Codes are never reused.

pub mod builds;
pub mod linux_only;
pub mod os_intent;

use super::finding::{Finding, RefusedBy, field_path};
use super::pod::Pod;
use crate::policy::{Action, Denials, Settings};

/// The annotation of a pod, or of a pod template, that waves rules off where `optOut.allow` lets it.
pub const ALLOW: &str = "mullion.dev/allow";

/// One catalogued check.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// `MUL201`; never reused.
    pub code: &'static str,
    /// `run-as-user`.
    pub name: &'static str,
    /// One line, lower case, no full stop.
    pub summary: &'static str,
    /// What its findings do where no policy says otherwise, for the worst value of its field.
    pub default: Action,
    /// Whether there is a repair: only then may a policy say `Repair`.
    pub repair: bool,
    /// Why Windows cannot do it: the sentence of its findings.
    pub why: &'static str,
    /// What to write instead, as a clause.
    pub instead: &'static str,
}

/// What the findings of each rule do to one subject.
#[derive(Debug, Clone, Copy)]
pub struct Actions<'a> {
    settings: &'a Settings,
    waved: &'a str,
}

impl<'a> Actions<'a> {
    /// For that pod, which may wave rules off.
    pub fn of(pod: &Pod<'a>, settings: &'a Settings) -> Self {
        Self { settings, waved: pod.annotation(ALLOW).unwrap_or_default() }
    }

    /// What the findings of `rule` do; `default` where nobody says.
    pub fn action(self, rule: &Rule, default: Action) -> Action {
        if self.settings.waved_off(self.waved, rule.code, rule.name) {
            return Action::Allow;
        }
        match self.settings.effective_action(rule.code, rule.name, default) {
            // Asked for by a prefix that also means rules without a repair: they keep what they do by themselves.
            Action::Repair if !rule.repair && default != Action::Repair => self.soften(default),
            action => action,
        }
    }

    /// The action, with Deny as Warn where the policies want no denials.
    pub fn soften(self, action: Action) -> Action {
        let soft = action == Action::Deny && self.settings.denials == Denials::Warn;
        if soft { Action::Warn } else { action }
    }
}

/// Every rule, in order of code.
pub fn catalogue() -> impl Iterator<Item = &'static Rule> {
    os_intent::RULES.iter().chain(linux_only::FIELDS.iter().map(|field| &field.rule)).chain(builds::RULES.iter())
}

/// The rule of that code or name.
pub fn find(code_or_name: &str) -> Option<&'static Rule> {
    catalogue().find(|rule| rule.name == code_or_name || rule.code.eq_ignore_ascii_case(code_or_name))
}

/// A finding of `rule` at `pointer`, with the action that is asked for.
pub fn finding(rule: &'static Rule, actions: Actions<'_>, pointer: String, message: String) -> Finding {
    Finding {
        code: rule.code,
        rule: rule.name,
        action: actions.action(rule, rule.default),
        quiet: false,
        path: field_path(&pointer),
        pointer,
        message,
        help: rule.instead.to_owned(),
        refused_by: RefusedBy::Nobody,
        known_before: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_unique_sorted_and_well_formed() {
        let rules: Vec<&Rule> = catalogue().collect();
        assert!(rules.is_sorted_by(|a, b| a.code < b.code));
        for rule in &rules {
            assert!(rule.code.len() == 6 && rule.code.starts_with("MUL"), "{}", rule.code);
            assert!(rule.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.name);
            assert!(rule.summary.len() <= 80 && !rule.summary.ends_with('.'), "{}", rule.summary);
            assert!(!rule.why.is_empty() && !rule.why.ends_with('.'), "{}", rule.name);
            assert_eq!(rules.iter().filter(|other| other.name == rule.name).count(), 1, "{}", rule.name);
            assert_eq!(find(rule.code), find(rule.name));
        }
    }
}
