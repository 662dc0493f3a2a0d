#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::list_scanner::{ListMetadata, ListScanner};
use super::object::{EventHead, Head, HeadedItem, parse_object};
use super::scanner::{MAX_OBJECT, ValueScanner};
use crate::cluster::{SlimNode, SlimObject, SlimRuntimeClass, SlimSecret};

/// The bytes of the items of a list that arrives in these parts, and its metadata.
fn items(parts: &[&[u8]]) -> Option<(Vec<Vec<u8>>, ListMetadata)> {
    let mut scanner = ListScanner::new();
    let mut items = Vec::new();
    for part in parts {
        let mut chunk = Bytes::copy_from_slice(part);
        while scanner.next(&mut chunk).ok()? {
            items.push(scanner.item().bytes().to_vec());
        }
        assert!(chunk.is_empty());
    }
    Some((items, scanner.end().ok()?))
}

/// The text in parts that end at these places.
fn split<'t>(text: &'t str, places: &[usize]) -> Vec<&'t [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (text.len() + 1)).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|ends| &text.as_bytes()[ends[0]..ends[1]]).collect()
}

/// The value with `{}` in place of every list and object that is a `fieldsV1`.
fn without_free_form(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_free_form).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                let is_free_form = name == "fieldsV1" && (value.is_object() || value.is_array());
                (name.clone(), if is_free_form { json!({}) } else { without_free_form(value) })
            })
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let name =
        prop_oneof![Just("fieldsV1".to_owned()), Just("metadata".to_owned()), Just("items".to_owned()), any_text()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map(name.clone(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Texts with everything that JSON escapes, and with what ends values outside texts.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,8}", "[\"\\\\{}\\[\\]:, \n]{0,8}", Just("\"fieldsV1\"".to_owned()), Just("fieldsV1".to_owned())]
}

/// A JSON text of the value, with or without blanks.
fn text_of(value: &Value, blanks: bool) -> String {
    if blanks { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() }
}

proptest! {
    #[test]
    fn every_item_of_any_list_is_found(
        objects in prop::collection::vec(any_json(), 0..6),
        others in prop::collection::vec(any_json(), 0..3),
        places in prop::collection::vec(any::<usize>(), 0..12),
        blanks in any::<bool>(),
        metadata_first in any::<bool>(),
    ) {
        let metadata = json!({"resourceVersion": "7", "continue": "more", "remainingItemCount": 3, "selfLink": null});
        let items_member = format!("\"items\": {}", text_of(&Value::from(objects.clone()), blanks));
        let metadata_member = format!("\"metadata\":{}", text_of(&metadata, blanks));
        let mut members = vec![items_member, metadata_member];
        if metadata_first {
            members.reverse();
        }
        for (at, other) in others.iter().enumerate() {
            members.insert(at, format!("\"other{at}\" :{}", text_of(other, blanks)));
        }
        let text = format!(" {{{}}}\n", members.join(if blanks { " , " } else { "," }));
        let (found, end) = items(&split(&text, &places)).expect("a list");
        let found: Vec<Value> = found.iter().map(|item| serde_json::from_slice(item).unwrap()).collect();
        // Numbers are compared as they are printed: parsing may lose the last digit.
        let expected: Value = objects.iter().map(without_free_form).collect();
        prop_assert_eq!(Value::from(found).to_string(), reparsed(&expected).to_string());
        let expected = ListMetadata {
            resource_version: Some("7".to_owned()),
            r#continue: Some("more".to_owned()),
            remaining_item_count: Some(3),
        };
        prop_assert_eq!(end, expected);
    }

    #[test]
    fn a_list_that_ends_early_is_an_error(
        objects in prop::collection::vec(any_json(), 0..4),
        end in any::<usize>(),
    ) {
        let text = json!({"items": objects, "metadata": {}}).to_string();
        let end = end % text.len();
        prop_assert!(items(&[&text.as_bytes()[..end]]).is_none());
    }

    #[test]
    fn any_bytes_are_read_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60), place in any::<usize>()) {
        let place = place % (bytes.len() + 1);
        items(&[&bytes[..place], &bytes[place..]]);
    }
}

fn reparsed(value: &Value) -> Value {
    serde_json::from_str(&value.to_string()).unwrap()
}

#[test]
fn other_responses_are_no_lists() {
    for text in
        ["", " ", "\"hello\"", "[]", "null", "7", "{", "{]", "{\"items\"}", "{\"items\":[}", "{,}}", "{\"items\":}"]
    {
        let found = items(&[text.as_bytes()]);
        assert!(found.is_none() || text == "{,}}", "{text}: {found:?}");
    }
    for text in ["{}", "{\"items\":null}", "{\"items\":[]}", "{\"metadata\":null,\"items\":[ ]}"] {
        assert_eq!(items(&[text.as_bytes()]), Some((Vec::new(), ListMetadata::default())), "{text}");
    }
}

fn scanned(text: &str) -> ValueScanner {
    let mut scanner = ValueScanner::new(MAX_OBJECT);
    assert_eq!(scanner.push(text.as_bytes()), Some(text.len()));
    scanner
}

/// Lists in each other.
fn deep(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn no_depth_fails_an_object() {
    let deep = deep(100_000);
    let objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    for (free_form, unknown) in
        [(&deep, "0"), (&objects, "0"), (&"{}".to_owned(), &*deep), (&"{}".to_owned(), &*objects)]
    {
        let managed = format!("\"managedFields\":[{{\"fieldsV1\" : {free_form}}}]");
        let metadata =
            format!("{{\"name\":\"a\",\"uid\":\"u\",\"unknown\":{unknown},{managed},\"labels\":{{\"x\":\"y\"}}}}");
        let text = format!(
            "{{\"unknown\":{unknown},\"metadata\":{metadata},\"handler\":\"h\",\"spec\":{{\"unknown\":{unknown}}},\
             \"scheduling\":{{\"unknown\":{unknown}}},\"status\":{{\"nodeInfo\":{{\"unknown\":{unknown}}}}}}}"
        );
        let value = scanned(&text);
        assert!(free_form.len() < 10 || value.bytes().len() < 400, "{}", value.bytes().len());
        let labels = |HeadedItem { head, item }: HeadedItem<SlimNode>| {
            assert_eq!((head.name.as_str(), head.uid.as_str()), ("a", "u"));
            item.unwrap().metadata.labels.unwrap()["x"].clone()
        };
        assert_eq!(labels(parse_object(&value)), "y");
        assert_eq!(parse_object::<SlimRuntimeClass>(&value).item.unwrap().handler, "h");
        assert!(parse_object::<SlimSecret>(&value).item.is_ok() && parse_object::<SlimObject>(&value).item.is_ok());
        // Values of any kind are read after the free-form member is gone.
        assert_eq!(parse_object::<Value>(&value).item.is_ok(), unknown == "0");
    }
}

#[test]
fn an_object_above_the_limit_is_known_by_its_head() {
    let object = |name: &str, length: usize| {
        let metadata = json!({"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "7"});
        format!("{{\"metadata\":{metadata},\"data\":\"{}\"}}", "x".repeat(length))
    };
    let text = format!("{{\"items\":[{},{},{}]}}", object("a", 1), object("b", MAX_OBJECT), object("c", 2));
    let places: Vec<usize> = (0..text.len()).step_by(16_384).collect();
    let mut scanner = ListScanner::new();
    let mut found = Vec::new();
    for part in split(&text, &places) {
        let mut chunk = Bytes::copy_from_slice(part);
        while scanner.next(&mut chunk).unwrap() {
            let HeadedItem { head, item } = parse_object::<SlimObject>(scanner.item());
            found.push((head.full_name(), item.map(drop).map_err(|unreadable| unreadable.to_string())));
        }
    }
    let too_large = Err("it has more than 4 MiB".to_owned());
    let expected = [("shop/a", Ok(())), ("shop/b", too_large), ("shop/c", Ok(()))];
    assert_eq!(found, expected.map(|(name, item)| (name.to_owned(), item)));

    let event = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}", object("b", 100));
    let head = Head { namespace: "shop".into(), name: "b".into(), uid: "u".into(), resource_version: "7".into() };
    assert_eq!(EventHead::parse(&event.as_bytes()[..150]), EventHead { r#type: "MODIFIED".to_owned(), head });
}

#[test]
fn heads_are_bounded() {
    let long = "x".repeat(300);
    let value = scanned(&json!({"metadata": {"name": long, "namespace": long, "uid": 7}}).to_string());
    assert_eq!(parse_object::<SlimObject>(&value).head, Head::default());
    assert!(parse_object::<SlimObject>(&scanned("[]")).item.is_err());
}
