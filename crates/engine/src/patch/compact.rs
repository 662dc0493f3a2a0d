//! Compacts a patch: several operations in one `securityContext` or one list become one that writes its final value.
//!
//! An operation contains the whole path, which is longer than most values: a patch that removes three fields in each of
//! many containers would be several times as long as the pod. Only objects and lists that the webhook parses whole are
//! replaced. A container and a pod's `spec` are not replaced, because members that were not parsed (`env`) would be
//! lost.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use serde_json::Value;

use crate::model::json_pointer::{member, unescape};
use crate::model::names::CONTAINER_LISTS;
use crate::model::pod_view::is_read_whole;

/// The number of operations on one member from which on its final value is written.
const SEVERAL: usize = 2;

/// The same number for lists and maps that several authors share: in an audit log, single operations show better what
/// Mullion changed, unless there are more than a person reads.
const MANY: usize = 50;

/// Members that one operation can write whole: the member that contains it (`None`: an item of a container list), its
/// name, and the number of operations from which on it is written whole.
const MEMBERS: [(Option<&str>, &str, usize); 6] = [
    (Some("spec"), "securityContext", SEVERAL),
    (None, "securityContext", SEVERAL),
    (Some("spec"), "tolerations", SEVERAL),
    (None, "volumeMounts", MANY),
    (Some("metadata"), "annotations", MANY),
    (Some("requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms", MANY),
];

/// Returns a patch with fewer operations and the same result on `object`. `operations` come from
/// [`compile`](crate::patch::compile()): none of them changes what is around such a member after its first operation,
/// and removals come last, later list items first.
pub(crate) fn compact(object: &Value, operations: Vec<PatchOperation>) -> Vec<PatchOperation> {
    if operations.len() < SEVERAL {
        return operations;
    }
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for operation in &operations {
        if let Some((pointer, least)) = member_of(operation.path().as_str()) {
            groups.entry(pointer).or_insert_with(|| Group::new(pointer, least)).operations.push(operation);
        }
    }
    let mut replacements: BTreeMap<&str, Vec<PatchOperation>> =
        groups.iter().filter_map(|(pointer, group)| Some((*pointer, group.replacement(object)?))).collect();
    if replacements.is_empty() {
        return operations;
    }
    let mut compacted = Vec::new();
    for operation in &operations {
        let pointer = member_of(operation.path().as_str()).map(|(pointer, _)| pointer);
        match pointer.and_then(|pointer| replacements.get_mut(pointer)) {
            // The replacement takes the position of the first operation of the group; the other operations are dropped.
            Some(replacement) => compacted.append(replacement),
            None => compacted.push(operation.clone()),
        }
    }
    compacted
}

/// The pointer of the member of [`MEMBERS`] at or above `path`, and the number of operations from which on it is
/// written whole.
fn member_of(path: &str) -> Option<(&str, usize)> {
    let (mut list, mut parent) = ("", "");
    let mut end = 0;
    for token in path.split('/') {
        let in_list = CONTAINER_LISTS.contains(&list);
        let found = MEMBERS.iter().find(|(of, name, _)| token == *name && of.map_or(in_list, |of| parent == of));
        end += token.len();
        if let Some((_, _, least)) = found {
            return Some((path.get(..end)?, *least));
        }
        // Skips the slash after the token.
        end += 1;
        (list, parent) = (parent, token);
    }
    None
}

/// The operations on one member and on what is below it.
struct Group<'a> {
    pointer: &'a str,
    least: usize,
    operations: Vec<&'a PatchOperation>,
}

impl<'a> Group<'a> {
    fn new(pointer: &'a str, least: usize) -> Self {
        Self { pointer, least, operations: Vec::new() }
    }

    /// The operation that replaces the group's operations, or no operation if they have no effect; `None` if the
    /// group's own operations stay.
    fn replacement(&self, object: &Value) -> Option<Vec<PatchOperation>> {
        if self.operations.len() < self.least {
            return None;
        }
        let present = member(object, self.pointer);
        if !present.is_none_or(is_read_whole) {
            return None;
        }
        let path = PointerBuf::parse(self.pointer).ok()?;
        let mut value = present.cloned();
        self.apply_to(&mut value)?;
        let operation = match (present, value) {
            (Some(present), Some(value)) if *present == value => None,
            (Some(_), Some(value)) => Some(PatchOperation::Replace(ReplaceOperation { path, value })),
            (None, Some(value)) => Some(PatchOperation::Add(AddOperation { path, value })),
            (Some(_), None) => Some(PatchOperation::Remove(RemoveOperation { path })),
            (None, None) => None,
        };
        Some(operation.into_iter().collect())
    }

    /// Applies the operations to the member's value; `None` if one of them cannot be applied.
    ///
    /// This does not use `json_patch`, which removes list items one by one, in quadratic time.
    fn apply_to(&self, value: &mut Option<Value>) -> Option<()> {
        // The items of a list are removed together at the end, when no other operation depends on an index.
        let mut removed_items: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for operation in &self.operations {
            let (path, new) = match operation {
                PatchOperation::Add(AddOperation { path, value })
                | PatchOperation::Replace(ReplaceOperation { path, value }) => (path, Some(value)),
                PatchOperation::Remove(RemoveOperation { path }) => (path, None),
                PatchOperation::Move(_) | PatchOperation::Copy(_) | PatchOperation::Test(_) => return None,
            };
            let Some((parent, token)) = path.as_str().strip_prefix(self.pointer)?.rsplit_once('/') else {
                *value = new.cloned();
                continue;
            };
            match (value.as_mut()?.pointer_mut(parent)?, new) {
                (Value::Object(members), Some(new)) => drop(members.insert(unescape(token).into_owned(), new.clone())),
                (Value::Object(members), None) => drop(members.remove(&*unescape(token))?),
                (Value::Array(items), Some(new)) if token == "-" => items.push(new.clone()),
                (Value::Array(_), None) => drop(removed_items.entry(parent).or_default().insert(token.parse().ok()?)),
                _ => return None,
            }
        }
        // Lists inside items come before the list of these items, because removals change its indices.
        for (list, indices) in removed_items.iter().rev() {
            let items = value.as_mut()?.pointer_mut(list)?.as_array_mut()?;
            let mut index = 0..;
            items.retain(|_| index.next().is_none_or(|index| !indices.contains(&index)));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
