//! A set of JSON values.

use std::collections::HashSet;

use serde_json::Value;

/// The items of a list, for many look-ups. They are stored as text, because JSON values have no hash. Equal values have
/// equal texts, because the members of an object are sorted.
pub(crate) struct ValueSet(HashSet<String>);

impl ValueSet {
    /// The set of the items of `list`.
    pub(crate) fn of(list: &[Value]) -> Self {
        Self(list.iter().map(Value::to_string).collect())
    }

    /// Whether an item of the list equals `value`.
    pub(crate) fn has(&self, value: &Value) -> bool {
        self.0.contains(&value.to_string())
    }
}
