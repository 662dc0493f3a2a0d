//! A copy of a pod's spec that is edited field by field, with the edits.

use mullion_engine::model::json_pointer::{escape, field_path, unescape};
use serde_json::{Map, Value};

use crate::report::{FieldEdit, ProposalConfidence};

/// The fields of a pod's spec that are edited, below the spec.
pub(super) const SELECTOR: &str = "/nodeSelector";
pub(super) const TOLERATIONS: &str = "/tolerations";
pub(super) const RUNTIME_CLASS: &str = "/runtimeClassName";
pub(super) const REQUIRED: &str = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const TERMS: &str =
    "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// A pod's spec that is edited.
pub(super) struct PodSpec<'v> {
    /// As it is.
    pub(super) before: &'v Value,
    /// With the edits.
    pub(super) after: Value,
    pub(super) edits: Vec<FieldEdit>,
    /// JSON pointer to the spec in its object.
    pointer: String,
}

impl<'v> PodSpec<'v> {
    pub(super) fn new(before: &'v Value, pointer: String) -> Self {
        Self { before, after: before.clone(), edits: Vec::new(), pointer }
    }

    /// Members of a map of texts: of the node selector.
    pub(super) fn pairs(&self, below: &str) -> Vec<(String, String)> {
        let map = self.after.pointer(below).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    }

    /// Items of a list.
    pub(super) fn items(&self, below: &str) -> &[Value] {
        self.after.pointer(below).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn text(&self, below: &str) -> Option<&str> {
        self.after.pointer(below).and_then(Value::as_str)
    }

    /// Sets a field, or removes it.
    pub(super) fn set(&mut self, below: &str, value: Option<Value>, why: &str) {
        self.set_image(below, value, why, None);
    }

    /// Sets a label of the node selector, or removes it.
    pub(super) fn select(&mut self, label: &str, value: Option<&str>, why: &str) {
        self.set(&format!("{SELECTOR}/{}", escape(label)), value.map(Value::from), why);
    }

    /// Sets a field that may be an image.
    pub(super) fn set_image(
        &mut self,
        below: &str,
        value: Option<Value>,
        why: &str,
        confidence: Option<ProposalConfidence>,
    ) {
        let before = self.after.pointer(below).filter(|value| !value.is_null()).cloned();
        if before == value {
            return;
        }
        put(&mut self.after, below, value.clone());
        let path = field_path(&format!("{}{below}", self.pointer));
        self.edits.push(FieldEdit { path, before, after: value, why: why.to_owned(), confidence });
    }

    /// The edit of an image that is still to be built or found. It is not made: each way to make the change writes it.
    pub(super) fn open_image(&self, below: &str, after: &str, why: String) -> FieldEdit {
        FieldEdit {
            path: field_path(&format!("{}{below}", self.pointer)),
            before: self.before.pointer(below).filter(|value| !value.is_null()).cloned(),
            after: Some(after.into()),
            why,
            confidence: None,
        }
    }

    /// Adds an item to a list.
    pub(super) fn push(&mut self, below: &str, item: Value, why: &str) {
        let at = self.items(below).len();
        self.set(&format!("{below}/{at}"), Some(item), why);
    }
}

/// Sets or removes the value at a pointer; maps on the way are made, and an index at the end of a list adds an item.
fn put(root: &mut Value, pointer: &str, value: Option<Value>) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    if value.is_none() && root.pointer(pointer).is_none() {
        return;
    }
    let mut at = root;
    for token in parent.split('/').skip(1) {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        at = match at {
            Value::Object(members) => members.entry(unescape(token).into_owned()).or_insert(Value::Null),
            Value::Array(items) => match token.parse().ok().and_then(|index: usize| items.get_mut(index)) {
                Some(item) => item,
                None => return,
            },
            _ => return,
        };
    }
    if at.is_null() {
        // The only lists that are begun here are those of `PodSpec::push`.
        *at = if last == "0" { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
    }
    match (at, value) {
        (Value::Object(members), Some(value)) => {
            members.insert(unescape(last).into_owned(), value);
        }
        (Value::Object(members), None) => {
            members.remove(&*unescape(last));
        }
        (Value::Array(items), value) => {
            let Ok(index) = last.parse::<usize>() else { return };
            match (items.get_mut(index), value) {
                (Some(item), Some(value)) => *item = value,
                (Some(_), None) => {
                    items.remove(index);
                }
                (None, Some(value)) => items.push(value),
                (None, None) => {}
            }
        }
        _ => {}
    }
}
