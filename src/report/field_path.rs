//! Paths of fields in objects: as keys, and as text.

use std::fmt;

use serde_json::Value;

/// The path of a field: `spec.containers[0].image`, `metadata.annotations[mullion.dev/decision]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldPath {
    /// Keys and indices, starting at the object.
    keys: Vec<String>,
    text: String,
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FieldPath {
    /// Parses a path from text.
    pub fn parse(text: &str) -> Self {
        let mut keys = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let bracketed = rest.strip_prefix('[').and_then(|inner| inner.split_once(']'));
            let (key, after) = bracketed.unwrap_or_else(|| {
                let first = rest.chars().next().map_or(0, char::len_utf8);
                rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()).max(first))
            });
            keys.push(key.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
        }
        Self { keys, text: text.to_owned() }
    }

    /// Its keys and indices, from the object on.
    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The object itself.
    pub fn is_root(&self) -> bool {
        self.keys.is_empty()
    }

    /// The path of member `key` of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let text = match (key.contains(['.', '/', '[']), self.is_root()) {
            (true, _) => format!("{self}[{key}]"),
            (false, true) => key.to_owned(),
            (false, false) => format!("{self}.{key}"),
        };
        self.below(key.to_owned(), text)
    }

    /// The path of entry `index` of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.below(index.to_string(), format!("{self}[{index}]"))
    }

    /// Whether it equals `other` or is below it.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.keys.starts_with(&other.keys)
    }

    /// Whether the keys of `field`, one after the other, are among its own.
    pub fn contains(&self, field: &Self) -> bool {
        field.is_root() || self.keys.windows(field.keys.len()).any(|keys| keys == field.keys)
    }

    /// Whether [`contains`](Self::contains) is true for this path or for one below it in `value`.
    pub fn reaches(&self, field: &Self, value: &Value) -> bool {
        let below = match value {
            Value::Object(map) => {
                map.iter().any(|(key, value)| self.key(list_name(key, value).0).reaches(field, value))
            }
            Value::Array(items) => items.iter().enumerate().any(|(at, item)| self.index(at).reaches(field, item)),
            _ => false,
        };
        below || self.contains(field)
    }

    fn below(&self, key: String, text: String) -> Self {
        Self { keys: [self.keys.as_slice(), &[key]].concat(), text }
    }
}

/// The name of a member, and for a list with a sign whether it must contain the entries: `tolerations+` contains them among
/// others, `tolerations-` contains none of them.
pub(crate) fn list_name<'k>(key: &'k str, value: &Value) -> (&'k str, Option<bool>) {
    match (value, key.strip_suffix('+'), key.strip_suffix('-')) {
        (Value::Array(_), Some(name), _) => (name, Some(true)),
        (Value::Array(_), None, Some(name)) => (name, Some(false)),
        _ => (key, None),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_reads_as_it_is_written() {
        for text in ["spec.containers[0].image", "metadata.annotations[mullion.dev/decision]", "[x/y.z].a", ""] {
            assert_eq!(FieldPath::parse(text).to_string(), text);
        }
        let built = FieldPath::default().key("metadata").key("annotations").key("mullion.dev/decision");
        assert_eq!(built, FieldPath::parse("metadata.annotations[mullion.dev/decision]"));
        let built = FieldPath::default().key("spec").key("containers").index(0).key("image");
        assert_eq!(built, FieldPath::parse("spec.containers[0].image"));
        assert!(built.starts_with(&FieldPath::parse("spec.containers")));
        assert!(!built.starts_with(&FieldPath::parse("spec.containers[1]")));
    }

    #[test]
    fn a_field_is_found_by_its_keys_and_not_by_a_part_of_them() {
        let (tolerations, os) = ("tolerations", "spec.os");
        for (path, value, field, expected) in [
            ("spec.tolerations", json!([]), tolerations, true),
            ("spec.tolerations[0].key", json!("os"), tolerations, true),
            ("spec", json!({"tolerations+": [{"key": "os"}]}), tolerations, true),
            ("spec.template", json!({"spec": {"tolerations": null}}), tolerations, true),
            ("spec.tolerationsOfOthers", json!({}), tolerations, false),
            ("metadata.annotations[a/b]", json!("tolerations"), tolerations, false),
            ("spec", json!({"os": {"name": "linux"}}), os, true),
            ("spec.template.spec.os", json!(null), os, true),
            ("metadata.labels.os", json!("linux"), os, false),
        ] {
            assert_eq!(FieldPath::parse(path).reaches(&FieldPath::parse(field), &value), expected, "{path}: {value}");
        }
    }
}
