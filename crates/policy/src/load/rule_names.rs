//! Names, codes and code prefixes of rules in policy files.

use mullion_engine::model::settings::match_length;
use mullion_engine::model::text::nearest;
use mullion_engine::rules::{Rule, catalogue};

/// The rules that `text` names: one by its name, or all whose code starts with it; empty if there is no such rule.
pub(crate) fn find_rules(text: &str) -> impl Iterator<Item = &'static Rule> {
    catalogue().filter(move |rule| match_length(text, rule.code, rule.name) > 0)
}

/// The name or code of a rule that is most similar to `text`.
pub(crate) fn find_nearest_rule(text: &str) -> Option<&'static str> {
    nearest(text, catalogue().flat_map(|rule| [rule.name, rule.code]))
}

/// The code prefix in `MUL1xx`, `MUL1*` or `mul1`.
pub(crate) fn find_code_prefix(text: &str) -> Option<String> {
    let upper = text.to_ascii_uppercase();
    let prefix = upper.trim_end_matches(['X', '*', '?', '.', '-']);
    (prefix.len() > 3 && find_rules(prefix).next().is_some()).then(|| prefix.to_owned())
}
