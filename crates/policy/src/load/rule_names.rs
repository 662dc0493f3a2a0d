//! What policy files may say of rules.

use mullion_engine::model::settings::rule_actions::match_length;
use mullion_engine::model::text::nearest;
use mullion_engine::rules::catalogue::catalogue;
use mullion_engine::rules::rule::Rule;

/// The rules that `written` means: one by its name, or all whose code starts so; none if there is no such rule.
pub(crate) fn meant(written: &str) -> impl Iterator<Item = &'static Rule> {
    catalogue().filter(move |rule| match_length(written, rule.code, rule.name) > 0)
}

/// The rule, by name or code, that is spelled most like `written`.
pub(crate) fn nearest_rule(written: &str) -> Option<&'static str> {
    nearest(written, catalogue().flat_map(|rule| [rule.name, rule.code]))
}

/// The beginning of codes that is meant by `MUL1xx`, `MUL1*` or `mul1`.
pub(crate) fn meant_prefix(written: &str) -> Option<String> {
    let upper = written.to_ascii_uppercase();
    let prefix = upper.trim_end_matches(['X', '*', '?', '.', '-']);
    (prefix.len() > 3 && meant(prefix).next().is_some()).then(|| prefix.to_owned())
}
