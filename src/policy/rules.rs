//! What policy files may say of rules.

use super::text::nearest;
use crate::engine::rules::{Rule, catalogue};

/// The rules that `written` means: one by its name, or all whose code starts so; none if there is no such rule.
pub(super) fn meant(written: &str) -> impl Iterator<Item = &'static Rule> {
    catalogue().filter(move |rule| match_length(written, rule.code, rule.name) > 0)
}

/// The rule, by name or code, that is spelled most like `written`.
pub(super) fn nearest_rule(written: &str) -> Option<&'static str> {
    nearest(written, catalogue().flat_map(|rule| [rule.name, rule.code]))
}

/// The beginning of codes that is meant by `MUL1xx`, `MUL1*` or `mul1`.
pub(super) fn meant_prefix(written: &str) -> Option<String> {
    let upper = written.to_ascii_uppercase();
    let prefix = upper.trim_end_matches(['X', '*', '?', '.', '-']);
    (prefix.len() > 3 && meant(prefix).next().is_some()).then(|| prefix.to_owned())
}

/// How much of a rule `written` names: 0 for nothing, the length of a code or its prefix, and for its name more than
/// any code.
pub(super) fn match_length(written: &str, code: &str, name: &str) -> usize {
    if written == name {
        usize::MAX
    } else if code.starts_with(written) {
        written.len()
    } else {
        0
    }
}
