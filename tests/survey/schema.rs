//! The JSON Schema of the report, against reports that have every member.

use std::fs;
use std::path::Path;

use mullion::report::survey::SurveyFormat;
use mullion_survey::report::SCHEMA;
use serde_json::{Value, json};

use crate::{fixtures, written};

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/survey-v1.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The schema allows members that it does not know, because later versions of Mullion add some. Here they are errors.
fn strict(value: &mut Value) {
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

#[test]
fn reports_are_valid_and_every_member_is_described() {
    let lenient = schema();
    assert!(jsonschema::draft202012::meta::is_valid(&lenient));
    assert_eq!(lenient["properties"]["schema"]["const"], SCHEMA);
    let mut strict_schema = lenient.clone();
    strict(&mut strict_schema);
    // A part of allOf is open; the whole is closed.
    for part in ["object", "finding"] {
        let part = strict_schema["$defs"][part].as_object_mut().unwrap();
        part.retain(|key, _| !["additionalProperties", "unevaluatedProperties"].contains(&key.as_str()));
    }
    strict_schema["properties"]["findings"]["items"]["unevaluatedProperties"] = json!(false);
    let validator = jsonschema::draft202012::new(&strict_schema).unwrap();
    let (mixed, earlier) = (fixtures::mixed(), fixtures::earlier());
    for (report, before) in
        [(&mixed, None), (&mixed, Some(&earlier)), (&earlier, Some(&mixed)), (&fixtures::empty(), None)]
    {
        let json: Value = serde_json::from_str(&written(report, before, SurveyFormat::Json)).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}

/// Each member is required, and of its type.
#[test]
fn a_fault_anywhere_is_found() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let json: Value =
        serde_json::from_str(&written(&fixtures::mixed(), Some(&fixtures::earlier()), SurveyFormat::Json)).unwrap();
    assert!(validator.is_valid(&json));
    let mut pointers = Vec::new();
    collect(&json, "", &mut pointers);
    assert!(pointers.len() > 200);
    for pointer in pointers {
        let mut wrong = json.clone();
        *wrong.pointer_mut(&pointer).unwrap() = json!([[-1]]);
        assert!(!validator.is_valid(&wrong), "{pointer} may be anything");
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let mut wrong = json.clone();
        if let Some(members) = wrong.pointer_mut(parent).and_then(Value::as_object_mut) {
            members.remove(key);
            let optional = key == "comparison" || key == "namespace" && members.contains_key("name");
            assert!(optional || !validator.is_valid(&wrong), "{pointer} may be missing");
        }
    }
}

/// Pointers to every member, of lists only in the first two items.
fn collect(value: &Value, pointer: &str, all: &mut Vec<String>) {
    if !pointer.is_empty() {
        all.push(pointer.to_owned());
    }
    match value {
        Value::Array(items) => {
            items.iter().take(2).enumerate().for_each(|(at, item)| collect(item, &format!("{pointer}/{at}"), all));
        }
        Value::Object(members) => {
            members.iter().for_each(|(key, item)| collect(item, &format!("{pointer}/{key}"), all));
        }
        _ => {}
    }
}
