//! What policies set for rules: actions, and which rule an entry matches.

use serde::{Deserialize, Serialize};

use crate::model::settings::origin::Origin;

/// How specifically `written` matches a rule: 0 if it does not match, the length of a code or of its prefix, and for
/// the rule's name more than for any code.
pub fn match_length(written: &str, code: &str, name: &str) -> usize {
    if written == name {
        usize::MAX
    } else if code.starts_with(written) {
        written.len()
    } else {
        0
    }
}

/// The entry that decides for a rule: of the highest priority that has an entry for it, the longest match. The name
/// counts as longest, then the whole code, then its longer prefix; of equal matches, the first. `entries` has the
/// highest priority first.
pub(crate) fn deciding_entry<'a>(entries: &'a [RuleAction], code: &str, name: &str) -> Option<&'a RuleAction> {
    entries.chunk_by(|a, b| a.priority == b.priority).find_map(|entries| {
        let mut best = None;
        for entry in entries {
            let length = match_length(&entry.rule, code, name);
            // `>` and not `>=`: on a tie the first entry stays.
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
    /// `Deny` denies.
    #[default]
    Deny,
    /// Every `Deny` becomes a `Warn`.
    Warn,
}

/// `spec.rules.actions[*]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleAction {
    /// Name, code or code prefix.
    pub rule: String,
    /// The action of its findings.
    pub action: Action,
    /// The priority of its policy; set by the loader.
    #[serde(skip)]
    pub priority: i64,
    /// Where it is written; set by the loader.
    #[serde(skip)]
    pub origin: Option<Origin>,
}

/// The action of a rule's findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Action {
    /// The finding is ignored.
    Allow,
    /// The finding is reported.
    Warn,
    /// The finding is repaired by a change.
    Repair,
    /// The request is denied.
    Deny,
}
