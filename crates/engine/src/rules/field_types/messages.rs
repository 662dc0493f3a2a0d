//! Messages about wrong types and unknown fields, and what to write instead.

use serde_json::Value;

use crate::model::json_pointer::field_path;
use crate::model::text::{list_first, nearest, shown};
use crate::model::{MinorVersion, WorkloadKind};
use crate::rules::field_types::nearest_quantity::nearest_quantity;
use crate::rules::field_types::table::{FieldTable, FieldType, ObjectType, Word};

// === wrong types ===

/// Message and help for `value`, which is not of type `shape`, in the field of that name.
pub(crate) fn wrong_type(table: &FieldTable, shape: &FieldType, value: &Value, field: &str) -> (String, String) {
    let message = match (shape, value) {
        (FieldType::Quantity, Value::String(text)) => format!("`{}` is not a quantity", shown(text)),
        (FieldType::Int32 | FieldType::Int64 | FieldType::IntOrText, Value::Number(number)) if number.is_f64() => {
            format!("expected {}, found {number}", one(shape))
        }
        (FieldType::Int32 | FieldType::Int64 | FieldType::IntOrText, Value::Number(number)) => {
            let bits = if *shape == FieldType::Int64 { 64 } else { 32 };
            format!("expected an integer of {bits} bits, found {number}")
        }
        _ => format!("expected {}, found {}", one(shape), found(value)),
    };
    (message, instead(table, shape, value, &shown(field)))
}

/// `a list of strings`.
fn one(shape: &FieldType) -> String {
    match shape {
        FieldType::Any => "a value".to_owned(),
        FieldType::Text | FieldType::Words(_) | FieldType::Time => "a string".to_owned(),
        FieldType::Boolean => "a boolean".to_owned(),
        FieldType::Int32 | FieldType::Int64 => "an integer".to_owned(),
        FieldType::Quantity => "a quantity".to_owned(),
        FieldType::IntOrText => "an integer or a string".to_owned(),
        FieldType::List(inner) => format!("a list of {}", many(inner)),
        FieldType::Map(inner) => format!("a map of {}", many(inner)),
        FieldType::Object(_) => "a map".to_owned(),
    }
}

fn many(shape: &FieldType) -> &'static str {
    match shape {
        FieldType::Any => "values",
        FieldType::Text | FieldType::Words(_) | FieldType::Time => "strings",
        FieldType::Boolean => "booleans",
        FieldType::Int32 | FieldType::Int64 => "integers",
        FieldType::Quantity => "quantities",
        FieldType::IntOrText => "integers or strings",
        FieldType::List(_) => "lists",
        FieldType::Map(_) | FieldType::Object(_) => "maps",
    }
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// What to write, as a clause.
fn instead(table: &FieldTable, shape: &FieldType, value: &Value, field: &str) -> String {
    let fixed = match (shape, value) {
        // The value is not quoted, because 0644 and yes are parsed before this check.
        (FieldType::Words(words), _) => return format!("write one of {}", list_first(words, LISTED)),
        (FieldType::Text | FieldType::Time, Value::Bool(_) | Value::Number(_)) => "put it in quotes",
        (FieldType::Text | FieldType::Time, _) => "write one text",
        (FieldType::Boolean, Value::String(text)) if text == "true" || text == "false" => {
            return format!("write {text} without quotes");
        }
        (FieldType::Boolean, _) => "write true or false",
        // Without quotes, 0080 would be octal.
        (FieldType::Int32 | FieldType::Int64, Value::String(text))
            if text.parse().is_ok_and(|number: i32| number.to_string() == *text) =>
        {
            return format!("write {text} without quotes");
        }
        (FieldType::Int32 | FieldType::Int64, _) => "write a whole number",
        (FieldType::IntOrText, _) => "write a whole number, or a name in quotes",
        (FieldType::Quantity, Value::String(text)) => {
            return nearest_quantity(text)
                .map_or_else(|| QUANTITY.to_owned(), |meant| format!("write {}", shown(&meant)));
        }
        (FieldType::Quantity, _) => QUANTITY,
        (FieldType::List(item), _) => return list_instead(table, item, value, field),
        (FieldType::Object(_) | FieldType::Map(_), Value::String(text)) if text.is_empty() => return empty_map(field),
        (FieldType::Object(_) | FieldType::Map(_), Value::Array(items)) if items.is_empty() => return empty_map(field),
        (FieldType::Object(_) | FieldType::Map(_), Value::Array(_)) => {
            "write its entries as key: value, without dashes"
        }
        (FieldType::Object(_) | FieldType::Map(_), _) => "write its entries as key: value on lines of their own",
        (FieldType::Any, _) => "",
    };
    fixed.to_owned()
}

fn empty_map(field: &str) -> String {
    format!("write {field}: {{}} or leave it out")
}

/// The number of values of a field that a message lists: most fields have at most seven, and `stopSignal` has 65.
const LISTED: usize = 8;

/// Message and help for a text in a field that takes only `words`. `meant`: the similar one.
pub(crate) fn unknown_value(table: &FieldTable, words: &[Word], text: &str, meant: Option<&str>) -> (String, String) {
    let known = list_first(words, LISTED);
    match meant {
        Some(meant) => {
            (format!("the API server rejects {}: its values are {known}", shown(text)), format!("write {meant}"))
        }
        None => (
            format!("{} is no value of Kubernetes {}: its values are {known}", shown(text), table.kubernetes),
            "write one of them, or look the value up".to_owned(),
        ),
    }
}

const QUANTITY: &str = "write a number, or one with a unit such as 500m, 512Mi or 2G";

fn list_instead(table: &FieldTable, item: &FieldType, value: &Value, field: &str) -> String {
    match (item, value) {
        (FieldType::Text, Value::String(text)) if text.contains(char::is_whitespace) => {
            format!("write {field} as a list with an item for each word")
        }
        (FieldType::Text, Value::String(text)) => format!("write {field}: [\"{}\"]", shown(text)),
        (FieldType::Text, Value::Bool(_) | Value::Number(_)) => {
            format!("write {field} as a list, with the value in quotes")
        }
        (FieldType::Int32 | FieldType::Int64, Value::Number(number)) => format!("write {field}: [{number}]"),
        (FieldType::Object(at), Value::Object(members)) => {
            let fields = table.object(*at).map(|object| &object.fields);
            let known = |key: &String| fields.is_some_and(|fields| fields.contains_key(key.as_str()));
            match members.keys().next() {
                Some(first) if known(first) => format!("put a dash before it: - {}: …", shown(first)),
                Some(first) if fields.is_some_and(|fields| fields.contains_key("name")) => {
                    format!("write each entry as a list item: - name: {}", shown(first))
                }
                _ => format!("write {field} as a list, with a dash before each item"),
            }
        }
        _ => format!("write {field} as a list, with a dash before each item"),
    }
}

// === newer than the API server ===

/// A release that first has a field or a value, and the older one of the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newer {
    pub(crate) since: MinorVersion,
    pub(crate) server: MinorVersion,
}

impl Newer {
    /// Message and help for the field `key` of `object`.
    pub(crate) fn field(self, object: &ObjectType, key: &str) -> (String, String) {
        let server = self.server;
        let message = format!("no field {} in {} of Kubernetes {server}", shown(key), type_name(object.name));
        (message, self.help())
    }

    /// Message and help for a value of a field that takes `words`.
    pub(crate) fn value(self, words: &[Word], text: &str) -> (String, String) {
        let Self { server, .. } = self;
        let known: Vec<&Word> = words.iter().filter(|word| word.since.is_none_or(|since| since <= server)).collect();
        let known = list_first(&known, LISTED);
        (format!("{} is no value of Kubernetes {server}: its values are {known}", shown(text)), self.help())
    }

    fn help(self) -> String {
        format!("remove it: it is new in {}", self.since)
    }
}

// === unknown fields ===

/// Message and help for `key`, which is not a field of the last type in `above`: the types around it, each with its
/// pointer.
pub(crate) fn unknown_field(table: &FieldTable, above: &[(usize, &str)], key: &str) -> (String, String) {
    let Some(((at, _), outer)) = above.split_last() else { return (String::new(), String::new()) };
    let Some(object) = table.object(*at) else { return (String::new(), String::new()) };
    let message = format!("no field {} in {}", shown(key), type_name(object.name));
    let other_case = || object.fields.keys().copied().find(|field| field.eq_ignore_ascii_case(key));
    if let Some(field) = other_case() {
        return (message, format!("did you mean {field}?"));
    }
    if let Some(place) = place_above(table, outer, key) {
        return (message, format!("write it in {place}"));
    }
    if let Some(place) = place_below(table, *at, key) {
        return (message, format!("write it as {place}"));
    }
    if let Some(field) = nearest(key, object.fields.keys().copied()) {
        return (message, format!("did you mean {field}?"));
    }
    // No field is similar: the field may be newer than the table.
    (format!("{message} of Kubernetes {}", table.kubernetes), "remove it, or look the name up".to_owned())
}

/// A place further out that has a field of that name: the field was indented too far.
fn place_above(table: &FieldTable, outer: &[(usize, &str)], key: &str) -> Option<String> {
    let has = |at: usize| table.object(at).is_some_and(|object| object.fields.contains_key(key));
    let (_, pointer) = outer.iter().rev().find(|(at, _)| has(*at))?;
    Some(if pointer.is_empty() { "the object itself, next to kind".to_owned() } else { field_path(pointer) })
}

/// The place further in that has a field of that name, if one is nearest: one level or several were left out. Lists are
/// skipped, because the item would be ambiguous.
fn place_below(table: &FieldTable, at: usize, key: &str) -> Option<String> {
    /// The number of levels searched: `spec.template.spec.nodeSelector` from the top of a Deployment.
    const LEVELS: usize = 3;
    let mut level = vec![(at, String::new())];
    for _ in 0..LEVELS {
        let mut next = Vec::new();
        for (at, path) in &level {
            let fields = table.object(*at).into_iter().flat_map(|object| &object.fields);
            next.extend(fields.filter_map(|(name, field)| match &field.shape {
                FieldType::Object(inner) => Some((*inner, format!("{path}{name}."))),
                _ => None,
            }));
        }
        let has = |(at, _): &&(usize, String)| {
            table.object(*at).is_some_and(|object: &ObjectType| object.fields.contains_key(key))
        };
        let mut places = next.iter().filter(has);
        match (places.next(), places.next()) {
            (Some((_, path)), None) => return Some(format!("{path}{key}")),
            (Some(_), Some(_)) => return None,
            (None, _) => level = next,
        }
    }
    None
}

/// The readable name of a type: `a toleration` for `Toleration`, `a Deployment spec` for `DeploymentSpec`.
fn type_name(name: &str) -> String {
    match name {
        "ObjectMeta" => return "metadata".to_owned(),
        "SELinuxOptions" => return "seLinuxOptions".to_owned(),
        "WindowsSecurityContextOptions" => return "windowsOptions".to_owned(),
        _ => {}
    }
    let kind = name.strip_suffix("Spec").unwrap_or(name);
    let phrase = if WorkloadKind::from_name(kind).is_some() && name != "PodTemplateSpec" {
        if kind == name { kind.to_owned() } else { format!("{kind} spec") }
    } else {
        words(name).join(" ")
    };
    let plural = phrase.ends_with('s') && !phrase.ends_with("ss");
    if plural { phrase } else { format!("{} {phrase}", article(&phrase)) }
}

/// The words of a type's name, in lower case except abbreviations: `HTTP get action`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(at + 1);
        let starts = letter.is_ascii_uppercase()
            && (before.is_none_or(char::is_ascii_lowercase) || after.is_some_and(char::is_ascii_lowercase));
        match words.last_mut() {
            Some(word) if !starts => word.push(*letter),
            _ => words.push(letter.to_string()),
        }
    }
    for word in &mut words {
        if word.chars().any(|letter| letter.is_ascii_lowercase()) {
            word.make_ascii_lowercase();
        }
    }
    words
}

fn article(phrase: &str) -> &'static str {
    let mut letters = phrase.chars();
    let first = letters.next().unwrap_or_default();
    let spelled_out = letters.next().is_some_and(|second| second.is_ascii_uppercase());
    // Abbreviations that are spelled out and begin with a vowel sound: an NFS volume source.
    let vowel = if spelled_out { "AEFHILMNORSX".contains(first) } else { "aeiou".contains(first) };
    if vowel { "an" } else { "a" }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn types_have_names_for_people() {
        for (name, words) in [
            ("Pod", "a Pod"),
            ("PodSpec", "a Pod spec"),
            ("DaemonSetSpec", "a DaemonSet spec"),
            ("PodTemplateSpec", "a pod template spec"),
            ("ObjectMeta", "metadata"),
            ("Toleration", "a toleration"),
            ("EnvVar", "an env var"),
            ("PodSecurityContext", "a pod security context"),
            ("ResourceRequirements", "resource requirements"),
            ("HTTPGetAction", "an HTTP get action"),
            ("CSIVolumeSource", "a CSI volume source"),
            ("NFSVolumeSource", "an NFS volume source"),
            ("PodOS", "a pod OS"),
            ("WindowsSecurityContextOptions", "windowsOptions"),
        ] {
            assert_eq!(type_name(name), words);
        }
    }
}
