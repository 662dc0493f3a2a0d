//! Exemptions: the rules that the author of a workload exempts it from.

use std::collections::HashSet;

/// The words of an annotation `mullion.dev/allow`. A set, because every finding of every container looks its rule up,
/// and the annotation may be as long as the object.
#[derive(Debug, Clone, Default)]
pub struct Exemptions<'a>(HashSet<&'a str>);

impl<'a> Exemptions<'a> {
    /// Parses the annotation's value: names, codes or prefixes of codes, separated by commas; may be empty.
    pub fn in_annotation(text: &'a str) -> Self {
        Self(text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect())
    }

    /// Whether a word matches the rule: see [`match_length`](crate::model::settings::match_length).
    pub fn name(&self, code: &str, name: &str) -> bool {
        let prefixes = (1..=code.len()).filter_map(|end| code.get(..end));
        !self.0.is_empty() && (self.0.contains(name) || prefixes.into_iter().any(|prefix| self.0.contains(prefix)))
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;
    use crate::model::settings::match_length;

    proptest! {
        #[test]
        fn a_rule_is_named_as_if_each_word_were_compared(
            words in prop::collection::vec("| |MUL| MUL2 |MUL20|MUL201|mul201|MUL2011|run-as-user|run-as|é", 0..60),
        ) {
            let text = words.join(",");
            let exemptions = Exemptions::in_annotation(&text);
            for (code, name) in [("MUL201", "run-as-user"), ("MUL305", "memory-volume"), ("MUL2011", "x")] {
                let expected = text.split(',').any(|word| match_length(word.trim(), code, name) > 0);
                prop_assert_eq!(exemptions.name(code, name), expected, "{:?} {}", &text, code);
            }
        }
    }
}
