//! Whether there is at least what is expected: the rules of `stored` and `is`.

use std::fmt;

use serde_json::{Map, Value};

/// One place where it is not as expected.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// As people write it: `spec.containers[0].image`.
    pub path: String,
    pub expected: String,
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected, found } = self;
        write!(f, "{}: expected {expected}, found {found}", if path.is_empty() { "the whole" } else { path })
    }
}

/// Every place where `actual` lacks something that `expected` has; empty if it has it all.
pub fn mismatches(expected: &Value, actual: Option<&Value>) -> Vec<Mismatch> {
    let mut all = Vec::new();
    compare(expected, actual, "", &mut all);
    all
}

/// A key below a path.
pub fn below(at: &str, key: &str) -> String {
    let plain = !key.contains(['.', '/', '[']);
    match (plain, at.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{at}.{key}"),
        (false, _) => format!("{at}[{key}]"),
    }
}

fn compare(expected: &Value, actual: Option<&Value>, at: &str, all: &mut Vec<Mismatch>) {
    let mut miss = |expected: String| {
        let found = actual.map_or_else(|| "nothing".to_owned(), short);
        all.push(Mismatch { path: at.to_owned(), expected, found });
    };
    match (expected, actual) {
        (Value::Null, None | Some(Value::Null)) => {}
        (Value::Null, Some(_)) => miss("nothing".to_owned()),
        (Value::Object(wanted), Some(Value::Object(there))) => members(wanted, there, at, all),
        (Value::Object(wanted), None) if only_absences(wanted) => {}
        (Value::Array(wanted), Some(Value::Array(there))) if wanted.len() == there.len() => {
            for (index, (wanted, there)) in wanted.iter().zip(there).enumerate() {
                compare(wanted, Some(there), &format!("{at}[{index}]"), all);
            }
        }
        (Value::Array(wanted), Some(Value::Array(there))) => {
            let entries = |count: usize| format!("{count} {}", if count == 1 { "entry" } else { "entries" });
            miss(format!("{} {}", entries(wanted.len()), short(expected)));
            if let Some(last) = all.last_mut() {
                last.found = format!("{} {}", entries(there.len()), last.found);
            }
        }
        (wanted, Some(there)) if wanted == there => {}
        (wanted, _) => miss(short(wanted)),
    }
}

/// A map of nothing but what must be absent holds where the map itself is absent.
fn only_absences(wanted: &Map<String, Value>) -> bool {
    !wanted.is_empty()
        && wanted.iter().all(|(key, value)| match value {
            Value::Null => true,
            Value::Object(inner) => only_absences(inner),
            _ => key.ends_with('-'),
        })
}

fn members(wanted: &Map<String, Value>, there: &Map<String, Value>, at: &str, all: &mut Vec<Mismatch>) {
    for (key, wanted) in wanted {
        let (listed, has) = match (key.strip_suffix('+'), key.strip_suffix('-'), wanted) {
            (Some(key), _, Value::Array(entries)) => (Some((key, entries)), true),
            (_, Some(key), Value::Array(entries)) => (Some((key, entries)), false),
            _ => (None, true),
        };
        let Some((key, entries)) = listed else {
            compare(wanted, there.get(key), &below(at, key), all);
            continue;
        };
        let list = there.get(key);
        let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for entry in entries {
            if items.iter().any(|item| mismatches(entry, Some(item)).is_empty()) != has {
                let expected = format!("{} {}", if has { "an entry" } else { "no entry" }, short(entry));
                let found = list.map_or_else(|| "nothing".to_owned(), short);
                all.push(Mismatch { path: below(at, key), expected, found });
            }
        }
    }
}

/// A value in so many words that a person still reads them.
pub fn short(value: &Value) -> String {
    const MOST: usize = 600;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
