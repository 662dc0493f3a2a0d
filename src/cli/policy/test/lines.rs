//! Values as lines of YAML, for comparison by a person.

use serde_json::Value;

/// `value` as YAML in block style, with a line break at the end.
pub(crate) fn yaml(value: &Value) -> String {
    let mut lines = Vec::new();
    block(value, "", "", &mut lines);
    ended(lines)
}

/// One line for each of `items`.
pub(crate) fn list<T: AsRef<str>>(items: &[T]) -> String {
    ended(items.iter().map(|item| one_line(item.as_ref())))
}

fn ended(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect()
}

/// Text on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `lead` is the start of the value's first line (a key, a dash), `indent` that of its other lines.
fn block(value: &Value, lead: &str, indent: &str, lines: &mut Vec<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut lead = under(lead, indent, lines);
            for (key, value) in map {
                let key = format!("{lead}{}:", scalar(&Value::String(key.clone())));
                block(value, &key, &format!("{indent}  "), lines);
                indent.clone_into(&mut lead);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let mut lead = under(lead, indent, lines);
            for item in items {
                block(item, &format!("{lead}-"), &format!("{indent}  "), lines);
                indent.clone_into(&mut lead);
            }
        }
        _ if lead.is_empty() => lines.push(scalar(value)),
        _ => lines.push(format!("{lead} {}", scalar(value))),
    }
}

/// The start of the first entry: after a dash, or else on a line of its own.
fn under(lead: &str, indent: &str, lines: &mut Vec<String>) -> String {
    if lead.ends_with('-') {
        return format!("{lead} ");
    }
    if !lead.is_empty() {
        lines.push(lead.to_owned());
    }
    indent.to_owned()
}

/// Quoted only if necessary: if it would otherwise be another type, or another structure.
fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let version = text.matches('.').count() > 1 && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    // A text that begins with a digit may be a number in one of YAML's many forms: 0x1f, 1_000,
    // 12:30.
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '_'));
    let plain = |c: char| c.is_alphanumeric() || " -_./=+*@()\\".contains(c);
    let inner = text.replace(": ", "\n").replace(':', "");
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
    if version || starts_well && inner.chars().all(plain) && !text.ends_with([' ', ':']) && !word {
        text.clone()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_manifest::documents;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_as_people_write_them() {
        let value = json!({
            "spec": {"nodeSelector": {"kubernetes.io/os": "windows"}, "os": null, "none": {}, "list": []},
            "tolerations+": [{"key": "os", "effect": "NoSchedule"}, "10.0.20348", "no", 1, true, [1]],
        });
        let expected = "\
spec:
  list: []
  nodeSelector:
    kubernetes.io/os: windows
  none: {}
  os: null
tolerations+:
  - effect: NoSchedule
    key: os
  - 10.0.20348
  - \"no\"
  - 1
  - true
  - - 1
";
        assert_eq!(yaml(&value), expected);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[a-z0-9:. ~#'\"*&!|>%@{},?\\[\\]-]{0,8}",
            Just("1e3".to_owned()),
            Just("0x1f".to_owned()),
            Just("1_000".to_owned()),
            Just("12:30".to_owned()),
            Just("2001-01-01".to_owned())
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text.clone().prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 20, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(value in any_value()) {
            let value = json!({"x": value});
            let read = documents("x", &yaml(&value)).remove(0).unwrap().json;
            prop_assert_eq!(read, value);
        }
    }
}
