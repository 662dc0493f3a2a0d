//! Patterns for names of namespaces, in which `*` matches any characters.

use serde::{Deserialize, Serialize};

use crate::model::schema::{PolicyValue, TextFormat, ValueShape};
use crate::model::settings::wildcard::covers;
use crate::policy_object;

policy_object! {
    /// Namespaces that are included and not excluded.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct NamespacePatterns {
        /// Names of namespaces, in which `*` matches any characters. Absent or empty: every namespace.
        #[key("include", example: Some("[shop, team-a-*]"))]
        pub include: Vec<Glob>,
        /// Names of namespaces that are excluded, in which `*` matches any characters. It takes precedence over
        /// `include`.
        #[key("exclude", example: Some("[dev-*]"))]
        pub exclude: Vec<Glob>,
    }
}

/// A pattern in which `*` matches any characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Glob(pub String);

impl PolicyValue for Glob {
    const SHAPE: ValueShape = ValueShape::Text(TextFormat::Namespaces);
}

impl NamespacePatterns {
    /// Whether the namespace is included (an empty list includes all) and not excluded.
    pub fn matches(&self, namespace: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|glob| glob.matches(namespace)))
            && !self.exclude.iter().any(|glob| glob.matches(namespace))
    }

    /// The namespaces that they can match, if that is known without a cluster: an `include` without wildcards.
    pub fn literal(&self) -> Option<impl Iterator<Item = &str>> {
        let literal = !self.include.is_empty() && self.include.iter().all(Glob::is_literal);
        literal.then(|| self.include.iter().map(|name| name.0.as_str()))
    }
}

impl Glob {
    /// Whether the pattern matches the whole `text`.
    pub fn matches(&self, text: &str) -> bool {
        covers(&self.0, text, |rest, piece| rest.find(piece), |a, b| a == b)
    }

    /// Whether the pattern matches one name only.
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;
    use crate::model::cluster::Taint;
    use crate::model::settings::TaintPattern;

    #[test]
    fn stars_stand_for_any_run() {
        let cases = [
            ("*", "", true),
            ("*", "prod", true),
            ("", "", true),
            ("", "prod", false),
            ("prod", "prod", true),
            ("prod", "prod-1", false),
            ("dev-*", "dev-", true),
            ("dev-*", "dev-a", true),
            ("dev-*", "dev", false),
            ("*-dev", "a-dev", true),
            ("*-dev", "a-dev-b", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**", "x", true),
            ("a**b", "ab", true),
            ("é*", "éa", true),
            ("a*", "é", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Glob(pattern.to_owned()).matches(text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        // A backtracking matcher needs more than 2^60 steps here.
        let pattern = Glob("a*".repeat(60) + "b");
        assert!(!pattern.matches(&"a".repeat(10_000)));
    }

    #[test]
    fn taint_values_are_compared_without_regard_to_case_and_keys_with() {
        let taint =
            |key: &str, value: &str| Taint { key: key.into(), value: value.into(), effect: "NoSchedule".into() };
        let cases = [
            ("os=win*", taint("os", "Windows"), true),
            ("os=win*", taint("os", "windows"), true),
            ("os=win*", taint("OS", "windows"), false),
            ("os=win*", taint("os", "linux"), false),
            ("os=*DOWS", taint("os", "windows"), true),
            ("windows=*", taint("windows", ""), true),
            ("windows=*", taint("windows", "true"), true),
            ("windows=", taint("windows", "true"), false),
            ("*/os=w*n*s", taint("kubernetes.io/os", "WINDOWS"), true),
        ];
        for (pattern, taint, expected) in cases {
            assert_eq!(TaintPattern(pattern.to_owned()).matches(&taint), expected, "{pattern} on {taint}");
        }
    }

    /// The definition, which takes exponential time.
    fn oracle(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), None) => oracle(rest, text),
            (Some((b'*', rest)), Some((_, tail))) => oracle(rest, text) || oracle(pattern, tail),
            (Some((a, rest)), Some((b, tail))) => a == b && oracle(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*]{0,7}", text in "[ab]{0,9}") {
            prop_assert_eq!(Glob(pattern.clone()).matches(&text), oracle(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn never_panics(pattern in ".{0,12}", text in ".{0,12}") {
            let taint = Taint { key: text.clone(), value: text.clone(), effect: String::new() };
            let _ = (Glob(pattern.clone()).matches(&text), TaintPattern(pattern).matches(&taint));
        }
    }
}
