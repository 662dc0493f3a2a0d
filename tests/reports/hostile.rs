//! Texts of a cluster that a format could interpret as markup, a formula or a command.

use serde_json::Value;

/// Texts that some format could interpret as something else.
pub const HOSTILE: [&str; 12] = [
    "<img src=x onerror=alert(1)>",
    "</script><script>document.title='owned'</script>",
    "<!--",
    "\"><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "`${alert(1)}`",
    "=HYPERLINK(\"https://evil.example\")",
    "[x](javascript:alert(1)) | a | b |",
    "\u{1b}[2J\u{1b}]0;owned\u{7}",
    "a\u{2028}b\u{2029}c\u{202e}d",
    "javascript:alert(1)",
    "]]></style><base href=//evil.example>",
];

/// Replaces every text, except those of the members `kept`.
pub fn replace(value: &mut Value, key: &str, kept: &[&str], with: &mut impl FnMut(&str) -> String) {
    match value {
        Value::String(text) if !kept.contains(&key) => *text = with(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, key, kept, with)),
        Value::Object(members) => {
            let deadline = members.contains_key("asOf");
            for (key, value) in members {
                // The source of a date is text, that of a report is one of two words.
                replace(value, if deadline && key == "source" { "text" } else { key }, kept, with);
            }
        }
        _ => {}
    }
}

/// A line of Markdown without code: a run of backticks begins it, and the next run of the same length ends it.
pub fn outside_code(line: &str) -> String {
    let mut outside = String::new();
    let mut rest = line;
    while let Some(begin) = rest.find('`') {
        let (before, code) = rest.split_at(begin);
        outside.push_str(before);
        let escaped = before.ends_with('\\');
        let fence = code.len() - code.trim_start_matches('`').len();
        let (fence, code) = code.split_at(if escaped { 1 } else { fence });
        let mut runs = code
            .match_indices(fence)
            .filter(|(at, run)| !code[..*at].ends_with('`') && !code[at + run.len()..].starts_with('`'));
        rest = match runs.next() {
            Some((end, run)) if !escaped => &code[end + run.len()..],
            _ => code,
        };
    }
    outside + rest
}

/// The number of cells of a line of a table in Markdown, which is that of the table's header; `None` for another line.
pub fn table_cells(line: &str, header: Option<usize>) -> Option<usize> {
    // Cells are separated by signs without a backslash before them.
    let cells = line.starts_with('|').then(|| line.replace("\\|", "").matches('|').count())?;
    assert_eq!(cells, header.unwrap_or(cells), "{line}");
    Some(cells)
}
