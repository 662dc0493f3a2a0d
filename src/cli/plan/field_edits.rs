//! Field edits of a plan as a JSON Patch on the object of a manifest.

use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use jsonptr::PointerBuf;
use mullion_engine::model::text::shorten;
use mullion_plan::report::FieldEdit;
use serde_json::{Value, json};

use crate::report::FieldPath;

/// How much of a value a message quotes, in characters.
const QUOTED: usize = 80;

/// What becomes of the edits of one object.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ObjectEdits {
    pub(super) operations: Vec<PatchOperation>,
    /// The number of fields that change.
    pub(super) changed: usize,
    /// Fields that have another value than in the cluster, with the reason.
    pub(super) skipped: Vec<String>,
}

/// The operations that make the edits in `object`. A field whose value is not the one of the cluster stays.
pub(super) fn object_edits(object: &Value, edits: &[FieldEdit]) -> ObjectEdits {
    let mut done = ObjectEdits::default();
    let mut value = object.clone();
    for edit in edits {
        match operation(&value, edit) {
            Ok(None) => {}
            Ok(Some(operation)) => {
                if json_patch::patch(&mut value, std::slice::from_ref(&operation)).is_ok() {
                    done.operations.push(operation);
                    done.changed += 1;
                } else {
                    done.skipped.push(format!("{}: there is nothing that it could be added to", edit.path));
                }
            }
            Err(reason) => done.skipped.push(format!("{}: {reason}", edit.path)),
        }
    }
    done
}

/// The operation of one edit; `None` if the object has the new value.
fn operation(object: &Value, edit: &FieldEdit) -> Result<Option<PatchOperation>, String> {
    let path = FieldPath::parse(&edit.path);
    let mut keys = path.keys();
    // The deepest map or list on the way.
    let (mut at, mut pointer) = (object, PointerBuf::new());
    while let Some((key, rest)) = keys.split_first() {
        let next = match at {
            Value::Object(members) => members.get(key),
            Value::Array(items) => key.parse().ok().and_then(|index: usize| items.get(index)),
            _ => None,
        };
        let Some(next) = next.filter(|next| !next.is_null()) else { break };
        if rest.is_empty() && edit.before.is_none() && at.is_array() {
            // A new item: what is at its place is another one.
            break;
        }
        (at, keys) = (next, rest);
        pointer.push_back(key.as_str());
    }
    match (keys, &edit.after) {
        // The field is there.
        ([], after) => {
            if after.as_ref() == Some(at) {
                return Ok(None);
            }
            if edit.before.as_ref() != Some(at) {
                return Err(differs(&at.to_string(), edit));
            }
            Ok(Some(match after {
                Some(after) => PatchOperation::Replace(ReplaceOperation { path: pointer, value: after.clone() }),
                None => PatchOperation::Remove(RemoveOperation { path: pointer }),
            }))
        }
        (_, None) => Ok(None),
        (_, Some(_)) if edit.before.is_some() => Err(differs("no value", edit)),
        ([key, rest @ ..], Some(after)) => {
            let (key, value) = match at {
                Value::Array(items) if rest.is_empty() => {
                    if items.contains(after) {
                        return Ok(None);
                    }
                    (items.len().to_string(), after.clone())
                }
                Value::Object(_) => (key.clone(), below(rest, after)),
                _ => return Err("the fields around it are of another type than in the cluster".to_owned()),
            };
            pointer.push_back(key);
            Ok(Some(PatchOperation::Add(AddOperation { path: pointer, value })))
        }
    }
}

/// The value at the end of keys that do not exist yet.
fn below(keys: &[String], value: &Value) -> Value {
    keys.iter().rev().fold(value.clone(), |value, key| {
        let is_index = key.bytes().all(|byte| byte.is_ascii_digit());
        if is_index { json!([value]) } else { json!({ key.as_str(): value }) }
    })
}

fn differs(found: &str, edit: &FieldEdit) -> String {
    let live = edit.before.as_ref().map_or_else(|| "no value".to_owned(), Value::to_string);
    format!("the file has {} and the cluster {}", shorten(found, QUOTED), shorten(&live, QUOTED))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn edit(path: &str, before: Option<Value>, after: Option<Value>) -> FieldEdit {
        FieldEdit { path: path.to_owned(), before, after, why: String::new(), confidence: None }
    }

    #[test]
    fn an_edit_is_made_where_the_file_has_the_value_of_the_cluster() {
        let selector = "spec.nodeSelector[kubernetes.azure.com/os-sku]";
        let object = json!({"spec": {"nodeSelector": {"kubernetes.azure.com/os-sku": "Windows2022"}, "tolerations": [{"key": "os"}]}});
        let table = [
            (edit(selector, Some("Windows2022".into()), Some("Windows2025".into())), Ok("replace")),
            (edit(selector, Some("Windows2022".into()), None), Ok("remove")),
            (
                edit(selector, Some("Windows2019".into()), Some("Windows2025".into())),
                Err("the file has \"Windows2022\" and the cluster \"Windows2019\""),
            ),
            (
                edit(selector, None, Some("Windows2025".into())),
                Err("the file has \"Windows2022\" and the cluster no value"),
            ),
            (edit(selector, Some("Windows2019".into()), Some("Windows2022".into())), Ok("")),
            (edit("spec.nodeSelector[a/b]", None, Some("x".into())), Ok("add")),
            (
                edit("spec.nodeSelector[a/b]", Some("x".into()), Some("y".into())),
                Err("the file has no value and the cluster \"x\""),
            ),
            (edit("spec.nodeSelector[a/b]", Some("x".into()), None), Ok("")),
            // The cluster has one more toleration than the file.
            (edit("spec.tolerations[2]", None, Some(json!({"key": "new"}))), Ok("add")),
            (edit("spec.tolerations[0]", None, Some(json!({"key": "new"}))), Ok("add")),
            (edit("spec.tolerations[2]", None, Some(json!({"key": "os"}))), Ok("")),
            (edit("spec.affinity.nodeAffinity", None, Some(json!({}))), Ok("add")),
            (
                edit("spec.nodeSelector[kubernetes.azure.com/os-sku].deeper", None, Some("x".into())),
                Err("the fields around it are of another type than in the cluster"),
            ),
            (
                edit("spec.tolerations[7].key", Some("x".into()), Some("y".into())),
                Err("the file has no value and the cluster \"x\""),
            ),
        ];
        for (edit, expected) in table {
            let found = operation(&object, &edit);
            let name = |operation: &PatchOperation| {
                serde_json::to_value(operation).unwrap()["op"].as_str().unwrap().to_owned()
            };
            let found = found.map(|operation| operation.as_ref().map(name).unwrap_or_default());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{edit:?}");
        }
    }

    #[test]
    fn missing_maps_and_lists_are_made() {
        let edits = [
            edit("spec.template.spec.tolerations[0]", None, Some(json!({"key": "a"}))),
            edit("spec.template.spec.tolerations[1]", None, Some(json!({"key": "b"}))),
            edit("spec.template.spec.affinity.nodeAffinity.required", None, Some(json!([1]))),
        ];
        let mut object = json!({"spec": {"template": {"spec": {"tolerations": null}}}});
        let done = object_edits(&object, &edits);
        json_patch::patch(&mut object, &done.operations).unwrap();
        assert_eq!(
            object["spec"]["template"]["spec"],
            json!({"tolerations": [{"key": "a"}, {"key": "b"}], "affinity": {"nodeAffinity": {"required": [1]}}})
        );
        assert_eq!((done.changed, object_edits(&object, &edits)), (3, ObjectEdits::default()), "and once only");
    }
}
