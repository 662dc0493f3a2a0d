//! A rule of the catalogue: its code, name, default action and texts.

use crate::model::settings::rule_actions::Action;

/// A rule that no policy can have repaired, with its page: code, name, default action, summary, why, instead.
macro_rules! rule {
    ($code:literal, $name:literal, $default:expr, $summary:literal, $why:literal, $instead:literal $(,)?) => {
        $crate::rules::rule::Rule {
            code: $code,
            name: $name,
            default: $default,
            summary: $summary,
            why: $why,
            instead: $instead,
            repair: false,
            translation: None,
            hint: false,
            since: "0.1",
            // Absolute, because families are files and folders.
            page: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules/pages/", $code, ".md")),
        }
    };
}

pub(crate) use rule;

/// Who did what came after Mullion: a webhook cannot know more, since the API server names no one.
pub const OTHERS: &str = "another webhook or policy";

/// One catalogued check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// What it writes instead of what it finds where a policy lists it under `rules.translate`, as a clause; `None`: there
    /// is nothing on Windows that means the same.
    pub translation: Option<&'static str>,
    /// Whether pods run as they are meant to all the same, and it tells authors of something better: then it is worth no
    /// label on the pods of controllers, of which nearly every one would have it.
    pub hint: bool,
    /// Why Windows cannot do it: the sentence of its findings.
    pub why: &'static str,
    /// What to write instead, as a clause.
    pub instead: &'static str,
    /// The version of Mullion that has it first, or in which it was tightened: `0.1`. Policies made for an earlier one
    /// hear of it as a warning.
    pub since: &'static str,
    /// Its page, below what the catalogue knows of it: Markdown with the headings of
    /// `report/rule_page.rs`.
    pub page: &'static str,
}
