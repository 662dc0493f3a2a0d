//! Compiles changes into one JSON Patch (RFC 6902).
//!
//! The operations are chosen one by one and not computed as a diff: audit logs store the patch as it is, and index-wise
//! diffs of lists are unreadable there and dangerous beside other webhooks.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::{Value, json};

use crate::model::json_pointer::member;
use crate::model::{Change, Edit};

/// Compiles `changes` into the operations that turn `object` into the changed object, in an order in which each
/// applies: parents before children, removals last and list items from the highest index down.
///
/// An edit that cannot apply (its parent is not an object) is left out. A patch that fails is an internal error to the
/// user, even if the webhook's failure policy is Ignore.
pub fn compile<'c>(object: &Value, changes: impl IntoIterator<Item = &'c Change>) -> Vec<PatchOperation> {
    let mut compiler = Compiler { object, made: BTreeSet::new(), operations: Vec::new() };
    let mut removals: Vec<&str> = Vec::new();
    for change in changes {
        match &change.edit {
            Edit::Set { pointer, value } => compiler.set(pointer, value),
            Edit::Append { pointer, value } => compiler.append(pointer, value),
            Edit::Remove { pointer } => removals.push(pointer),
        }
    }
    // Later list items come before earlier ones, so that no removal changes the index of another.
    removals.sort_by_cached_key(|pointer| Reverse(sort_key(pointer)));
    removals.dedup();
    for pointer in removals {
        if member(object, pointer).is_some() {
            compiler.push(pointer, |path| PatchOperation::Remove(RemoveOperation { path }));
        }
    }
    compiler.operations
}

/// The tokens of a pointer; indices are compared as numbers.
fn sort_key(pointer: &str) -> Vec<(u64, &str)> {
    pointer.split('/').map(|token| (token.parse().unwrap_or(0), token)).collect()
}

struct Compiler<'a> {
    object: &'a Value,
    /// Parents and lists that earlier operations created.
    made: BTreeSet<String>,
    operations: Vec<PatchOperation>,
}

impl Compiler<'_> {
    fn set(&mut self, pointer: &str, value: &Value) {
        let Some((parent, _)) = pointer.rsplit_once('/') else { return };
        if !self.make_object(parent) {
            return;
        }
        let value = value.clone();
        let present = member(self.object, pointer);
        // A later append adds to this list.
        if value.is_array() && !present.is_some_and(Value::is_array) {
            self.made.insert(pointer.to_owned());
        }
        match present {
            Some(present) if *present == value => {}
            Some(_) => self.push(pointer, |path| PatchOperation::Replace(ReplaceOperation { path, value })),
            None => self.push(pointer, |path| PatchOperation::Add(AddOperation { path, value })),
        }
    }

    fn append(&mut self, pointer: &str, value: &Value) {
        let present = member(self.object, pointer).is_some_and(Value::is_array);
        if present || self.made.contains(pointer) {
            let value = value.clone();
            self.push(&format!("{pointer}/-"), |path| PatchOperation::Add(AddOperation { path, value }));
            return;
        }
        let Some((parent, _)) = pointer.rsplit_once('/') else { return };
        let absent = member(self.object, pointer).is_none_or(Value::is_null);
        if absent && self.make_object(parent) {
            let value = json!([value]);
            self.push(pointer, |path| PatchOperation::Add(AddOperation { path, value }));
            self.made.insert(pointer.to_owned());
        }
    }

    /// Makes `pointer` an object, after its parents; false if it has a value of another type.
    fn make_object(&mut self, pointer: &str) -> bool {
        match member(self.object, pointer) {
            Some(Value::Object(_)) => return true,
            Some(Value::Null) | None => {}
            Some(_) => return false,
        }
        if self.made.contains(pointer) {
            return true;
        }
        let Some((parent, _)) = pointer.rsplit_once('/') else { return false };
        if !self.make_object(parent) {
            return false;
        }
        self.push(pointer, |path| PatchOperation::Add(AddOperation { path, value: json!({}) }));
        self.made.insert(pointer.to_owned());
        true
    }

    fn push(&mut self, pointer: &str, operation: impl FnOnce(PointerBuf) -> PatchOperation) {
        if let Ok(path) = PointerBuf::parse(pointer) {
            self.operations.push(operation(path));
        }
    }
}
