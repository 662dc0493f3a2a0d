//! What policies set for rules: actions, and which rule an entry matches.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::schema::{ListEntry, Origin};
use crate::{policy_object, policy_words};

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

policy_words! {
    /// Whether `Deny` denies.
    pub enum Denials = Deny {
        /// Findings of rules with action `Deny` are denied.
        Deny,
        /// Every `Deny` becomes a `Warn`: Mullion denies nothing, and still places and repairs pods.
        Warn,
    }
}

policy_object! {
    /// `spec.rules.actions[*]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct RuleAction: RuleAction {
        /// The rule: its name (`run-as-user`), its code (`MUL201`), or a code prefix (`MUL2`: all rules of that
        /// family).
        #[key("rule": Text(Rule), required: true, example: Some("run-as-user"))]
        pub rule: String,
        /// The action for the findings of the rule.
        #[key("action", required: true, exempts: Some(&["Warn", "Allow"]))]
        pub action: Action,
    }
    hidden {
        /// The priority of its policy; set by the loader.
        #[serde(skip)]
        pub priority: i64,
        /// Where it is written; set by the loader.
        #[serde(skip)]
        pub origin: Option<Origin>,
    }
}

impl ListEntry for RuleAction {
    fn origin(&mut self) -> Option<&mut Option<Origin>> {
        Some(&mut self.origin)
    }
}

/// The first entry for each text: the entries of lower priority match the same rules, and never decide.
pub(crate) fn first_of_each_rule<'a>(list: &mut Vec<RuleAction>, all: impl Iterator<Item = &'a Vec<RuleAction>>) {
    let mut seen = BTreeSet::new();
    list.extend(all.flatten().filter(|entry| seen.insert(&entry.rule)).cloned());
}

policy_words! {
    /// The action of a rule's findings, the strongest first.
    pub enum Action {
        /// Mullion denies pods that a user creates, and templates according to `templates`, with a message on how to
        /// fix them. It denies pods of a controller only if Kubernetes itself would reject them, and pods of a
        /// DaemonSet never; the others get the label `mullion.dev/findings`.
        Deny,
        /// Mullion removes the field from the pod, or changes it into one that works; in a template only if the API
        /// server would reject it. Only for rules that have a repair; a code prefix may also cover rules without one,
        /// which keep their default action.
        Repair,
        /// A warning to the user who applies it; on pods of controllers the label `mullion.dev/findings`.
        Warn,
        /// Nothing: no report and no change.
        Allow,
    }
}

/// `Deny` is the greatest.
impl Ord for Action {
    fn cmp(&self, other: &Self) -> Ordering {
        (*other as u8).cmp(&(*self as u8))
    }
}

impl PartialOrd for Action {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
