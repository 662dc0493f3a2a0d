//! Rules in the JSON Schema: the names, codes and code prefixes of the catalogue.

use std::collections::BTreeSet;

use mullion_engine::rules::{Rule, catalogue};

use crate::schema::TextFormat;
use crate::schema::json::ordered::{Members, Ordered};

/// The rules that a text may name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    /// Its name under `definitions`.
    pub(crate) name: &'static str,
    /// Whether a rule belongs to it; one such rule is enough for a code prefix.
    has: fn(&Rule) -> bool,
    /// The error for any other text.
    error: &'static str,
}

const ANY: Choice = Choice {
    name: "rule",
    has: |_| true,
    error: "There is no such rule: write its name, its code or a code prefix; `mullion rules` lists them.",
};
const TRANSLATED: Choice = Choice {
    name: "translatedRule",
    has: |rule| rule.translation.is_some(),
    error: "There is no translation for this rule.",
};
/// Rules that may have `action: Repair`.
pub(crate) const REPAIRED: Choice = Choice {
    name: "repairedRule",
    has: |rule| rule.repair,
    error: "There is no repair for this rule: write action Deny, Warn or Allow.",
};

/// All choices under `definitions`.
pub(crate) const CHOICES: [Choice; 3] = [ANY, TRANSLATED, REPAIRED];

impl Choice {
    /// The choice for a form of text.
    pub(crate) fn of(text: TextFormat) -> Option<Self> {
        match text {
            TextFormat::Rule => Some(ANY),
            TextFormat::TranslatedRule => Some(TRANSLATED),
            _ => None,
        }
    }

    /// A reference to it. In this dialect, keywords beside a `$ref` have no effect.
    pub(crate) fn reference(self) -> Members {
        let reference = Members::default().with("$ref", format!("#/definitions/{}", self.name));
        Members::default().with("allOf", vec![reference])
    }

    /// Its schema. It is a pattern and not an `enum`, because editors would show all 250 words for each value. They
    /// still offer the names, by `defaultSnippets`.
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
            .with("patternErrorMessage", self.error)
            .with("defaultSnippets", Ordered::from(snippets.collect::<Vec<_>>()))
    }
}
