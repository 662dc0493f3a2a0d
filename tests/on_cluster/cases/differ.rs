//! `changes`: what Mullion and company made of a request, against what the API server stores of it without them.

use std::fmt;

use serde_json::{Value, json};

use super::matching::{below, short};

/// A field that differs: its place in keys and indices, and both sides.
#[derive(Debug)]
pub struct Difference {
    place: Vec<String>,
    path: String,
    what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// Takes out what two objects of different namespaces cannot have in common, and what controllers write meanwhile.
pub fn comparable(object: &Value, namespace: &str, of_status: bool) -> Value {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let mut text = object.to_string().replace(namespace, "{namespace}");
    if !uid.is_empty() {
        text = text.replace(&uid, "{uid}"); // a Job's selector has it too
    }
    let mut object: Value = serde_json::from_str(&token_volume_named_alike(text)).unwrap_or_default();
    for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
        object["metadata"].as_object_mut().map(|metadata| metadata.remove(key));
    }
    if object["metadata"]["generateName"].is_string() {
        object["metadata"]["name"] = json!("{generated}");
    }
    // Not by index, which would write a null where there are none.
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("deployment.kubernetes.io/revision"); // the Deployment controller's, some time later
        if annotations.is_empty() {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("annotations"));
        }
    }
    if let Some(top) = object.as_object_mut()
        && !of_status
    {
        top.remove("status");
    }
    object
}

/// `kube-api-access-x7k2p` is another in every pod.
fn token_volume_named_alike(text: String) -> String {
    const VOLUME: &str = "\"kube-api-access-";
    let Some(at) = text.find(VOLUME) else { return text };
    let name: String = text[at + 1..].chars().take_while(|letter| *letter != '"').collect();
    text.replace(&name, "kube-api-access")
}

/// Every field in which they differ.
pub fn differences(plain: &Value, ours: &Value) -> Vec<Difference> {
    let mut all = Vec::new();
    walk(Some(plain), Some(ours), &mut Vec::new(), "", &mut all);
    all
}

fn walk(plain: Option<&Value>, ours: Option<&Value>, place: &mut Vec<String>, path: &str, all: &mut Vec<Difference>) {
    let nothing = json!({});
    // A map that only one of them has differs key by key, too: so `metadata.annotations[…]` can be named.
    let full = |side: &Value| side.as_object().is_some_and(|map| !map.is_empty());
    let (plain, ours) = match (plain, ours) {
        (None, Some(map)) if full(map) => (Some(&nothing), Some(map)),
        (Some(map), None) if full(map) => (Some(map), Some(&nothing)),
        both => both,
    };
    match (plain, ours) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                place.push(key.clone());
                walk(left.get(key), right.get(key), place, &below(path, key), all);
                place.pop();
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                place.push(index.to_string());
                walk(Some(left), Some(right), place, &format!("{path}[{index}]"), all);
                place.pop();
            }
        }
        _ if plain == ours => {}
        _ => {
            let text = |side: Option<&Value>| side.map_or_else(|| "nothing".to_owned(), short);
            let what = format!("{} became {}", text(plain), text(ours));
            all.push(Difference { place: place.clone(), path: path.to_owned(), what });
        }
    }
}

/// What is wrong if exactly these fields may and must differ.
pub fn unexpected(differences: &[Difference], expected: &[String]) -> Vec<String> {
    let places: Vec<Vec<String>> = expected.iter().map(|path| place(path)).collect();
    let mut wrong = Vec::new();
    for difference in differences {
        if !places.iter().any(|place| difference.place.starts_with(place)) {
            wrong.push(format!("{difference}, which `changes` does not name"));
        }
    }
    for (place, path) in places.iter().zip(expected) {
        if !differences.iter().any(|difference| difference.place.starts_with(place)) {
            wrong.push(format!("{path}: expected to differ from what is stored without Mullion, and does not"));
        }
    }
    wrong
}

/// `spec.containers[0].image` and `metadata.annotations[mullion.dev/decision]` as keys and indices.
fn place(path: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some((key, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            keys.push(key.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len()).max(1);
            keys.push(rest[..end].to_owned());
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
    keys
}
