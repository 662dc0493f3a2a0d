//! The scope of each rule in one workload: the action of its findings, after policies and the exemptions of the
//! workload's author.

use std::borrow::Cow;

use crate::model::settings::{Action, Denials};
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::rule::Rule;

impl WorkloadContext<'_> {
    /// The action of the findings of `rule`; `default` if no policy sets one.
    pub fn action(&self, rule: &Rule, default: Action) -> Action {
        if self.input.settings.exempts(self.exemptions, rule.code, rule.name) {
            return Action::Allow;
        }
        // The policies were written for a version of Mullion without this rule.
        let default = if self.input.settings.knows(rule.since) { default } else { default.min(Action::Warn) };
        match self.input.settings.action_under_denials(rule.code, rule.name, default) {
            // A policy set the action by a prefix that also matches rules without a repair, which keep their own
            // action.
            Action::Repair if !rule.repair && default != Action::Repair => self.soften(default),
            action => action,
        }
    }

    /// Whether findings of `rule` are translated if Windows has an equivalent.
    pub fn translates(&self, rule: &Rule) -> bool {
        rule.translation.is_some() && self.input.settings.translates(rule.code, rule.name)
    }

    /// The action, with Warn for Deny if the policies set `denials: Warn`.
    pub fn soften(&self, action: Action) -> Action {
        let soft = action == Action::Deny && self.input.settings.denials == Denials::Warn;
        if soft { Action::Warn } else { action }
    }

    /// A finding of `rule` at `pointer`, with the action that the policies set.
    pub fn finding(&self, rule: &'static Rule, pointer: String, message: impl Into<Cow<'static, str>>) -> Finding {
        Finding::new(rule, self.action(rule, rule.default), pointer, message)
    }
}
