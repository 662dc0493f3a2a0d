//! What policies set for rules: actions, and which rule an entry means.

use serde::{Deserialize, Serialize};

use crate::model::settings::origin::Origin;

/// How much of a rule `written` names: 0 for nothing, the length of a code or its prefix, and for its name more than
/// any code.
pub fn match_length(written: &str, code: &str, name: &str) -> usize {
    if written == name {
        usize::MAX
    } else if code.starts_with(written) {
        written.len()
    } else {
        0
    }
}

/// Whether `Deny` denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Denials {
    /// It does.
    #[default]
    Deny,
    /// Every Deny is a Warn.
    Warn,
}

/// `spec.rules.actions[*]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleAction {
    /// Name, code or code prefix.
    pub rule: String,
    /// What its findings do.
    pub action: Action,
    /// Where it is written; the loader fills it.
    #[serde(skip)]
    pub origin: Option<Origin>,
}

/// What a rule's findings do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Action {
    /// Nothing.
    Allow,
    /// Reported.
    Warn,
    /// Changed.
    Repair,
    /// Denied.
    Deny,
}
