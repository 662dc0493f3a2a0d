//! Changes to a workload: edits with their causes, before they are compiled to one JSON Patch.
//!
//! The operations are chosen one by one and not computed as a diff: audit logs store the patch as it is, and index-wise
//! diffs of lists are unreadable there and dangerous beside other webhooks.

use serde_json::Value;

use crate::model::json_pointer::member;

/// One intended edit with its cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Its cause.
    pub cause: Cause,
    /// The edit.
    pub edit: Edit,
}

/// Why a workload is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It follows from the decision; the value is the reason as a clause.
    Placement(&'static str),
    /// A rule repairs it; the value is the rule's code.
    Rule(&'static str),
}

/// One edit. Pointers are JSON pointers into the whole object.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Sets a member of an object; missing parents are created.
    Set {
        /// The pointer of the member.
        pointer: String,
        /// Its new value.
        value: Value,
    },
    /// Removes a member of an object or an item of a list, if it exists.
    Remove {
        /// The pointer of the member or item.
        pointer: String,
    },
    /// Adds an item at the end of a list; a missing list is created.
    Append {
        /// The pointer of the list.
        pointer: String,
        /// The item.
        value: Value,
    },
}

impl Edit {
    /// The pointer of the member or item, or of the list that gets an item.
    pub fn pointer(&self) -> &str {
        let (Self::Set { pointer, .. } | Self::Remove { pointer } | Self::Append { pointer, .. }) = self;
        pointer
    }

    /// Whether the edit can be applied: every parent in its path is absent, an object or a list.
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
