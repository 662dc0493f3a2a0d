//! Members that the webhook does not parse change no review.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use mullion_engine::admission::Review;
use mullion_engine::model::names::CONTAINER_LISTS;
use mullion_engine::model::pod_view::is_unread;
use mullion_engine::model::{Operation, WorkloadKind};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties::{any_workload, generated};
use crate::support::*;

/// The object as the webhook parses it for that operation.
fn stripped(value: &Value, operation: Operation, parent: &str) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| stripped(item, operation, parent)).collect(),
        Value::Object(members) => {
            let read = members.iter().filter(|(name, _)| !is_unread(operation, parent, name));
            Value::Object(read.map(|(name, value)| (name.clone(), stripped(value, operation, name))).collect())
        }
        _ => value.clone(),
    }
}

/// The same with unread members that would matter to many rules.
fn with_unread_members(value: &Value, parent: &str) -> Value {
    let odd =
        json!([{"name": "C:\\a", "value": "mcr.microsoft.com/windows/servercore:ltsc2019", "mountPath": "/dev/a"}]);
    let Value::Object(members) = value else {
        let Value::Array(items) = value else { return value.clone() };
        return items.iter().map(|item| with_unread_members(item, parent)).collect();
    };
    let mut members: serde_json::Map<_, _> =
        members.iter().map(|(name, value)| (name.clone(), with_unread_members(value, name))).collect();
    if CONTAINER_LISTS.contains(&parent) {
        members.extend([("env".to_owned(), odd.clone()), ("envFrom".to_owned(), odd)]);
    } else if parent.is_empty() {
        members.insert("status".to_owned(), json!({"phase": "Running", "hostIP": "10.0.0.1", "conditions": odd}));
    } else if parent == "fieldsV1" {
        members.insert("f:spec".to_owned(), json!({"f:annotations": {"f:mullion.dev/decision": {}}}));
    }
    Value::Object(members)
}

/// The whole result of a review, without the settings that it repeats.
fn result(outcome: Outcome) -> impl PartialEq + Debug {
    let Outcome { review, mutate, validate, stored: _ } = outcome;
    let Review {
        settings: _,
        category,
        decision,
        no_default,
        findings,
        changes,
        wanted,
        hint,
        left_out,
        namespace_unknown,
        unusable,
    } = review;
    (
        (category, decision, no_default, findings, changes, wanted, hint, left_out, namespace_unknown, unusable),
        mutate,
        validate,
    )
}

fn reviewed(operation: Operation, object: &Value, old: Option<&Value>) -> impl PartialEq + Debug + use<> {
    result(outcome(operation, object, old, &snapshot(), &PolicySet::default()))
}

/// Reviews the object as it is, without its unread members and with more of them: when it is created, and when it replaces
/// its own stored version, with its template changed or not.
fn assert_unread(whole: &Value) {
    let more = with_unread_members(whole, "");
    let expected = reviewed(Operation::Create, whole, None);
    assert_eq!(reviewed(Operation::Create, &more, None), expected);
    assert_eq!(reviewed(Operation::Create, &stripped(whole, Operation::Create, ""), None), expected);
    assert_eq!(stripped(&more, Operation::Create, ""), stripped(whole, Operation::Create, ""));
    let old = create(&more).stored;
    let kind = WorkloadKind::from_name(whole["kind"].as_str().unwrap()).unwrap();
    let mut changed = more.clone();
    if let Some(Value::Object(template)) = changed.pointer_mut(kind.pod_pointer()) {
        template.insert("metadata".to_owned(), json!({"labels": {"changed": "true"}}));
    }
    for new in [more, changed] {
        let [few, few_old] = [&new, &old].map(|object| stripped(object, Operation::Update, ""));
        let expected = reviewed(Operation::Update, &new, Some(&old));
        assert_eq!(reviewed(Operation::Update, &few, Some(&few_old)), expected);
    }
}

/// Every workload anywhere in `value`.
fn workloads<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    if text("apiVersion").zip(text("kind")).and_then(|(group, kind)| WorkloadKind::of_object(group, kind)).is_some() {
        found.push(value);
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| workloads(item, found)),
        Value::Object(members) => members.values().for_each(|value| workloads(value, found)),
        _ => {}
    }
}

#[test]
fn no_case_depends_on_unread_members() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let mut open: Vec<PathBuf> = vec![root.join("cases"), root.join("rules")];
    let (mut cases, mut rules) = (0, 0);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end == "yaml") {
            for document in mullion_manifest::documents("t.yaml", &fs::read_to_string(&path).unwrap()) {
                // Some cases contain invalid YAML.
                let Ok(document) = document else { continue };
                let mut found = Vec::new();
                workloads(&document.json, &mut found);
                for object in &found {
                    assert_unread(object);
                }
                *(if path.starts_with(root.join("cases")) { &mut cases } else { &mut rules }) += found.len();
            }
        }
    }
    assert!(cases > 300 && rules > 100, "{cases} in cases, {rules} of rules");
}

proptest! {
    #[test]
    fn no_pod_depends_on_unread_members(object in prop_oneof![any_workload(), generated()]) {
        assert_unread(&object);
    }
}
