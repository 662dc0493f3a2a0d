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

/// The entry that decides for a rule: of the highest priority with an entry for it, the longest match. The name counts as
/// longest, then the whole code, then its longer prefix; of equal matches the first. `entries` has the highest priority
/// first.
pub(crate) fn deciding_entry<'a>(entries: &'a [RuleAction], code: &str, name: &str) -> Option<&'a RuleAction> {
    entries.chunk_by(|a, b| a.priority == b.priority).find_map(|entries| {
        let mut best = None;
        for entry in entries {
            let length = match_length(&entry.rule, code, name);
            // `>` and not `>=`: on a tie the first stays.
            if length > best.map_or(0, |(length, _)| length) {
                best = Some((length, entry));
            }
        }
        best.map(|(_, entry)| entry)
    })
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
    /// The priority of its policy; the loader fills it.
    #[serde(skip)]
    pub priority: i64,
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
