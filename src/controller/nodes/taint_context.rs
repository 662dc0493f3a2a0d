//! DaemonSets and the cluster snapshot, which decide what a taint waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use mullion_engine::model::cluster::{ClusterSnapshot, Node};
use mullion_engine::node::{DaemonSetFacts, NodeFacts};
use mullion_policy::{PolicySet, all_covered};

use crate::cluster::reading::Event;
use crate::cluster::{Collection, LiveSnapshot};
use crate::controller::nodes::daemon_sets::{SlimDaemonSet, StoredDaemonSet};
use crate::controller::nodes::stored_node::{ObservedNode, StoredNode};

/// The input of taint decisions of all nodes, besides the node and its pods; replaced as a whole.
#[derive(Debug)]
pub(crate) struct TaintContext {
    /// DaemonSets that may be for a Windows node and for which the taint waits: see `taint.waitFor` of the NodePolicy.
    pub(crate) daemon_sets: Arc<Vec<DaemonSetFacts>>,
    pub(crate) snapshot: Arc<ClusterSnapshot>,
    /// Whether the replacement of every pod would have the toleration: see [`all_covered`].
    pub(crate) covered: bool,
}

impl TaintContext {
    pub(crate) fn new(
        daemon_sets: &BTreeMap<String, StoredDaemonSet>,
        snapshot: Arc<ClusterSnapshot>,
        policies: &PolicySet,
    ) -> Self {
        let counts = |stored: &StoredDaemonSet| policies.nodes.taint.waits_for(stored.namespace());
        let facts = daemon_sets.iter().filter(|(_, stored)| counts(stored));
        let facts = facts.map(|(name, stored)| stored.facts(name, &snapshot, policies));
        Self { daemon_sets: Arc::new(facts.collect()), covered: all_covered(&snapshot.namespaces, policies), snapshot }
    }

    /// Whether waiting taints would wait for the same blockers.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.daemon_sets == other.daemon_sets
            && (Arc::ptr_eq(&self.snapshot, &other.snapshot) || self.snapshot.namespaces == other.snapshot.namespaces)
    }

    /// The node with all its labels, which selectors need; `None` if the snapshot does not contain it.
    pub(crate) fn with_all_labels(&self, node: &ObservedNode) -> Option<NodeFacts> {
        let facts = &node.facts;
        let in_snapshot = self.node(&facts.name, node.uid.as_deref())?;
        let mut labels: BTreeMap<String, String> =
            in_snapshot.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        // The observed labels are newer.
        labels.extend(facts.labels.clone());
        Some(NodeFacts { labels, ..facts.clone() })
    }

    /// Whether the snapshot contains the node.
    pub(crate) fn contains(&self, name: &str, node: &StoredNode) -> bool {
        self.node(name, node.uid.as_deref()).is_some()
    }

    /// The node itself: another node that had the same name before had other labels.
    fn node(&self, name: &str, uid: Option<&str>) -> Option<&Node> {
        self.snapshot.nodes.as_ref()?.get(name).filter(|node| node.uid.as_deref() == uid)
    }
}

/// The newest context, and what it is made from.
pub(crate) struct NewestContext {
    daemon_sets: Collection<StoredDaemonSet>,
    snapshot: Arc<LiveSnapshot>,
    /// `None` until DaemonSets and the snapshot have been read, because no taint is set on a guess.
    newest: Option<Arc<TaintContext>>,
    due: bool,
}

impl NewestContext {
    pub(crate) fn new(snapshot: Arc<LiveSnapshot>) -> Self {
        Self { daemon_sets: Collection::default(), snapshot, newest: None, due: true }
    }

    /// Whether DaemonSets and the snapshot have been read.
    pub(crate) fn is_complete(&self) -> bool {
        self.daemon_sets.complete && self.snapshot.ready()
    }

    pub(crate) fn newest(&self) -> Option<&Arc<TaintContext>> {
        self.newest.as_ref()
    }

    pub(crate) fn daemon_sets(&self) -> &BTreeMap<String, StoredDaemonSet> {
        &self.daemon_sets.entries
    }

    /// Applies an event of DaemonSets; returns whether that changes anything.
    pub(crate) fn apply(&mut self, event: Event<SlimDaemonSet>) -> bool {
        self.daemon_sets.apply(event, SlimDaemonSet::entry)
    }

    /// What it is made from has changed.
    pub(crate) fn set_due(&mut self) {
        self.due = true;
    }

    /// Forgets the context, because it comes from other policies.
    pub(crate) fn clear(&mut self) {
        self.newest = None;
        self.due = true;
    }

    /// Makes the context again if that is due and possible. Returns it, and whether waiting taints may wait for other
    /// blockers.
    pub(crate) fn renew(&mut self, policies: &PolicySet) -> Option<(&TaintContext, bool)> {
        if !(self.due && self.is_complete()) {
            return None;
        }
        self.due = false;
        let context = TaintContext::new(&self.daemon_sets.entries, self.snapshot.current(), policies);
        let changed = self.newest.as_ref().is_none_or(|earlier| !earlier.is_alike(&context));
        Some((self.newest.insert(Arc::new(context)), changed))
    }

    /// Sets a context without DaemonSets, in an empty snapshot.
    #[cfg(test)]
    pub(crate) fn set_empty(&mut self, policies: &PolicySet) {
        self.newest = Some(Arc::new(TaintContext::new(&BTreeMap::new(), Arc::default(), policies)));
    }
}
