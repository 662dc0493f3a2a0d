//! Intended edits, and the one JSON Patch they become.
//!
//! Hand-built operations rather than a diff: audit logs store the patch as it is, and index-wise diffs of lists are
//! unreadable there and dangerous beside other webhooks.

use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf};
use serde_json::{Value, json};

use super::pod::member;

/// One intended edit with its cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Why.
    pub cause: Cause,
    /// What.
    pub edit: Edit,
}

/// Why a subject is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It follows from the verdict; the reason as a clause.
    Placement(&'static str),
    /// A rule repairs it; its code.
    Rule(&'static str),
}

/// One edit. Pointers are JSON pointers into the whole object.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Sets a member of an object; missing parents are made.
    Set {
        /// Of the member.
        pointer: String,
        /// Its new value.
        value: Value,
    },
    /// Removes a member of an object or an item of a list; nothing happens where there is none.
    Remove {
        /// Of what goes.
        pointer: String,
    },
    /// Adds an item at the end of a list; a missing list is made.
    Append {
        /// Of the list.
        pointer: String,
        /// The item.
        value: Value,
    },
}

impl Edit {
    /// Of what is set or goes, or of the list that gets an item.
    pub fn pointer(&self) -> &str {
        let (Self::Set { pointer, .. } | Self::Remove { pointer } | Self::Append { pointer, .. }) = self;
        pointer
    }

    /// Whether the edit can be applied: nothing of another type stands where it needs an object or a list.
    pub fn applies_to(&self, object: &Value) -> bool {
        let (pointer, list) = match self {
            Self::Set { pointer, .. } => (pointer, false),
            Self::Append { pointer, .. } => (pointer, true),
            Self::Remove { pointer } => return member(object, pointer).is_some(),
        };
        let own = !list || member(object, pointer).is_none_or(|value| value.is_null() || value.is_array());
        let mut parents = std::iter::successors(pointer.rsplit_once('/'), |(parent, _)| parent.rsplit_once('/'));
        let nearest = parents.find_map(|(parent, _)| member(object, parent).filter(|value| !value.is_null()));
        own && nearest.is_some_and(Value::is_object)
    }
}

/// Compiles `changes` into the operations that turn `object` into the changed object, in an order in which each
/// applies: parents before children, removals last and list items from the highest index down.
///
/// An edit that cannot apply (its parent is no object) is left out: a patch that fails is an internal error to the
/// user, even where the webhook's failures are ignored.
pub fn compile(object: &Value, changes: &[Change]) -> Vec<PatchOperation> {
    let mut compiler = Compiler { object, made: Vec::new(), operations: Vec::new() };
    let mut removals: Vec<&str> = Vec::new();
    for change in changes {
        match &change.edit {
            Edit::Set { pointer, value } => compiler.set(pointer, value),
            Edit::Append { pointer, value } => compiler.append(pointer, value),
            Edit::Remove { pointer } => removals.push(pointer),
        }
    }
    removals.sort_by(|a, b| descending(a, b));
    removals.dedup();
    for pointer in removals {
        if member(object, pointer).is_some() {
            compiler.push(pointer, |path| PatchOperation::Remove(RemoveOperation { path }));
        }
    }
    compiler.operations
}

/// Later list items before earlier ones, so that no removal moves what another names.
fn descending(a: &str, b: &str) -> std::cmp::Ordering {
    let key = |pointer: &str| -> Vec<(u64, String)> {
        let tokens = pointer.split('/');
        tokens.map(|token| (token.parse().unwrap_or(0), token.to_owned())).collect()
    };
    key(b).cmp(&key(a))
}

struct Compiler<'a> {
    object: &'a Value,
    /// Parents and lists that earlier operations made.
    made: Vec<String>,
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
        // What is appended later joins what is written here.
        if value.is_array() && !present.is_some_and(Value::is_array) {
            self.made.push(pointer.to_owned());
        }
        match present {
            Some(present) if *present == value => {}
            Some(_) => self.push(pointer, |path| PatchOperation::Replace(ReplaceOperation { path, value })),
            None => self.push(pointer, |path| PatchOperation::Add(AddOperation { path, value })),
        }
    }

    fn append(&mut self, pointer: &str, value: &Value) {
        let present = member(self.object, pointer).is_some_and(Value::is_array);
        if present || self.made.iter().any(|made| made == pointer) {
            let value = value.clone();
            self.push(&format!("{pointer}/-"), |path| PatchOperation::Add(AddOperation { path, value }));
            return;
        }
        let Some((parent, _)) = pointer.rsplit_once('/') else { return };
        let absent = member(self.object, pointer).is_none_or(Value::is_null);
        if absent && self.make_object(parent) {
            let value = json!([value]);
            self.push(pointer, |path| PatchOperation::Add(AddOperation { path, value }));
            self.made.push(pointer.to_owned());
        }
    }

    /// Makes `pointer` an object, its parents first; false if something else stands there.
    fn make_object(&mut self, pointer: &str) -> bool {
        match member(self.object, pointer) {
            Some(Value::Object(_)) => return true,
            Some(Value::Null) | None => {}
            Some(_) => return false,
        }
        if self.made.iter().any(|made| made == pointer) {
            return true;
        }
        let Some((parent, _)) = pointer.rsplit_once('/') else { return false };
        if !self.make_object(parent) {
            return false;
        }
        self.push(pointer, |path| PatchOperation::Add(AddOperation { path, value: json!({}) }));
        self.made.push(pointer.to_owned());
        true
    }

    fn push(&mut self, pointer: &str, operation: impl FnOnce(PointerBuf) -> PatchOperation) {
        if let Ok(path) = PointerBuf::parse(pointer) {
            self.operations.push(operation(path));
        }
    }
}
