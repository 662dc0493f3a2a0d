//! One pod of an object, as its controller creates it.

use serde_json::Value;

use crate::pod_templates::part::Origins;

/// A pod that a controller creates from an object.
#[derive(Debug)]
pub struct TemplatePod {
    /// JSON pointer to the part of the object that the pod is created from.
    pub site: String,
    /// The pod.
    pub pod: Value,
    /// Whether the part is a complete pod template.
    pub is_template: bool,
    /// JSON pointer to where the object has the pod's labels and annotations.
    pub metadata_pointer: String,
    /// What of it is only in the cluster and could decide its operating system, as a clause.
    pub unknown: Option<String>,
    pub(crate) origins: Origins,
}

/// A part of an object that has pods and could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadTemplate {
    /// JSON pointer to the part.
    pub pointer: String,
    /// Why, as a clause.
    pub why: String,
}

impl TemplatePod {
    /// The place in the object of what is at `pointer` of the pod; the part that the pod is created from, if its
    /// controller adds it.
    pub fn origin(&self, pointer: &str) -> String {
        self.origins.of(pointer).unwrap_or_else(|| self.site.clone())
    }

    /// Whether what is at `pointer` of the pod comes from the object.
    pub fn is_authored(&self, pointer: &str) -> bool {
        self.origins.of(pointer).is_some()
    }
}
