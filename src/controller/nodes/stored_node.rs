//! Nodes as they are stored between their changes.

use mullion_engine::model::names::OWNED_ANNOTATION;
use mullion_engine::node::{NodeFacts, plan_reads_label};

use crate::cluster::SlimNode;

/// One version of a node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ObservedNode {
    pub(crate) facts: NodeFacts,
    pub(crate) version: String,
    pub(crate) uid: Option<String>,
}

/// The same in less memory: JSON takes a fifth of the parsed size, and 5,000 nodes are stored.
#[derive(Debug)]
pub(crate) struct StoredNode {
    facts: Box<str>,
    pub(crate) version: Box<str>,
    pub(crate) uid: Option<Box<str>>,
}

impl From<ObservedNode> for StoredNode {
    fn from(ObservedNode { facts, version, uid }: ObservedNode) -> Self {
        // Strings and JSON, so serialization does not fail.
        let facts = serde_json::to_string(&facts).unwrap_or_default();
        // A copy, because the text has room to grow, which mimalloc does not free in a reallocation to more than half.
        Self { facts: facts.as_str().into(), version: version.into(), uid: uid.map(Into::into) }
    }
}

impl StoredNode {
    /// The input of a plan.
    pub(crate) fn facts(&self) -> NodeFacts {
        serde_json::from_str(&self.facts).unwrap_or_default()
    }

    pub(crate) fn observed(&self) -> ObservedNode {
        let uid = self.uid.as_deref().map(str::to_owned);
        ObservedNode { facts: self.facts(), version: self.version.to_string(), uid }
    }

    /// Whether both are versions of the same object.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    /// Whether it is an older version of the same object. Versions are increasing numbers (KEP-5504); versions that are
    /// not numbers have no order.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let number = |node: &Self| node.version.parse::<u64>().ok();
        self.is_same(other) && number(self).zip(number(other)).is_some_and(|(one, other)| one < other)
    }

    /// Whether it is the same object with the same facts.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.is_same(other) && self.facts == other.facts
    }
}

/// The members of a node that are read, under its name.
pub(crate) fn observe(node: SlimNode) -> (String, ObservedNode) {
    let metadata = node.metadata;
    let name = metadata.name.unwrap_or_default();
    let annotations = metadata.annotations.unwrap_or_default();
    let facts = NodeFacts {
        name: name.clone(),
        // All 24 labels of 5,000 nodes take 20 MB. The snapshot has them too, and shares equal ones.
        labels: metadata.labels.unwrap_or_default().into_iter().filter(|(key, _)| plan_reads_label(key)).collect(),
        // Only the annotation that is read, because a node's other annotations can be large.
        annotations: annotations.into_iter().filter(|(key, _)| key == OWNED_ANNOTATION).collect(),
        taints: node.spec.taints,
        kernel_version: node.status.node_info.kernel_version,
    };
    (name, ObservedNode { facts, version: metadata.resource_version.unwrap_or_default(), uid: metadata.uid })
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn only_versions_that_are_numbers_have_an_order() {
        let node = |version: &str| StoredNode { facts: "{}".into(), version: version.into(), uid: None };
        let is_older = |version: &str, than: &str| node(version).is_before(&node(than));
        assert!(is_older("9", "10") && !is_older("10", "9") && !is_older("9", "9"));
        assert!(!is_older("a", "10") && !is_older("1", ""));
    }
}
