//! Rendering of values as text.

use serde_json::{Map, Value};

use crate::scalar::needs_quotes;

/// The indentation of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Indents {
    /// Columns between a key and the map below it.
    pub(crate) map: usize,
    /// Columns between a key and the dashes of the list below it; `kubectl` writes 0.
    pub(crate) list: usize,
    /// Columns between a dash and its item.
    pub(crate) item: usize,
}

impl Default for Indents {
    /// As `kubectl` writes it.
    fn default() -> Self {
        Self { map: 2, list: 0, item: 2 }
    }
}

/// The style of a flow collection.
#[derive(Clone, Debug)]
pub(crate) struct FlowStyle {
    /// Quote every key and string.
    pub(crate) json: bool,
    /// No blanks after `:` and `,`.
    pub(crate) compact: bool,
    /// One entry per line: the line break, the indentation of the collection's own line, and what each level adds.
    pub(crate) lines: Option<(&'static str, String, String)>,
}

impl FlowStyle {
    /// One line, quotes only where they are needed.
    pub(crate) const YAML: Self = Self { json: false, compact: false, lines: None };
}

/// Whether it is a list or map with entries.
pub(crate) fn is_filled(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => false,
    }
}

/// A string as a scalar: plain if every reader reads it as a string, else in double quotes.
pub fn string(text: &str, flow: bool) -> String {
    if needs_quotes(text, flow) { quoted(text) } else { text.to_owned() }
}

/// A string in double quotes, valid in JSON and YAML.
pub(crate) fn quoted(text: &str) -> String {
    let json = Value::String(text.to_owned()).to_string();
    let mut result = String::with_capacity(json.len());
    for c in json.chars() {
        // JSON allows these characters unescaped; YAML does not, or folds lines at them.
        if matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') {
            result.push_str("\\u");
            result
                .extend([12, 8, 4, 0].map(|shift| char::from_digit((u32::from(c) >> shift) & 0xf, 16).unwrap_or('0')));
        } else {
            result.push(c);
        }
    }
    result
}

/// A scalar or an empty collection in block context, or any value in flow style.
pub(crate) fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => string(text, false),
        other => flow(other, &FlowStyle::YAML),
    }
}

/// A value in flow style.
pub(crate) fn flow(value: &Value, style: &FlowStyle) -> String {
    let inner = FlowStyle {
        lines: style.lines.as_ref().map(|(end, indent, unit)| (*end, format!("{indent}{unit}"), unit.clone())),
        ..style.clone()
    };
    let wrap = |open: char, parts: &[String], close: char| match &style.lines {
        _ if parts.is_empty() => format!("{open}{close}"),
        Some((end, indent, unit)) => {
            let separator = format!(",{end}{indent}{unit}");
            format!("{open}{end}{indent}{unit}{}{end}{indent}{close}", parts.join(&separator))
        }
        None => format!("{open}{}{close}", parts.join(if style.compact { "," } else { ", " })),
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if style.json => quoted(text),
        Value::String(text) => string(text, true),
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().map(|item| flow(item, &inner)).collect();
            wrap('[', &parts, ']')
        }
        Value::Object(map) => {
            let colon = if style.compact { ":" } else { ": " };
            let parts: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}{colon}{}", flow_key(key, style), flow(value, &inner)))
                .collect();
            wrap('{', &parts, '}')
        }
    }
}

/// A key in flow style.
pub(crate) fn flow_key(key: &str, style: &FlowStyle) -> String {
    if style.json { quoted(key) } else { string(key, true) }
}

/// A value as a document in block style, as `kubectl get -o yaml` indents it.
pub fn document(value: &Value) -> String {
    let indents = Indents::default();
    let lines = match value {
        Value::Object(map) if !map.is_empty() => pairs(map, 0, indents),
        Value::Array(items) if !items.is_empty() => list(items, 0, indents),
        other => vec![inline(other)],
    };
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// The lines of a pair of a block map whose keys are at `column`.
pub(crate) fn pair(key: &str, value: &Value, column: usize, indents: Indents) -> Vec<String> {
    let head = format!("{}{}:", " ".repeat(column), string(key, false));
    if !is_filled(value) {
        return vec![format!("{head} {}", inline(value))];
    }
    let mut lines = vec![head];
    lines.extend(below(value, column, indents));
    lines
}

/// The lines of a filled list or map that is the value of a key at `column`.
pub(crate) fn below(value: &Value, column: usize, indents: Indents) -> Vec<String> {
    match value {
        Value::Object(map) => pairs(map, column + indents.map, indents),
        Value::Array(items) => list(items, column + indents.list, indents),
        _ => Vec::new(),
    }
}

/// The lines of an item of a block list whose dashes are at `column`.
pub(crate) fn item(value: &Value, column: usize, indents: Indents) -> Vec<String> {
    let pad = " ".repeat(column);
    let mut lines = match value {
        Value::Object(map) if !map.is_empty() => pairs(map, column + indents.item, indents),
        Value::Array(items) if !items.is_empty() => list(items, column + indents.item, indents),
        _ => return vec![format!("{pad}-{}{}", gap(indents), inline(value))],
    };
    if let Some(first) = lines.first_mut() {
        *first = format!("{pad}-{}{}", gap(indents), first.trim_start_matches(' '));
    }
    lines
}

/// The white space between a dash and its item.
fn gap(indents: Indents) -> String {
    " ".repeat(indents.item.saturating_sub(1).max(1))
}

fn pairs(map: &Map<String, Value>, column: usize, indents: Indents) -> Vec<String> {
    map.iter().flat_map(|(key, value)| pair(key, value, column, indents)).collect()
}

fn list(items: &[Value], column: usize, indents: Indents) -> Vec<String> {
    items.iter().flat_map(|value| item(value, column, indents)).collect()
}
