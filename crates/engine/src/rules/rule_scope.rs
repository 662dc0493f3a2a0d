//! What each rule does with one workload: the action of its findings, after policies and the exemptions of its author.

use crate::model::json_pointer::field_path;
use crate::model::names::ALLOW_ANNOTATION;
use crate::model::pod_view::Pod;
use crate::model::settings::rule_actions::{Action, Denials};
use crate::model::settings::workload_settings::Settings;
use crate::place::context::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::rule::Rule;

/// What the findings of each rule do to one workload.
#[derive(Debug, Clone, Copy)]
pub struct Actions<'a> {
    pub(crate) settings: &'a Settings,
    waved: &'a str,
}

impl<'a> Actions<'a> {
    /// For that pod, which may exempt from rules.
    pub fn of(pod: &Pod<'a>, settings: &'a Settings) -> Self {
        Self { settings, waved: pod.annotation(ALLOW_ANNOTATION).unwrap_or_default() }
    }

    /// What the findings of `rule` do; `default` where nobody says.
    pub fn action(self, rule: &Rule, default: Action) -> Action {
        if self.settings.waved_off(self.waved, rule.code, rule.name) {
            return Action::Allow;
        }
        // Policies made for an older Mullion did not ask for this.
        let default = if self.settings.knows(rule.since) { default } else { default.min(Action::Warn) };
        match self.settings.effective_action(rule.code, rule.name, default) {
            // Asked for by a prefix that also means rules without a repair: they keep what they do by themselves.
            Action::Repair if !rule.repair && default != Action::Repair => self.soften(default),
            action => action,
        }
    }

    /// Whether findings of `rule` are translated where something on Windows means the same.
    pub fn translates(self, rule: &Rule) -> bool {
        rule.translation.is_some() && self.settings.translates(rule.code, rule.name)
    }

    /// The action, with Deny as Warn where the policies want no denials.
    pub fn soften(self, action: Action) -> Action {
        let soft = action == Action::Deny && self.settings.denials == Denials::Warn;
        if soft { Action::Warn } else { action }
    }
}

impl<'a> WorkloadContext<'a> {
    /// What the findings of each rule do.
    pub fn actions(&self) -> Actions<'a> {
        Actions::of(&self.input.pod, self.input.settings)
    }

    /// A finding of `rule` at `pointer`, with the action that the policies set.
    pub fn finding(&self, rule: &'static Rule, pointer: String, message: impl Into<String>) -> Finding {
        Finding {
            code: rule.code,
            rule: rule.name,
            action: self.actions().action(rule, rule.default),
            quiet: false,
            advice: rule.advice,
            path: field_path(&pointer),
            pointer,
            message: message.into(),
            help: rule.instead.to_owned(),
            replacement: None,
            refused_by: RejectedBy::Nobody,
            forbidden_by_os: false,
            rejected_beside_os: false,
            known_before: false,
        }
    }
}
