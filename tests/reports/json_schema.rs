//! Checks of the JSON Schema of a report.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// The schema of that file below `docs/schema`.
pub fn schema(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema").join(file);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The schema allows unknown members, because later versions of Mullion add some. Here they are errors.
pub fn strict(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(strict);
            if members.contains_key("properties") {
                let key = if members.contains_key("allOf") { "unevaluatedProperties" } else { "additionalProperties" };
                members.insert(key.to_owned(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

/// Every complaint of the validator, a line each.
pub fn complaints(validator: &jsonschema::Validator, json: &Value) -> Vec<String> {
    validator.iter_errors(json).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Each member of the report is of its type, and required unless it is one of `optional`. Members `opaque` may have any
/// members.
pub fn a_fault_anywhere_is_found(schema: &Value, json: &Value, optional: &[&str], opaque: &[&str]) {
    let validator = jsonschema::draft202012::new(schema).unwrap();
    assert!(validator.is_valid(json));
    let mut pointers = Vec::new();
    collect(json, "", opaque, &mut pointers);
    assert!(pointers.len() > 200);
    for pointer in pointers {
        let mut wrong = json.clone();
        *wrong.pointer_mut(&pointer).unwrap() = json!([[-1]]);
        assert!(!validator.is_valid(&wrong), "{pointer} may be anything");
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let mut wrong = json.clone();
        if let Some(members) = wrong.pointer_mut(parent).and_then(Value::as_object_mut) {
            members.remove(key);
            let optional = optional.contains(&key) || key == "namespace" && members.contains_key("name");
            assert!(optional || !validator.is_valid(&wrong), "{pointer} may be missing");
        }
    }
}

/// Pointers to every member; of lists, only those in the first two items.
fn collect(value: &Value, pointer: &str, opaque: &[&str], all: &mut Vec<String>) {
    if !pointer.is_empty() {
        all.push(pointer.to_owned());
    }
    match value {
        Value::Array(items) => {
            let items = items.iter().take(2).enumerate();
            items.for_each(|(at, item)| collect(item, &format!("{pointer}/{at}"), opaque, all));
        }
        Value::Object(members) if !pointer.rsplit('/').next().is_some_and(|key| opaque.contains(&key)) => {
            let members = members.iter();
            members.for_each(|(key, item)| collect(item, &format!("{pointer}/{key}"), opaque, all));
        }
        _ => {}
    }
}
