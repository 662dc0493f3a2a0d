//! Text for messages: lists, counts, text of limited length, and the most similar of known words.

use std::fmt::Display;

use serde_json::Value;

use crate::model::foreign_text::visible;

/// How much of an author's text a message quotes, in characters.
const QUOTED: usize = 60;

/// `a, b, c`.
pub fn list(items: impl IntoIterator<Item: Display>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// `a`, `a or b`, `a, b or c`; `last`: the word before the last one.
pub fn list_with(items: impl IntoIterator<Item: Display>, last: &str) -> String {
    let mut items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.pop() {
        Some(end) if !items.is_empty() => format!("{} {last} {end}", items.join(", ")),
        end => end.unwrap_or_default(),
    }
}

/// `a, b and 1,204 more`: the first `most` items.
pub fn list_first(items: &[impl Display], most: usize) -> String {
    let text = list(items.iter().take(most));
    match items.len().saturating_sub(most) {
        0 => text,
        more => format!("{text} and {} more", thousands(more)),
    }
}

/// `a and b`, `a, b and 3 others`: the first `most` items.
pub fn list_with_others(items: &[impl Display], most: usize) -> String {
    let more = items.len().saturating_sub(most);
    let named = items.iter().take(most).map(ToString::to_string);
    list_with(named.chain((more > 0).then(|| counted(more, "other"))), "and")
}

/// `a, b, and 3 more`: as many of `count` items as fit into `bytes`, and of the first one as much as fits. Items that
/// do not fit are not rendered.
pub fn list_within(items: impl IntoIterator<Item: Display>, count: usize, separator: &str, bytes: usize) -> String {
    let text_for_more = |more: usize| if more > 0 { format!("{separator}and {more} more") } else { String::new() };
    let mut text = String::new();
    // How many items are followed by enough room to say how many more there are, and where the last of them ends.
    let (mut listed, mut end) = (0, 0);
    for (at, item) in items.into_iter().enumerate() {
        let between = if at == 0 { "" } else { separator };
        text.push_str(between);
        text.push_str(&item.to_string());
        if text.len() + text_for_more(count.saturating_sub(at + 1)).len() <= bytes {
            (listed, end) = (at + 1, text.len());
        } else if text.len() > bytes {
            break;
        }
    }
    if text.len() <= bytes {
        return text;
    }
    let more = text_for_more(count.saturating_sub(listed.max(1)));
    if listed == 0 {
        end = prefix(&text, bytes.saturating_sub(more.len() + "…".len())).len();
    }
    text.truncate(end);
    if listed == 0 {
        text.push('…');
    }
    text + &more
}

/// `1 node`, `2 nodes`, `2 policies`, `2 days`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("{count} {what}") } else { format!("{count} {}", plural(what)) }
}

/// `pods` for `pod`, `policies` for `policy`.
pub fn plural(what: &str) -> String {
    match what.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u'])) {
        Some(stem) => format!("{stem}ies"),
        None => format!("{what}s"),
    }
}

/// `1,204`.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The text with its first letter in upper case.
pub fn upper_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The text with its first letter in lower case.
pub fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// At most `most` characters of the [visible] text, the last of them `…` if it is cut.
pub fn shorten(text: &str, most: usize) -> String {
    // The text may be much longer than what is shown of it.
    let mut short = match text.char_indices().nth(most.saturating_add(1)) {
        Some((end, _)) => visible(text.get(..end).unwrap_or_default()),
        None => visible(text),
    }
    .into_owned();
    if let Some((end, _)) = short.char_indices().nth(most) {
        short.truncate(end);
        short.pop();
        short.push('…');
    }
    short
}

/// At most `bytes` bytes of the [visible] text, `…` at the end if it is cut.
pub(crate) fn shorten_to_bytes(text: &str, bytes: usize) -> String {
    let shown = visible(prefix(text, bytes));
    if text.len() <= bytes && shown.len() <= bytes {
        return shown.into_owned();
    }
    format!("{}…", prefix(&shown, bytes.saturating_sub("…".len())))
}

/// The longest prefix within that number of bytes.
pub fn prefix(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// `text` without `prefix`, ignoring case.
pub(crate) fn strip_word<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// A value for people: text without quotes, everything else as JSON.
pub fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// An author's text in the form in which a message quotes it: [visible] and shortened.
pub fn shown(text: &str) -> String {
    let cut = text.char_indices().nth(QUOTED).map(|(end, _)| end);
    let mut shown = visible(cut.and_then(|end| text.get(..end)).unwrap_or(text)).into_owned();
    if cut.is_some() {
        shown.push('…');
    }
    shown
}

/// `shop/web`; without a namespace, `web`.
pub fn full_name(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The most similar of the `known` texts: at most a third of the text's length in edits (at least 1 edit); letter case
/// counts little.
pub fn nearest<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // No key, word or rule is longer.
    if text.len() > 64 {
        return None;
    }
    let limit = (text.chars().count() / 3).max(1) * 2;
    let distance = |known: &str| {
        let exact = usize::from(text != known);
        edits(&text.to_lowercase(), &known.to_lowercase()) * 2 + exact
    };
    known
        .into_iter()
        .map(|known| (distance(known), known))
        .filter(|(d, _)| *d <= limit + 1)
        .min_by_key(|(d, _)| *d)
        .map(|(_, known)| known)
}

/// Does the same as [`nearest`]; otherwise returns the only known word that starts with the text, or with which the
/// text starts if that is the larger part of it: `Enf`, and `added` for `add`, but not `namespace` for `name`. For keys
/// and words, which are few.
pub fn nearest_word<'k>(text: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> Option<&'k str> {
    let begins = |known: &&str| {
        text.len() >= 3 && (known.starts_with(text) || (text.starts_with(known) && 2 * known.len() > text.len()))
    };
    nearest(text, known.clone()).or_else(|| {
        let mut begun = known.into_iter().filter(begins);
        begun.next().filter(|_| begun.next().is_none())
    })
}

/// Edits between two texts; swapped neighbors count as one edit (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    for (at, left) in a.chars().enumerate() {
        let mut next = vec![at + 1];
        for (column, right) in b.iter().enumerate() {
            let get = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
            let mut best = (get(&row, column) + usize::from(left != *right))
                .min(get(&row, column + 1) + 1)
                .min(get(&next, column) + 1);
            let previous = column.checked_sub(1).and_then(|column| b.get(column));
            if last == Some(*right) && previous == Some(&left) {
                best = best.min(get(&before, column - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
        last = Some(left);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_name_what_fits() {
        let names = |count: usize| (0..count).map(|at| format!("n{at}")).collect::<Vec<_>>();
        assert_eq!((list(names(0)), list(names(3))), (String::new(), "n0, n1, n2".to_owned()));
        let with_or = [0, 1, 2, 3].map(|count| list_with(names(count), "or"));
        assert_eq!(with_or, ["", "n0", "n0 or n1", "n0, n1 or n2"]);
        let first = [2, 3, 1_206].map(|count| list_first(&names(count), 2));
        assert_eq!(first, ["n0, n1", "n0, n1 and 1 more", "n0, n1 and 1,204 more"]);
        for (count, bytes, expected) in [
            (4, 14, "n0; n1; n2; n3"),
            (9, 19, "n0; n1; and 7 more"),
            (4, 13, "…; and 3 more"),
            (4, 15, "n0; n1; n2; n3"),
            (1, 2, "n0"),
            (0, 0, ""),
        ] {
            assert_eq!(list_within(names(count), count, "; ", bytes), expected, "{count} in {bytes}");
        }
        assert_eq!(list_within(["épée"], 1, "; ", 5), "é…");
    }

    #[test]
    fn items_that_do_not_fit_are_not_rendered() {
        let mut rendered = 0;
        let items = (0..1_000_000).map(|at| {
            rendered += 1;
            format!("item {at}")
        });
        assert_eq!(list_within(items, 1_000_000, ", ", 40), "item 0, item 1, item 2, and 999997 more");
        assert!(rendered < 10, "{rendered}");
    }

    proptest! {
        #[test]
        fn as_many_items_are_listed_as_fit(
            items in prop::collection::vec("[a-z\u{e9}]{0,12}", 0..12),
            separator in "[,; ]{1,3}",
            bytes in 24_usize..90,
        ) {
            let text = list_within(&items, items.len(), &separator, bytes);
            let with_more = |listed: usize| {
                let more = items.len() - listed;
                format!("{}{separator}and {more} more", items[..listed].join(&separator))
            };
            let all = items.join(&separator);
            let expected = if all.len() <= bytes {
                all
            } else {
                let most = (1..items.len()).rev().find(|listed| with_more(*listed).len() <= bytes);
                most.map_or_else(|| text.clone(), with_more)
            };
            prop_assert_eq!(&text, &expected);
            prop_assert!(text.len() <= bytes, "{} bytes", text.len());
        }
    }

    #[test]
    fn counts_agree_with_their_noun() {
        assert_eq!(
            [(1, "node"), (2, "node"), (2, "policy"), (2, "day")].map(|(count, what)| counted(count, what)),
            ["1 node", "2 nodes", "2 policies", "2 days"]
        );
        assert_eq!([0, 999, 1_204, 1_234_567].map(thousands), ["0", "999", "1,204", "1,234,567"]);
    }

    #[test]
    fn text_is_cut_between_characters() {
        for (text, expected) in [("", ""), ("épée", "épée"), ("épées", "épé…"), ("a\nb", "a\\nb"), ("\n\n\n", "\\n\\…")]
        {
            assert_eq!(shorten(text, 4), expected);
        }
        assert_eq!([0, 1, 2, 3, 9].map(|bytes| prefix("aéb", bytes)), ["", "a", "a", "aé", "aéb"]);
        for (text, bytes, expected) in
            [("aéb", 4, "aéb"), ("aébc", 4, "a…"), ("éééé", 6, "é…"), ("a\nb", 9, "a\\nb"), ("\n\n\n", 5, "\\n…")]
        {
            assert_eq!(shorten_to_bytes(text, bytes), expected);
        }
        assert_eq!(shown("a\n\u{1b}"), "a\\n\\u{1b}");
        assert_eq!(shown(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}
