//! Text for messages: lists, lines of limited length, and the most similar of known words.

/// The API's advice for one warning (extensible-admission-controllers.md), in characters.
pub const WARNING_LIMIT: usize = 120;

/// The longest value of an audit annotation, in bytes: it is stored with every request's event, and an object can have
/// as many findings as fit into it.
pub const AUDIT_LIMIT: usize = 2_048;

/// The items with commas between them, as many as [`AUDIT_LIMIT`] bytes hold, and how many more there are.
pub fn listed(items: impl IntoIterator<Item = String>) -> String {
    // For the text about those that are left out.
    const REST: usize = 32;
    let mut text = String::new();
    let mut left_out = 0_usize;
    for item in items {
        if left_out > 0 || text.len() + item.len() + 2 > AUDIT_LIMIT - REST {
            left_out += 1;
            continue;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&item);
    }
    match left_out {
        0 => text,
        number if text.is_empty() => format!("{number} too long to be listed"),
        number => format!("{text}, and {number} more"),
    }
}

/// At most [`WARNING_LIMIT`] characters, without control characters: the server drops a warning that cannot be a
/// header.
pub(crate) fn shorten(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= WARNING_LIMIT {
        return clean;
    }
    let mut short: String = clean.chars().take(WARNING_LIMIT - 1).collect();
    short.push('…');
    short
}

/// A text for a message: one line, and no longer than fits there.
pub fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    shown
}

/// A sentence without what could move a terminal's cursor or end a log line.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The most similar of `known`: within a third of the text's length (at least 1 edit), letter case counting for little.
pub fn nearest<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // No key, word or rule is longer; nothing near can be.
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

/// As [`nearest`], and else the only one of which it is the beginning, or that is the larger part of its own: `Enf`, and
/// `added` for `add`, but `namespace` is no `name`. For keys and words, which are few.
pub fn nearest_word<'k>(text: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> Option<&'k str> {
    let begins = |known: &&str| {
        text.len() >= 3 && (known.starts_with(text) || (text.starts_with(known) && 2 * known.len() > text.len()))
    };
    nearest(text, known.clone()).or_else(|| {
        let mut begun = known.into_iter().filter(begins);
        begun.next().filter(|_| begun.next().is_none())
    })
}

/// Edits between two texts, neighbours swapped being one (optimal string alignment).
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
