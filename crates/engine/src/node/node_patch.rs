//! The plan for one node: its patch, and the reasons for it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::model::cluster::Taint;
use crate::model::names::OWNED_ANNOTATION;
use crate::node::facts::NodeFacts;

/// What to do with a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// The change; `None` if the node needs no change, or must be left unchanged.
    pub patch: Option<NodePatch>,
    /// A sentence for each change; under `mode: Audit`, for each change that would be made; or why a change is not
    /// made.
    pub reasons: Vec<String>,
    /// The taint that it adds; under `mode: Audit`, that it would add.
    pub taint: Option<Taint>,
    /// Why the taint is missing although the policy wants it.
    pub hold: TaintHold,
    /// Whether `mode: Audit` withheld a change or a wait.
    pub withheld: bool,
    /// A taint on the node that only the node's own record names as Mullion's. It stays.
    pub unproved: Option<Taint>,
}

/// What keeps a wanted taint off a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaintHold {
    /// The taint is not withheld.
    #[default]
    None,
    /// It waits for workloads that do not tolerate it yet.
    Waiting,
    /// Someone removes it repeatedly.
    Contested,
    /// It is not one of Mullion's own taints yet: the next controller could not know that it is Mullion's.
    NotRecorded,
}

/// A change of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// Labels by key; `None` removes the label.
    pub labels: BTreeMap<String, Option<String>>,
    /// The new value of `OWNED_ANNOTATION`: `Some(None)` removes it, `None` leaves it unchanged.
    pub owned: Option<Option<String>>,
    /// The complete new list of taints; `None` leaves it unchanged.
    pub taints: Option<Vec<Value>>,
}

impl NodePlan {
    /// Whether there is nothing to read, write or report.
    pub fn is_idle(&self) -> bool {
        self.patch.is_none() && self.hold == TaintHold::None && !self.withheld && self.unproved.is_none()
    }
}

impl NodePatch {
    /// The body of a JSON merge patch. With the `resourceVersion` that the plan was made from, the API server rejects
    /// the patch (409) if anyone has changed the node since. Without that check the list of taints, which is replaced
    /// as a whole, would undo their change.
    pub fn to_merge_patch(&self, resource_version: &str) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), json!(resource_version));
        if !self.labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(self.labels));
        }
        if let Some(owned) = &self.owned {
            metadata.insert("annotations".to_owned(), json!({ OWNED_ANNOTATION: owned }));
        }
        let mut body = json!({ "metadata": metadata });
        // An empty list, not null: for an atomic list null means no change, and a later default may fill it.
        if let (Some(taints), Value::Object(body)) = (&self.taints, &mut body) {
            body.insert("spec".to_owned(), json!({ "taints": taints }));
        }
        body
    }

    /// The node as the API server stores it after the patch.
    #[must_use]
    pub fn apply(&self, node: &NodeFacts) -> NodeFacts {
        let mut node = node.clone();
        let mut set = |map: fn(&mut NodeFacts) -> &mut BTreeMap<String, String>, key: &str, value: &Option<String>| {
            match value {
                Some(value) => map(&mut node).insert(key.to_owned(), value.clone()),
                None => map(&mut node).remove(key),
            };
        };
        for (key, value) in &self.labels {
            set(|node| &mut node.labels, key, value);
        }
        if let Some(owned) = &self.owned {
            set(|node| &mut node.annotations, OWNED_ANNOTATION, owned);
        }
        if let Some(taints) = &self.taints {
            node.taints.clone_from(taints);
        }
        node
    }
}
