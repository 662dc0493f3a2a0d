//! Every list and map of a pod, from the table of fields of an API server.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// `Container.args []string`, one field a line.
const FIELDS: &str = include_str!("../../../crates/engine/src/rules/field_types/fields.txt");

/// The search ends here for lists that contain themselves (`JSONSchemaProps`) and for owners' fields; no list of a pod
/// is deeper.
const DEEPEST: usize = 9;

/// An image whose name makes its pod a Windows pod.
pub const WINDOWS_IMAGE: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

/// One list or map: the fields that lead to it, with `[]` for an item of a list on the path.
#[derive(Clone)]
pub struct Collection {
    path: Vec<&'static str>,
    /// The type of its items.
    item: &'static str,
    is_map: bool,
}

/// The fields of each type.
struct Types(BTreeMap<&'static str, Vec<(&'static str, &'static str)>>);

static TYPES: LazyLock<Types> = LazyLock::new(types);

/// All lists and maps of a pod's metadata and spec.
pub fn all() -> Vec<Collection> {
    let mut found = Vec::new();
    for (member, name) in [("metadata", "ObjectMeta"), ("spec", "PodSpec")] {
        walk(name, &[member], &mut found);
    }
    found
}

fn types() -> Types {
    let mut types: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in FIELDS.lines().filter(|line| !line.starts_with('#')) {
        if let Some(((name, field), of)) = line.split_once(' ').and_then(|(at, of)| Some((at.split_once('.')?, of))) {
            types.entry(name).or_default().push((field, of));
        }
    }
    Types(types)
}

fn walk(name: &str, path: &[&'static str], found: &mut Vec<Collection>) {
    if path.len() > DEEPEST {
        return;
    }
    for (field, of) in TYPES.0.get(name).into_iter().flatten() {
        let at = |more: &[&'static str]| [path, &[*field], more].concat();
        if let Some(item) = of.strip_prefix("map[string]") {
            found.push(Collection { path: at(&[]), item, is_map: true });
        } else if let Some(item) = of.strip_prefix("[]") {
            found.push(Collection { path: at(&[]), item, is_map: false });
            walk(item, &at(&["[]"]), found);
        } else {
            walk(of, &at(&[]), found);
        }
    }
}

impl Collection {
    /// `spec.containers[].ports`.
    pub fn name(&self) -> String {
        self.path.join(".").replace(".[]", "[]")
    }

    /// Whether it is below an item of another list.
    pub fn is_nested(&self) -> bool {
        self.path.contains(&"[]")
    }

    /// A Windows pod in which it has `count` items.
    pub fn pod(&self, count: usize) -> Value {
        with_base(self.fill(&self.path, &mut [1, 1, 1, count], 0))
    }

    /// A Windows pod in which the first list around it has `count` items, each of them with two of its items.
    pub fn pod_of_outer(&self, count: usize) -> Value {
        with_base(self.fill(&self.path, &mut [count, 1, 1, 2], 0))
    }

    /// `counts`: items of the lists on the way, from the outside, and last those of this one.
    fn fill(&self, path: &[&'static str], counts: &mut [usize; 4], number: usize) -> Value {
        match path {
            [] => self.items(counts[3], number),
            ["[]", rest @ ..] => {
                let here = counts[0];
                let mut inner = [counts[1], counts[2], 1, counts[3]];
                (0..here).map(|at| named(self.fill(rest, &mut inner, at), at)).collect()
            }
            [field, rest @ ..] => json!({ *field: self.fill(rest, counts, number) }),
        }
    }

    fn items(&self, count: usize, outer: usize) -> Value {
        let item = |at: usize| value(self.item, at);
        if self.is_map {
            Value::Object((0..count).map(|at| (format!("example.com/k{outer}-{at}"), item(at))).collect())
        } else {
            (0..count).map(|at| named(item(at), at)).collect()
        }
    }
}

/// The pod with a container, and with an image in every container that makes it a Windows pod.
fn with_base(mut pod: Value) -> Value {
    if pod["spec"]["containers"].is_null() {
        pod["spec"]["containers"] = json!([{"name": "web"}]);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container["image"] = WINDOWS_IMAGE.into();
        }
    }
    pod
}

/// The item with a name, if it is an object: the API server identifies most items by it.
fn named(mut item: Value, at: usize) -> Value {
    if let Some(members) = item.as_object_mut() {
        members.insert("name".to_owned(), format!("n{at}").into());
    }
    item
}

/// A value of the type; for a type with fields, its texts, numbers and flags.
fn value(of: &str, at: usize) -> Value {
    match of {
        "string" => format!("value-{at}").into(),
        "boolean" => true.into(),
        "int32" | "int64" | "int-or-string" => at.into(),
        "quantity" => "1".into(),
        _ => {
            let scalars = TYPES.0.get(of).into_iter().flatten().filter_map(|(field, of)| {
                let value = match (*field, *of) {
                    ("operator", "string") => "Exists".into(),
                    ("effect", "string") => "NoSchedule".into(),
                    (_, "string" | "boolean" | "int32" | "int64" | "quantity") => value(of, at),
                    _ => return None,
                };
                Some(((*field).to_owned(), value))
            });
            Value::Object(scalars.collect::<Map<_, _>>())
        }
    }
}
