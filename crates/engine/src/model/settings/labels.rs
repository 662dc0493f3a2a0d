//! Labels of an object, in any representation.

use std::collections::BTreeMap;

use serde_json::Value;

/// Labels of an object, in any representation: the labels of a reviewed pod stay raw JSON, so that no review builds a
/// map of them.
pub trait Labels {
    /// The value of the label with that key.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// The object under `metadata.labels`. Any other value has no labels.
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Self::as_str)
    }
}

impl<T: Labels> Labels for Option<T> {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_ref().and_then(|labels| labels.label(key))
    }
}

impl<T: Labels + ?Sized> Labels for &T {
    fn label(&self, key: &str) -> Option<&str> {
        T::label(self, key)
    }
}

/// No labels.
impl Labels for () {
    fn label(&self, _: &str) -> Option<&str> {
        None
    }
}
