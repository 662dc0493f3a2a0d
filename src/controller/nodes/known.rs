//! What is kept of nodes, of RuntimeClasses, and of everything that taints wait for.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::node::v1 as node_api;
use mullion_engine::model::cluster::nodes::Node;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::names::OWNED_ANNOTATION;
use mullion_engine::node::facts::{NodeFacts, is_read};
use mullion_engine::node::taint_blockers::DaemonSetFacts;
use mullion_policy::policy_set::PolicySet;
use mullion_policy::toleration_coverage::all_covered;
use mullion_snapshot::objects;

use crate::cluster::live::SlimNode;
use crate::controller::nodes::daemons::KnownDaemonSet;
use crate::controller::runtime_classes::Standing;

/// One node as it was last seen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) facts: NodeFacts,
    pub(crate) version: String,
    pub(crate) uid: Option<String>,
}

/// A node as it is kept: as JSON, a fifth of the size of what is read of it, and 5,000 of them are kept.
#[derive(Debug)]
pub(crate) struct Kept {
    facts: Box<str>,
    pub(crate) version: Box<str>,
    uid: Option<Box<str>>,
}

impl From<Known> for Kept {
    fn from(Known { facts, version, uid }: Known) -> Self {
        // Strings and JSON: cannot fail.
        let facts = serde_json::to_string(&facts).unwrap_or_default();
        Self { facts: facts.into(), version: version.into(), uid: uid.map(Into::into) }
    }
}

impl Kept {
    /// What a plan is made from.
    pub(crate) fn facts(&self) -> NodeFacts {
        serde_json::from_str(&self.facts).unwrap_or_default()
    }

    /// As it was seen.
    pub(crate) fn known(&self) -> Known {
        let uid = self.uid.as_deref().map(str::to_owned);
        Known { facts: self.facts(), version: self.version.to_string(), uid }
    }

    /// Whether it is the same object, older or newer.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    /// Whether it is an older version of the same object. Versions are numbers that grow (KEP-5504); of what is no number,
    /// nothing is known.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let number = |kept: &Self| kept.version.parse::<u64>().ok();
        self.is_same(other) && number(self).zip(number(other)).is_some_and(|(one, other)| one < other)
    }

    /// Whether it is the same object and says the same.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.is_same(other) && self.facts == other.facts
    }
}

/// What everything that waits for pods needs to know of the rest of the cluster; replaced as a whole.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// Those that could be for a Windows node.
    pub(crate) daemons: Arc<Vec<DaemonSetFacts>>,
    pub(crate) snapshot: Arc<ClusterSnapshot>,
    /// Whether no pod's successor would lack the toleration, whatever the pod: see [`all_covered`].
    pub(crate) covered: bool,
}

impl Neighbours {
    pub(crate) fn meet(
        daemons: &BTreeMap<String, KnownDaemonSet>,
        snapshot: Arc<ClusterSnapshot>,
        policies: &PolicySet,
    ) -> Self {
        let judged = daemons.iter().map(|(name, known)| known.judge(name, &snapshot, policies));
        Self { daemons: Arc::new(judged.collect()), covered: all_covered(&snapshot.namespaces, policies), snapshot }
    }

    /// Whether they are the same to whoever waits.
    pub(crate) fn alike(&self, other: &Self) -> bool {
        self.daemons == other.daemons
            && (Arc::ptr_eq(&self.snapshot, &other.snapshot) || self.snapshot.namespaces == other.snapshot.namespaces)
    }

    /// The node with all its labels, as selectors see it; `None` if the snapshot has not seen it.
    pub(crate) fn with_labels(&self, known: &Known) -> Option<NodeFacts> {
        let facts = &known.facts;
        let node = self.seen(&facts.name, known.uid.as_deref())?;
        let mut labels: BTreeMap<String, String> =
            node.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        // What is newer counts.
        labels.extend(facts.labels.clone());
        Some(NodeFacts { labels, ..facts.clone() })
    }

    /// Whether that node is part of what decisions were made from.
    pub(crate) fn include(&self, name: &str, kept: &Kept) -> bool {
        self.seen(name, kept.uid.as_deref()).is_some()
    }

    /// The node itself: one that had the name before had other labels.
    fn seen(&self, name: &str, uid: Option<&str>) -> Option<&Node> {
        self.snapshot.nodes.as_ref()?.get(name).filter(|node| node.uid.as_deref() == uid)
    }
}

pub(crate) fn known(node: SlimNode) -> (String, Known) {
    let metadata = node.metadata;
    let name = metadata.name.unwrap_or_default();
    let annotations = metadata.annotations.unwrap_or_default();
    let facts = NodeFacts {
        name: name.clone(),
        // All 24 of 5,000 nodes are 20 MB; the snapshot has them too, and shares what is alike.
        labels: metadata.labels.unwrap_or_default().into_iter().filter(|(key, _)| is_read(key)).collect(),
        // The one that is read; a node's others can be large.
        annotations: annotations.into_iter().filter(|(key, _)| key == OWNED_ANNOTATION).collect(),
        taints: node.spec.taints,
        kernel_version: node.status.node_info.kernel_version,
    };
    (name, Known { facts, version: metadata.resource_version.unwrap_or_default(), uid: metadata.uid })
}

pub(crate) fn class_entry(class: node_api::RuntimeClass) -> (String, Option<Standing>) {
    let ours = class.metadata.labels.as_ref().is_some_and(objects::is_ours);
    let tolerations = class.scheduling.and_then(|scheduling| scheduling.tolerations).unwrap_or_default();
    let raw = tolerations.iter().filter_map(|toleration| serde_json::to_value(toleration).ok());
    let standing = Standing {
        ours,
        resource_version: class.metadata.resource_version.unwrap_or_default(),
        handler: class.handler,
        tolerations: raw.collect(),
    };
    (class.metadata.name.unwrap_or_default(), Some(standing))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn versions_are_numbers_or_nothing_is_known() {
        let kept = |version: &str| Kept { facts: "{}".into(), version: version.into(), uid: None };
        let is_older = |version: &str, than: &str| kept(version).is_before(&kept(than));
        assert!(is_older("9", "10") && !is_older("10", "9") && !is_older("9", "9"));
        assert!(!is_older("a", "10") && !is_older("1", ""));
    }
}
