//! Tests of the rows of the schema against the fields that they set and the words of these fields.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use mullion_engine::model::settings::Mode;
use mullion_manifest::documents;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::*;
use crate::policy_set::PolicySet;
use crate::schema::SchemaWord;

/// The names of the rows under `above` that set no field.
fn without_a_field(object: &'static SchemaObject, above: &str) -> Vec<String> {
    let of_row = |row: &'static SchemaKey| {
        let name = format!("{above}{}", row.name);
        match &row.shape {
            _ if row.settings.is_some() || row.node_settings.is_some() => Vec::new(),
            ValueShape::Object(below) => without_a_field(below, &format!("{name}.")),
            _ => vec![name],
        }
    };
    object.keys.iter().flat_map(of_row).collect()
}

/// Each field has one row that sets it, and each row a field.
fn compare<T: Default + Serialize>(keys: &[PolicyKey<T>], spec: &'static SchemaObject) {
    // Structs are maps in snake case or camel case.
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let default = serde_json::to_value(T::default()).unwrap();
    for field in default.as_object().unwrap().keys() {
        let rows = keys.iter().filter(|key| plain(key.field.name) == plain(field));
        assert_eq!(rows.count(), 1, "rows that set field {field}");
    }
    let mut rows = without_a_field(spec, "");
    rows.retain(|name| !["priority", "until"].contains(&name.as_str()) && !name.starts_with("match."));
    assert_eq!(rows, [""; 0], "rows that set no field");
}

#[test]
fn each_field_of_the_settings_has_one_row() {
    compare(&POD_KEYS, &POD_SPEC);
    compare(&NODE_KEYS, &NODE_SPEC);
}

/// Values of a shape with a wrong word, and the allowed words.
fn wrong_words(shape: &'static ValueShape) -> Vec<(Value, &'static [SchemaWord])> {
    match shape {
        ValueShape::Word(words) => vec![(json!("wrong"), words)],
        ValueShape::List(item) => wrong_words(item).into_iter().map(|(value, words)| (json!([value]), words)).collect(),
        ValueShape::Object(object) => {
            let required: Map<_, _> =
                object.keys.iter().filter(|row| row.required).map(|row| (row.name.to_owned(), json!("x"))).collect();
            let of_row = |row: &'static SchemaKey| {
                let required = required.clone();
                wrong_words(&row.shape).into_iter().map(move |(value, words)| {
                    let mut map = required.clone();
                    map.insert(row.name.to_owned(), value);
                    (Value::Object(map), words)
                })
            };
            object.keys.iter().flat_map(of_row).collect()
        }
        _ => Vec::new(),
    }
}

/// Compares the words of each row with those of its field, from the error of serde for another word.
fn compare_words<T: Default>(keys: &[PolicyKey<T>]) -> usize {
    let mut compared = 0;
    for key in keys {
        for (value, words) in wrong_words(&key.row.shape) {
            let node = documents("", &value.to_string()).remove(0).unwrap().node;
            let place = |_: &ManifestNode| Origin { file: "".into(), line: 1 };
            // Effects and operators of Kubernetes are text.
            let Err(error) = (key.field.read)(&mut T::default(), &node, &place) else { continue };
            let error = error.to_string();
            let (_, taken) = error.split_once(", expected").unwrap_or_else(|| panic!("{}: {error}", key.name));
            let taken: BTreeSet<&str> = taken.split('`').skip(1).step_by(2).collect();
            assert_eq!(words.iter().map(|word| word.word).collect::<BTreeSet<_>>(), taken, "{}", key.name);
            compared += 1;
        }
    }
    compared
}

#[test]
fn words_are_those_that_the_field_takes() {
    assert!(compare_words(&POD_KEYS) > 13 && compare_words(&NODE_KEYS) > 3);
}

/// A copy of every key makes the settings equal.
#[test]
fn keys_are_copied() {
    let set = |text: &str| PolicySet::from_files(&[("a.yaml", text)]).unwrap();
    let strict = set(include_str!("../../../../../policies/strict.yaml"));
    let audit = set(include_str!("../../../../../policies/audit.yaml"));
    let (from, mut to) = (strict.settings("a", None, &()), Settings::clone(&audit.settings("a", None, &())));
    assert_eq!((to.mode, from.mode), (Mode::Audit, Mode::Enforce));
    for key in POD_KEYS.iter() {
        (key.field.take)(&mut to, &from);
        assert_eq!((key.field.value)(&to), (key.field.value)(&from), "{}", key.name);
    }
    let mut nodes = audit.nodes.clone();
    for key in NODE_KEYS.iter() {
        (key.field.take)(&mut nodes, &strict.nodes);
    }
    assert_eq!(nodes, strict.nodes);
}

#[test]
fn defaults_are_those_of_the_fields() {
    let row = |name: &str| POD_KEYS.iter().find(|key| key.name == name).unwrap().row;
    assert_eq!(row("optOut.ignore").default().as_deref(), Some("Namespaces"));
    assert_eq!(row("rules.actions").default().as_deref(), Some("[]"));
    assert_eq!(row("detect.os").default(), None);
}

#[test]
fn each_mode_of_placement_names_what_it_decides() {
    let modes: Vec<_> =
        POD_KEYS.iter().filter(|key| key.name.starts_with("place.") && key.row.name == "mode").collect();
    assert!(modes.len() >= 5 && modes.iter().all(|key| !key.row.decides.is_empty()));
}
