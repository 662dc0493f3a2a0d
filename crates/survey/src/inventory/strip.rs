//! Objects with only [the members that are kept](crate::inventory::kept_members): no report and no saved inventory can
//! contain another one.

use serde_json::{Map, Value};

use crate::inventory::kept_members::{Kept, KeptMember, RUNTIME_REASONS, TERMINATED};
use crate::inventory::kinds::kept_members_of;
use crate::inventory::reduced_texts::{Reduce, api_version, image, message};
use crate::messages::OMITTED;

/// The object with only what a survey reads; `None` for a kind that it does not read. Stripped again, it is the same.
pub(crate) fn strip(kind: &str, object: &Value) -> Option<Value> {
    let members = kept_members_of(kind)?;
    let mut kept = keep_members(members, object);
    if let Some(version) = object.get("apiVersion").and_then(Value::as_str) {
        kept.insert("apiVersion".to_owned(), api_version(version).into());
    }
    kept.insert("kind".to_owned(), kind.into());
    Some(Value::Object(kept))
}

fn keep_members(members: &[KeptMember], object: &Value) -> Map<String, Value> {
    let kept = members.iter().filter_map(|member| {
        let value = object.get(member.name).filter(|value| !value.is_null())?;
        Some((member.name.to_owned(), keep(&member.kept, value)))
    });
    kept.collect()
}

fn keep(kept: &Kept, value: &Value) -> Value {
    match (kept, value) {
        (_, Value::Null) => Value::Null,
        (Kept::Number | Kept::Text(_), Value::Number(_) | Value::Bool(_)) | (Kept::Name, Value::String(_)) => {
            value.clone()
        }
        (Kept::Text(reduce), Value::String(text)) => reduce(text).into(),
        (Kept::List(reduce), Value::Array(_)) => reduce(value),
        (Kept::Object(members), Value::Object(_)) => keep_members(members, value).into(),
        (Kept::Closed(members), Value::Object(all)) => {
            let mut kept = keep_members(members, value);
            if all.keys().any(|key| members.iter().all(|member| member.name != key)) {
                kept.insert(OMITTED.to_owned(), Value::Null);
            }
            kept.into()
        }
        (Kept::Items(item), Value::Array(items)) => items.iter().map(|value| keep(item, value)).collect(),
        (Kept::Map(of), Value::Object(all)) => {
            all.iter().map(|(key, value)| (key.clone(), keep(of, value))).collect::<Map<_, _>>().into()
        }
        (Kept::ByImage(of), Value::Object(all)) => {
            all.iter().map(|(key, value)| (image(key), keep(of, value))).collect::<Map<_, _>>().into()
        }
        (Kept::Annotations(known), Value::Object(all)) => keep_annotations(known, all).into(),
        (Kept::Conditions(types, members), Value::Array(all)) => {
            let is_read = |condition: &&Value| {
                condition.get("type").and_then(Value::as_str).is_some_and(|text| types.contains(&text))
            };
            let read = all.iter().filter(is_read).take(types.len());
            read.map(|condition| keep_members(members, condition).into()).collect::<Vec<Value>>().into()
        }
        (Kept::Terminated, Value::Object(_)) => keep_terminated(value).into(),
        _ => empty(value),
    }
}

/// A value of the same type without content.
fn empty(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => false.into(),
        Value::Number(_) => 0.into(),
        Value::String(_) => "".into(),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Object(_) => Map::new().into(),
    }
}

fn keep_annotations(known: &[(&str, Reduce)], all: &Map<String, Value>) -> Map<String, Value> {
    let kept = all.iter().filter_map(|(key, value)| {
        let is_it = |known: &str| known == key || (known.ends_with('/') && key.starts_with(known));
        let (_, reduce) = known.iter().find(|(known, _)| is_it(known))?;
        Some((key.clone(), keep(&Kept::Text(*reduce), value)))
    });
    kept.collect()
}

fn keep_terminated(ended: &Value) -> Map<String, Value> {
    let mut kept = keep_members(TERMINATED, ended);
    // The API server prints the zero time as null: the container never started.
    if ended.get("startedAt").is_some_and(Value::is_null) {
        kept.insert("startedAt".to_owned(), "".into());
    }
    let by_runtime =
        ended.get("reason").and_then(Value::as_str).is_some_and(|reason| RUNTIME_REASONS.contains(&reason));
    if let Some(text) = ended.get("message").and_then(Value::as_str).filter(|_| by_runtime) {
        kept.insert("message".to_owned(), message(text).into());
    }
    kept
}
