//! Limits of the lists and maps of an object whose tree would take more memory than its review may: the items beyond
//! them are not read, and the response names their members.
//!
//! A tree takes up to thirty times the memory of its text, so that a tree of the largest object that etcd stores does
//! not fit into the memory of the webhook. Everything outside long lists is reviewed whatever the size of the object.

use std::cell::RefCell;

use json_patch::PatchOperation;
use mullion_engine::model::names::CONTAINER_LISTS;
use mullion_engine::model::scheduling::SETS;
use mullion_engine::model::text::prefix;
use serde_json::Value;

/// The maximum number of members of which the names are kept. No object of Kubernetes has as many lists.
const MOST_NAMES: usize = 64;
/// The longest name that is kept, in bytes; those of Kubernetes have at most 47.
const LONGEST_NAME: usize = 63;

/// How many items are read of each list, and how many entries of each map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingLimits {
    list: usize,
    /// Of a list of containers: most rules are about them.
    containers: usize,
    /// Of a map; the fields of every type of Kubernetes are fewer.
    map: usize,
}

/// The limits that are tried one after the other until the tree fits.
pub(crate) const STEPS: [ReadingLimits; 5] = [
    ReadingLimits { list: 4_096, containers: usize::MAX, map: 16_384 },
    ReadingLimits { list: 512, containers: usize::MAX, map: 4_096 },
    ReadingLimits { list: 64, containers: usize::MAX, map: 512 },
    ReadingLimits { list: 8, containers: 4_096, map: 128 },
    ReadingLimits { list: 1, containers: 512, map: 64 },
];

/// The reading of one object under limits, and the members of which a part was not read so far.
pub(super) struct LimitedReading {
    limits: ReadingLimits,
    cut: RefCell<CutMembers>,
}

impl LimitedReading {
    pub(super) fn new(limits: ReadingLimits) -> Self {
        Self { limits, cut: RefCell::default() }
    }

    /// The maximum number of items of a list in that member.
    pub(super) fn items(&self, member: &str) -> usize {
        if CONTAINER_LISTS.contains(&member) { self.limits.containers } else { self.limits.list }
    }

    /// The maximum number of entries of a map.
    pub(super) fn entries(&self) -> usize {
        self.limits.map
    }

    /// Records that a part of that member is not read.
    pub(super) fn cut(&self, member: &str) {
        add(&mut self.cut.borrow_mut().unread, member);
    }

    /// Records that repeated items of that member are read once.
    pub(super) fn shorten(&self, member: &str) {
        add(&mut self.cut.borrow_mut().shortened, member);
    }

    pub(super) fn into_cut(self) -> CutMembers {
        self.cut.into_inner()
    }
}

fn add(names: &mut Vec<Box<str>>, member: &str) {
    let name = prefix(member, LONGEST_NAME);
    if names.len() < MOST_NAMES && !names.iter().any(|known| **known == *name) {
        names.push(name.into());
    }
}

/// The names of the members that were not read to their end. Usually empty.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CutMembers {
    /// Their first items were read.
    unread: Vec<Box<str>>,
    /// Repeated items were read once.
    shortened: Vec<Box<str>>,
}

/// Whether a repeated item of a list in that member changes nothing.
pub(super) fn is_set(member: &str) -> bool {
    SETS.contains(&member)
}

impl CutMembers {
    /// The names of the members of which a part was not reviewed.
    pub(crate) fn unread(&self) -> &[Box<str>] {
        &self.unread
    }

    /// The names of the members of which repeated items were read once.
    pub(crate) fn shortened(&self) -> &[Box<str>] {
        &self.shortened
    }

    /// Whether the operation has the same effect on the whole object: it writes no list that was not read to its end,
    /// and addresses no item by a position in a shortened one.
    pub(crate) fn permit(&self, operation: &PatchOperation) -> bool {
        let Self { unread, shortened } = self;
        if unread.is_empty() && shortened.is_empty() {
            return true;
        }
        if unread.len().max(shortened.len()) >= MOST_NAMES {
            return false;
        }
        let path = operation.path().as_str();
        let tokens = || path.split('/');
        let written = tokens().next_back().is_some_and(|last| self.has(last));
        let is_index = |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
        let addressed = tokens().zip(tokens().skip(1)).any(|(list, item)| has(shortened, list) && is_index(item));
        let value = match operation {
            PatchOperation::Add(add) => Some(&add.value),
            PatchOperation::Replace(replace) => Some(&replace.value),
            PatchOperation::Test(test) => Some(&test.value),
            PatchOperation::Remove(_) | PatchOperation::Move(_) | PatchOperation::Copy(_) => None,
        };
        !(written || addressed || value.is_some_and(|value| self.is_in(value)))
    }

    fn has(&self, member: &str) -> bool {
        has(&self.unread, member) || has(&self.shortened, member)
    }

    fn is_in(&self, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| self.is_in(item)),
            Value::Object(members) => members.iter().any(|(name, value)| self.has(name) || self.is_in(value)),
            _ => false,
        }
    }
}

fn has(names: &[Box<str>], member: &str) -> bool {
    names.iter().any(|name| **name == *prefix(member, LONGEST_NAME))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_writes_no_list_that_was_not_read_to_its_end() {
        let cut = CutMembers {
            unread: vec!["volumes".into(), "matchExpressions".into()],
            shortened: vec!["matchExpressions".into(), "tolerations".into()],
        };
        for (operation, is_permitted) in [
            (json!({"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/os": "windows"}}), true),
            (json!({"op": "add", "path": "/spec/tolerations/-", "value": {"key": "os"}}), true),
            (json!({"op": "remove", "path": "/spec/volumes/3/hostPath/type"}), true),
            (json!({"op": "add", "path": "/spec/terms/3/matchExpressions/-", "value": {"key": "a"}}), true),
            (json!({"op": "replace", "path": "/spec/tolerations", "value": [{"key": "os"}]}), false),
            (json!({"op": "remove", "path": "/spec/tolerations"}), false),
            (json!({"op": "remove", "path": "/spec/tolerations/3"}), false),
            (json!({"op": "replace", "path": "/spec/terms/3/matchExpressions/0/values", "value": ["a"]}), false),
            (json!({"op": "add", "path": "/spec/terms/3", "value": {"matchExpressions": []}}), false),
            (json!({"op": "replace", "path": "/spec/terms", "value": [{"matchExpressions": []}]}), false),
        ] {
            let read: PatchOperation = serde_json::from_value(operation.clone()).unwrap();
            assert_eq!(cut.permit(&read), is_permitted, "{operation}");
            assert!(CutMembers::default().permit(&read), "{operation}");
        }
    }
}
