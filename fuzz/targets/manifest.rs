//! YAML and JSON text. The first two bytes choose an edit, the rest is the text.

use json_patch::PatchOperation;
use mullion_manifest::edit::text_patch::apply;
use mullion_manifest::{
    LineIndex, ManifestDocument, ManifestNode, NodeValue, Span, documents, documents_from_bytes, objects,
};
use serde_json::{Value, json};

use super::Meter;
use super::input::Input;

/// Bytes of memory for each byte of text: a tree of places, and one of values.
const MEMORY: usize = 2_000;
/// Bytes of memory beside it.
const FIXED: usize = 64 << 10;

pub fn run(bytes: &[u8], meter: &dyn Meter) {
    let mut input = Input::of(bytes);
    let (place, kind) = (input.byte(), input.byte());
    let bytes = input.rest();
    let mut read = Vec::new();
    let peak = meter.peak_of(&mut || read = documents_from_bytes("f", bytes));
    assert!(peak <= FIXED + MEMORY * bytes.len(), "{peak} bytes of memory for {} bytes", bytes.len());
    let Ok(text) = std::str::from_utf8(bytes) else {
        assert!(read.iter().all(Result::is_err));
        return;
    };
    let lines = LineIndex::new(text);
    for problem in read.iter().filter_map(|one| one.as_ref().err()) {
        check_span(text, problem.span);
        assert_eq!((problem.line, problem.column), lines_of(&lines, problem.span), "{problem}");
    }
    let all: Vec<Option<&ManifestDocument>> = read.iter().map(|one| one.as_ref().ok()).collect();
    for (index, document) in all.iter().enumerate().filter_map(|(index, one)| Some((index, (*one)?))) {
        check_span(text, document.span);
        check_node(text, &document.node, document.span);
        assert_eq!(document.node.to_json(), document.json);
        for object in objects(document).into_iter().flatten() {
            assert!(document.json.pointer(&object.pointer_prefix).is_some());
        }
        check_edit(text, &all, index, place, kind);
    }
}

fn lines_of(lines: &LineIndex<'_>, span: Span) -> (usize, usize) {
    let place = lines.line_column(span.start);
    (place.line, place.column)
}

fn check_span(text: &str, span: Span) {
    assert!(text.get(span.range()).is_some(), "{span:?} is not in the text");
}

fn check_node(text: &str, node: &ManifestNode, around: Span) {
    check_span(text, node.span);
    assert!(around.start <= node.span.start && node.span.end <= around.end, "{:?} outside of {around:?}", node.span);
    match &node.value {
        NodeValue::Map(entries) => {
            for entry in entries {
                check_span(text, entry.key_span);
                check_node(text, &entry.value, around);
            }
        }
        NodeValue::List(items) => items.iter().for_each(|item| check_node(text, item, around)),
        _ => {}
    }
}

/// An edit of one document changes its values as `json_patch` does, and nothing else in the file.
fn check_edit(text: &str, all: &[Option<&ManifestDocument>], index: usize, place: u8, kind: u8) {
    let Some(document) = all.get(index).copied().flatten() else { return };
    let Some(operation) = operation(&document.json, place, kind) else { return };
    let mut expected = document.json.clone();
    if json_patch::patch(&mut expected, std::slice::from_ref(&operation)).is_err() {
        return;
    }
    let Ok(edited) = apply(text, document, std::slice::from_ref(&operation), "") else { return };
    let (before, after) = (text.get(..document.span.start), text.get(document.span.end..));
    assert!(before.is_some_and(|before| edited.starts_with(before)), "{operation} changes what is before the document");
    assert!(after.is_some_and(|after| edited.ends_with(after)), "{operation} changes what is after the document");
    let read = documents("f", &edited);
    assert_eq!(read.len(), all.len(), "{operation}: {text:?} → {edited:?}");
    for (at, (old, new)) in all.iter().zip(&read).enumerate() {
        let old = if at == index { Some(&expected) } else { old.map(|document| &document.json) };
        let new = new.as_ref().ok().map(|document| &document.json);
        assert!(is_same(old, new), "{operation}: document {at} is {new:?}, not {old:?}: {text:?} → {edited:?}");
    }
}

/// `1` and `1.0` are one number; the text may contain either.
fn is_same(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (Some(Value::Number(old)), Some(Value::Number(new))) => old == new || old.as_f64() == new.as_f64(),
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| is_same(Some(old), Some(new)))
        }
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            old.len() == new.len() && old.iter().all(|(key, old)| is_same(Some(old), new.get(key)))
        }
        _ => old == new,
    }
}

fn operation(json: &Value, place: u8, kind: u8) -> Option<PatchOperation> {
    let mut places = Vec::new();
    pointers(json, String::new(), &mut places);
    let (pointer, at) = places.get(usize::from(place) % places.len().max(1))?;
    let values = [
        json!("x"),
        json!(null),
        json!(true),
        json!(7),
        json!({"a": ["b", {"c": "d: e"}]}),
        json!([]),
        json!("\n é\"'"),
    ];
    let value = values.get(usize::from(kind >> 2) % values.len())?;
    let operation = match (kind & 3, at) {
        (0, _) => json!({"op": "remove", "path": pointer}),
        (1, _) => json!({"op": "replace", "path": pointer, "value": value}),
        (2, Value::Array(_)) => json!({"op": "add", "path": format!("{pointer}/-"), "value": value}),
        (2, Value::Object(_)) => json!({"op": "add", "path": format!("{pointer}/kubernetes.io~1os"), "value": value}),
        (_, Value::Array(_)) => json!({"op": "add", "path": format!("{pointer}/0"), "value": value}),
        (_, Value::Object(_)) => json!({"op": "add", "path": format!("{pointer}/yes"), "value": value}),
        _ => return None,
    };
    serde_json::from_value(operation).ok()
}

/// At most 256 places, in order of the text.
fn pointers<'v>(value: &'v Value, at: String, places: &mut Vec<(String, &'v Value)>) {
    if places.len() >= 256 {
        return;
    }
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                pointers(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointers(value, format!("{at}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push((at, value));
}
