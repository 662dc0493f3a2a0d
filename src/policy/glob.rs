//! Patterns over names: `*` stands for any run of characters.

use super::{Glob, TaintPattern};
use crate::engine::world::Taint;

impl Glob {
    /// Whether the pattern covers the whole of `text`.
    pub fn matches(&self, text: &str) -> bool {
        covers(&self.0, text, |rest, piece| rest.find(piece), |a, b| a == b)
    }

    /// Whether the pattern stands for one name only.
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }
}

impl TaintPattern {
    /// Whether the taint is one of those meant; its effect does not matter. Keys are compared as they are written,
    /// values without regard to case (`os=Windows` and `os=windows` are both in use). A pattern without `=` is a key
    /// with any value; the loader asks for `=*` there.
    pub fn matches(&self, taint: &Taint) -> bool {
        let (key, value) = self.0.split_once('=').unwrap_or((&self.0, "*"));
        covers(key, &taint.key, |rest, piece| rest.find(piece), |a, b| a == b)
            && covers(value, &taint.value, find_ignoring_case, str::eq_ignore_ascii_case)
    }
}

/// Pieces between stars are taken at their leftmost place: no choice is ever taken back, so the time is that of the
/// searches, one after another over `text`.
fn covers(
    pattern: &str,
    text: &str,
    find: impl Fn(&str, &str) -> Option<usize>,
    equal: impl Fn(&str, &str) -> bool,
) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some((head, mut rest)) = text.split_at_checked(first.len()) else { return false };
    if !equal(head, first) {
        return false;
    }
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = find(rest, piece) else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    let tail = rest.len().checked_sub(last.len()).and_then(|at| rest.get(at..));
    tail.is_some_and(|tail| equal(tail, last))
}

/// Taint values have at most 63 bytes: no need for more than the plain search.
fn find_ignoring_case(rest: &str, piece: &str) -> Option<usize> {
    if piece.is_empty() {
        return Some(0);
    }
    rest.as_bytes().windows(piece.len()).position(|window| window.eq_ignore_ascii_case(piece.as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

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

    /// The definition, in exponential time.
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
