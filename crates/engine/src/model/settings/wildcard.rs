//! Wildcard patterns over paths: `*` matches any run of characters within a segment, `**` any run across segments, and
//! `**/` at the start of a segment also matches nothing.

/// Pieces between stars match at their leftmost position. No choice is ever undone, so the time is the sum of the
/// searches over `text`.
pub fn covers(
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

/// Taint values have at most 63 bytes, so a plain search is enough.
pub(crate) fn find_ignoring_case(rest: &str, piece: &str) -> Option<usize> {
    if piece.is_empty() {
        return Some(0);
    }
    rest.as_bytes().windows(piece.len()).position(|window| window.eq_ignore_ascii_case(piece.as_bytes()))
}

/// Longest pattern that the loader accepts, in bytes. It limits the time of one match.
pub const MAX_PATTERN: usize = 512;

/// In a text that represents many texts: any run of characters within a segment. No reference and no pattern contains
/// this byte.
pub(crate) const RUN: u8 = 1;

/// In a text that represents many texts: any run of characters across segments.
pub(crate) const RUN_ACROSS: u8 = 2;

/// Follows all ways to match the pattern at once, with one bit for each byte of it: at most `pattern × text / 64`
/// steps.
pub(crate) fn wildcard(pattern: &[u8], text: &[u8]) -> bool {
    // The bytes before the first star exclude most texts.
    let literal = pattern.iter().position(|b| *b == b'*').unwrap_or(pattern.len());
    let Some((start, text)) = text.split_at_checked(literal) else { return false };
    let Some((before, pattern)) = pattern.split_at_checked(literal) else { return false };
    if start != before {
        return false;
    }
    if pattern.is_empty() {
        return text.is_empty();
    }
    let after_slash = before.is_empty() || before.ends_with(b"/");
    let mut here = Positions::default();
    here.enter(pattern, 0, after_slash);
    for byte in text {
        let mut then = Positions::default();
        for at in here.iter() {
            match star(pattern, at) {
                Some(width) => {
                    if width > 1 || !matches!(*byte, b'/' | RUN_ACROSS) {
                        then.add(at);
                        then.add(at + width);
                    }
                }
                None => {
                    if pattern.get(at) == Some(byte) {
                        then.enter(pattern, at + 1, after_slash);
                    }
                }
            }
        }
        here = then;
    }
    here.has(pattern.len())
}

/// The number of stars at `at`.
fn star(pattern: &[u8], at: usize) -> Option<usize> {
    let width = pattern.get(at..)?.iter().take_while(|b| **b == b'*').count();
    (width > 0).then_some(width)
}

/// A set of positions in a pattern of at most [`MAX_PATTERN`] bytes; positions beyond that are never reached.
#[derive(Default)]
struct Positions([u64; MAX_PATTERN / 64 + 1]);

impl Positions {
    fn add(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    /// Adds `at`, unless it was added before, and the positions after stars there, which may match nothing.
    fn enter(&mut self, pattern: &[u8], mut at: usize, after_slash: bool) {
        loop {
            self.add(at);
            let Some(width) = star(pattern, at) else { return };
            self.add(at + width);
            let slash_before = at.checked_sub(1).map_or(after_slash, |before| pattern.get(before) == Some(&b'/'));
            if !(width > 1 && slash_before && pattern.get(at + width) == Some(&b'/')) {
                return;
            }
            at += width + 1;
        }
    }

    fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let next = |bits: &u64| Some(bits & bits.wrapping_sub(1)).filter(|rest| *rest != 0);
            std::iter::successors(Some(*bits).filter(|bits| *bits != 0), next)
                .map(move |bits| word * 64 + bits.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    /// The definition: tries every way to match.
    fn oracle(pattern: &[u8], text: &[u8], after_slash: bool) -> bool {
        let Some((first, rest)) = pattern.split_first() else { return text.is_empty() };
        if *first != b'*' {
            return text.first() == Some(first) && oracle(rest, &text[1..], *first == b'/');
        }
        let width = star(pattern, 0).unwrap();
        let rest = &pattern[width..];
        if width > 1 && after_slash && rest.first() == Some(&b'/') && oracle(&rest[1..], text, true) {
            return true;
        }
        (0..=text.len())
            .take_while(|taken| width > 1 || !text[..*taken].contains(&b'/'))
            .any(|taken| oracle(rest, &text[taken..], false))
    }

    #[test]
    fn longer_patterns_than_the_longest_match_nothing() {
        let stars = "*a".repeat(MAX_PATTERN);
        assert!(!wildcard(stars.as_bytes(), "a".repeat(MAX_PATTERN).as_bytes()));
        let most = "*a".repeat(MAX_PATTERN / 2);
        assert!(wildcard(most.as_bytes(), "a".repeat(MAX_PATTERN).as_bytes()));
    }

    proptest! {
        #[test]
        fn wildcards_agree_with_their_definition(pattern in "[ab*/]{0,9}", text in "[ab/]{0,9}") {
            let expected = oracle(pattern.as_bytes(), text.as_bytes(), true);
            prop_assert_eq!(wildcard(pattern.as_bytes(), text.as_bytes()), expected);
        }
    }
}
