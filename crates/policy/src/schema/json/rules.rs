//! Rules in the JSON Schema: what may be written for them, from the catalogue.

use std::collections::BTreeSet;

use mullion_engine::rules::catalogue::catalogue;
use mullion_engine::rules::rule::Rule;

use crate::schema::json::ordered::{Members, Ordered};
use crate::schema::types::Text;

/// A choice of rules that a text may mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    /// Under `$defs`.
    pub(crate) name: &'static str,
    /// Whether a rule belongs to it; of a beginning of codes one such rule is enough.
    has: fn(&Rule) -> bool,
    /// What is wrong with any other text.
    refusal: &'static str,
}

const ANY: Choice = Choice {
    name: "rule",
    has: |_| true,
    refusal: "There is no such rule: write its name, its code or the beginning of codes; `mullion rules` lists them.",
};
const TRANSLATED: Choice = Choice {
    name: "translatedRule",
    has: |rule| rule.translation.is_some(),
    refusal: "There is no translation for this rule.",
};
/// Those that `action: Repair` may be said of.
pub(crate) const REPAIRED: Choice = Choice {
    name: "repairedRule",
    has: |rule| rule.repair,
    refusal: "There is no repair for this rule: write action Deny, Warn or Allow.",
};

/// All of them, as they stand under `$defs`.
pub(crate) const CHOICES: [Choice; 3] = [ANY, TRANSLATED, REPAIRED];

impl Choice {
    /// The choice that a form of text takes.
    pub(crate) fn of(text: Text) -> Option<Self> {
        match text {
            Text::Rule => Some(ANY),
            Text::TranslatedRule => Some(TRANSLATED),
            _ => None,
        }
    }

    /// A reference to it.
    pub(crate) fn reference(self) -> Members {
        Members::default().with("$ref", format!("#/$defs/{}", self.name))
    }

    /// What it takes. A pattern and not an `enum`: editors would show all 250 words wherever one of them stands. They
    /// offer the names all the same, by `defaultSnippets`.
    pub(crate) fn schema(self) -> Members {
        let rules = || catalogue().filter(|rule| (self.has)(rule));
        let codes: BTreeSet<&str> =
            rules().flat_map(|rule| (1..=rule.code.len()).filter_map(|end| rule.code.get(..end))).collect();
        let written: Vec<&str> = rules().map(|rule| rule.name).chain(codes).collect();
        let snippets = rules().map(|rule| {
            Members::default()
                .with("label", rule.name)
                .with("description", format!("{}: {}", rule.code, rule.summary))
                .with("body", rule.name)
        });
        Members::default()
            .with("type", "string")
            .with("pattern", format!("^({})$", written.join("|")))
            .with("patternErrorMessage", self.refusal)
            .with("defaultSnippets", Ordered::from(snippets.collect::<Vec<_>>()))
    }
}
