//! The size of a response: the webhook's response is small whatever the object contains, the command line's response is
//! complete.
//!
//! An object of 3 MiB can have tens of thousands of findings. A person cannot read them in one message, and the API
//! server holds each response in memory, writes warnings into headers and stores audit annotations. So the webhook
//! prints the first of them, and how many more there are. Every finding still denies, repairs and counts.

use std::collections::BTreeSet;
use std::io;

use json_patch::PatchOperation;
use serde::Serialize;
use serde_json::Value;

use crate::model::text::{shorten_to_bytes, thousands};

/// The maximum number of findings that a denial, its causes or the warnings contain.
pub(crate) const MOST_FINDINGS: usize = 50;

/// The longest text about one finding, in bytes. An ordinary text has 100 to 300 bytes; some quote values of the
/// object.
pub(crate) const FINDING_LIMIT: usize = 1_024;

/// How many bytes a patch may have beyond those of the object. Base64 adds a third; together with at most 130 KiB of
/// texts, the response stays below 1 MiB plus 4/3 of the object.
pub(crate) const PATCH_ALLOWANCE: usize = 640 << 10;

/// A patch with fewer operations is not measured: each operation writes a few hundred bytes, or a value of about the
/// size that it has in the object.
pub(crate) const MEASURED_OPERATIONS: usize = 512;

/// How much of a review a response contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseSize {
    /// The response of the webhook.
    Limited,
    /// Every finding in full, and one operation for each edit.
    Full,
}

impl ResponseSize {
    /// The items to print, and how many more there are. If there are more than [`MOST_FINDINGS`], the first item of
    /// each rule comes first, so that one rule does not hide the others; `rule`: an item's rule.
    pub(crate) fn select<T>(self, items: Vec<T>, rule: impl Fn(&T) -> &'static str) -> (Vec<T>, usize) {
        let more = items.len().saturating_sub(MOST_FINDINGS);
        if self == Self::Full || more == 0 {
            return (items, 0);
        }
        let mut known = BTreeSet::new();
        let (mut selected, others): (Vec<T>, Vec<T>) = items.into_iter().partition(|item| known.insert(rule(item)));
        selected.extend(others);
        selected.truncate(MOST_FINDINGS);
        (selected, more)
    }

    /// The text about one finding.
    pub(crate) fn shorten(self, text: String) -> String {
        match self {
            Self::Limited => shorten_to_bytes(&text, FINDING_LIMIT),
            Self::Full => text,
        }
    }
}

/// The line in place of findings that are not printed; `None` if there are none.
pub(crate) fn line_for_more(more: usize) -> Option<String> {
    let noun = if more == 1 { "finding" } else { "findings" };
    (more > 0).then(|| format!("and {} more {noun}; `mullion check` prints all of them", thousands(more)))
}

/// Whether a response with the patch stays within the limit; see [`PATCH_ALLOWANCE`].
pub(crate) fn is_sendable(patch: &[PatchOperation], object: &Value) -> bool {
    patch.len() < MEASURED_OPERATIONS || json_bytes(patch) <= json_bytes(object) + PATCH_ALLOWANCE
}

/// How many bytes the value has as JSON.
fn json_bytes(value: &(impl Serialize + ?Sized)) -> usize {
    let mut counter = ByteCounter(0);
    // Serialization does not fail: the counter accepts everything, and every key of the values is a string.
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}

/// Counts the bytes that are written to it.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn each_rule_is_selected_before_a_second_finding_of_one() {
        let items = |many: usize| -> Vec<(&'static str, usize)> {
            let first = (0..many).map(|at| ("a", at));
            first.chain([("b", many), ("a", many + 1), ("c", many + 2)]).collect()
        };
        let select = |size: ResponseSize, many| size.select(items(many), |(rule, _)| rule);
        assert_eq!(select(ResponseSize::Limited, 47), (items(47), 0), "the order stays");
        assert_eq!(select(ResponseSize::Full, 8_000), (items(8_000), 0));
        let (selected, more) = select(ResponseSize::Limited, 8_000);
        assert_eq!((selected.len(), more), (MOST_FINDINGS, 8_003 - MOST_FINDINGS));
        assert_eq!(selected[..5], [("a", 0), ("b", 8_000), ("c", 8_002), ("a", 1), ("a", 2)]);
        assert_eq!(ResponseSize::Limited.select(Vec::<()>::new(), |()| "a"), (Vec::new(), 0));
    }

    #[test]
    fn more_than_the_limit_of_rules_are_cut_too() {
        let codes: Vec<&'static str> = crate::rules::catalogue().map(|rule| rule.code).collect();
        assert!(codes.len() > MOST_FINDINGS, "{}", codes.len());
        let (selected, more) = ResponseSize::Limited.select(codes.clone(), |code| code);
        assert_eq!((selected.as_slice(), more), (&codes[..MOST_FINDINGS], codes.len() - MOST_FINDINGS));
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let text = "é\n".repeat(1_000);
        let short = ResponseSize::Limited.shorten(text.clone());
        assert!(short.len() <= FINDING_LIMIT && short.ends_with('…') && !short.contains('\n'), "{short}");
        assert_eq!(ResponseSize::Full.shorten(text.clone()), text);
        assert_eq!(ResponseSize::Limited.shorten("a\nb".to_owned()), "a\\nb");
    }

    #[test]
    fn the_rest_is_counted() {
        assert_eq!(line_for_more(0), None);
        assert_eq!(line_for_more(1).unwrap(), "and 1 more finding; `mullion check` prints all of them");
        assert_eq!(line_for_more(7_950).unwrap(), "and 7,950 more findings; `mullion check` prints all of them");
    }

    #[test]
    fn patches_are_compared_with_the_object() {
        let patch = |operations: usize, value: &str| -> Vec<PatchOperation> {
            let one = json!({"op": "add", "path": "/a", "value": value});
            serde_json::from_value(Value::from(vec![one; operations])).unwrap()
        };
        let long = "x".repeat(PATCH_ALLOWANCE / MEASURED_OPERATIONS);
        assert!(is_sendable(&patch(MEASURED_OPERATIONS - 1, &long), &json!({})));
        assert!(is_sendable(&patch(MEASURED_OPERATIONS, "x"), &json!({})));
        assert!(!is_sendable(&patch(MEASURED_OPERATIONS, &long), &json!({})));
        assert!(is_sendable(&patch(MEASURED_OPERATIONS, &long), &json!({"a": "x".repeat(40_000)})));
        assert_eq!(json_bytes(&json!({"a": ["é\n", 1]})), r#"{"a":["é\n",1]}"#.len());
    }
}
