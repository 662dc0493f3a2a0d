//! The changes that place a workload: selector, tolerations, builds, RuntimeClass and the OS field.

use serde_json::Value;

use crate::model::{Cause, Change, Edit};

/// Changes, and the entries for them in
/// [`DecisionAnnotation::placed`](crate::model::DecisionAnnotation::placed).
#[derive(Debug)]
pub(crate) struct PlacementChanges<'a> {
    /// The object to change.
    object: &'a Value,
    /// In the order in which they apply.
    pub(crate) changes: Vec<Change>,
    /// One entry for each kind of change.
    pub(crate) words: Vec<String>,
}

impl<'a> PlacementChanges<'a> {
    /// An empty set of changes for `object`.
    pub(crate) fn on(object: &'a Value) -> Self {
        Self { object, changes: Vec::new(), words: Vec::new() }
    }

    /// Adds an edit, unless a parent is of the wrong type, which the API server itself rejects.
    pub(crate) fn push(&mut self, reason: &'static str, edit: Edit, word: impl Into<String>) {
        self.push_all(reason, edit, [word.into()]);
    }

    /// Adds an edit that places several things.
    pub(crate) fn push_all(&mut self, reason: &'static str, edit: Edit, words: impl IntoIterator<Item = String>) {
        if edit.applies_to(self.object) {
            self.changes.push(Change { cause: Cause::Placement(reason), edit });
            self.words.extend(words);
        }
    }
}
