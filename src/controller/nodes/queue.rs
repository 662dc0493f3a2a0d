//! The queue of nodes: which are due, waiting and busy. It sends no request and plans nothing.
//!
//! A node is due when the node, the policies, or the DaemonSets that it waits for change. It is never taken twice at the
//! same time, and always with its newest object. Failures are retried with growing delays.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use mullion_engine::node::{NodeFacts, TaintBlocker};
use tokio::time::Instant;

use crate::cluster::reading::Event;
use crate::cluster::{Backoff, SlimNode};
use crate::controller::nodes::requests::{NodeIssues, NodeReport, NodeResult};
use crate::controller::nodes::stored_node::{ObservedNode, StoredNode, observe};
use crate::value_hash::hash_of;

/// The number of nodes in progress at the same time. With a server that takes 5 ms, 8 resulted in 880 patches a second
/// and 32 in about 2,500.
const CONCURRENCY: usize = 16;
/// Jittered by the node's name: if all nodes fail at once, they are not retried at once.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
/// How long a node's labels wait, at the start or when the node is new, for what only its taint needs: a node that is
/// patched without it is patched twice. Lists of a busy API server take seconds, and up to a minute
/// (`--request-timeout`).
pub(crate) const CONTEXT_WAIT: Duration = Duration::from_secs(30);

/// A node, and the state of the work on it: 120 bytes, 0.6 MB for 5,000 nodes.
pub(crate) struct QueuedNode {
    node: StoredNode,
    /// Until when a new node waits for the snapshot to contain it, because the operating system of a DaemonSet may
    /// depend on the nodes in the snapshot. `None` once the snapshot contains the node.
    new_until: Option<Instant>,
    /// When to retry, and how often it has failed.
    retry: Option<(Instant, u32)>,
    /// The API server rejected a patch of an older object: the node is planned again as soon as a newer one is read.
    conflicted: bool,
    /// As of the last plan.
    issues: NodeIssues,
}

impl QueuedNode {
    fn new(node: StoredNode) -> Self {
        let new_until = Some(Instant::now() + CONTEXT_WAIT);
        Self { node, new_until, retry: None, conflicted: false, issues: NodeIssues::default() }
    }

    /// Whether the node is too new for a decision that depends on the snapshot.
    pub(crate) fn is_new(&self, now: Instant) -> bool {
        self.new_until.is_some_and(|until| now < until)
    }

    fn is_waiting(&self) -> bool {
        !self.issues.waits_for.is_empty()
    }

    fn retry_later(&mut self, name: &str) {
        let failures = self.retry.map_or(0, |(_, failures)| failures);
        let delay = BACKOFF.jittered(failures, hash_of(&(name, failures)));
        self.retry = Some((Instant::now() + delay, failures.saturating_add(1)));
    }
}

/// The number of nodes with each issue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NodeCounts {
    pub(crate) windows: usize,
    pub(crate) waiting: usize,
    pub(crate) contested: usize,
    pub(crate) withheld: usize,
}

#[derive(Default)]
pub(crate) struct NodeQueue {
    nodes: BTreeMap<String, QueuedNode>,
    /// Nodes of a list that is not complete yet.
    arriving: BTreeMap<String, StoredNode>,
    is_complete: bool,
    /// Nodes to be planned.
    due: BTreeSet<String>,
    /// The node that was taken last. The next node by name follows, so that nodes that change all the time do not delay
    /// others.
    last_taken: String,
    /// Nodes that are being planned or patched. A node that is deleted meanwhile stays here until its work ends.
    busy: BTreeSet<String>,
    /// Nodes on which nothing is left to report; the reader takes them.
    pub(crate) silent: Vec<String>,
    /// Whether facts of nodes have changed; the reader sets it back.
    pub(crate) facts_changed: bool,
    /// Whether nodes wait for other blockers; the reader sets it back.
    pub(crate) blockers_changed: bool,
}

impl NodeQueue {
    /// Whether all nodes have been read once.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether nothing is due and nothing is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.due.is_empty() && self.busy.is_empty()
    }

    pub(crate) fn facts(&self) -> impl Iterator<Item = NodeFacts> {
        self.nodes.values().map(|queued| queued.node.facts())
    }

    /// The newest object of a node.
    pub(crate) fn observed(&self, name: &str) -> Option<ObservedNode> {
        self.nodes.get(name).map(|queued| queued.node.observed())
    }

    /// What taints wait for, once for each node that waits for it.
    pub(crate) fn blockers(&self) -> impl Iterator<Item = &TaintBlocker> {
        self.nodes.values().flat_map(|queued| &queued.issues.waits_for)
    }

    pub(crate) fn apply(&mut self, event: Event<SlimNode>) {
        match event {
            Event::Init => self.arriving.clear(),
            Event::InitApply(node) => {
                let (name, node) = observe(node);
                self.arriving.insert(name, node.into());
            }
            Event::InitDone => {
                let arrived = std::mem::take(&mut self.arriving);
                let gone: Vec<String> =
                    self.nodes.keys().filter(|name| !arrived.contains_key(*name)).cloned().collect();
                for name in gone {
                    self.forget(&name);
                }
                for (name, node) in arrived {
                    // The version does not matter: after a restore from a backup, versions start lower.
                    self.update(name, node);
                }
                self.is_complete = true;
                self.facts_changed = true;
            }
            Event::Apply(node) => {
                let (name, node) = observe(node);
                self.update_if_newer(name, node.into());
            }
            Event::Delete(head) => self.forget(&head.name),
        }
    }

    fn update_if_newer(&mut self, name: String, newest: StoredNode) {
        // The watch may deliver an older object after the response to Mullion's own patch.
        if !self.nodes.get(&name).is_some_and(|queued| newest.is_before(&queued.node)) {
            self.update(name, newest);
        }
    }

    /// Kubelets write their status every few minutes; an object with the same facts is only a newer version to patch.
    fn update(&mut self, name: String, newest: StoredNode) {
        if let Some(queued) = self.nodes.get_mut(&name).filter(|queued| queued.node.is_same(&newest)) {
            let changed = !queued.node.is_alike(&newest);
            let conflicted = std::mem::take(&mut queued.conflicted);
            queued.node = newest;
            self.facts_changed |= changed;
            if !changed && !conflicted {
                return;
            }
        } else {
            // The node may have been deleted and created again without an event, so nothing about the other one
            // applies.
            self.forget(&name);
            self.nodes.insert(name.clone(), QueuedNode::new(newest));
            self.facts_changed = true;
        }
        self.due.insert(name);
    }

    fn forget(&mut self, name: &str) {
        self.blockers_changed |= self.nodes.remove(name).is_some_and(|queued| queued.is_waiting());
        self.due.remove(name);
        self.silent.push(name.to_owned());
    }

    /// Makes every node due, because the input of all plans has changed.
    pub(crate) fn set_all_due(&mut self) {
        self.due.extend(self.nodes.keys().cloned());
    }

    pub(crate) fn has_new_nodes(&self) -> bool {
        self.nodes.values().any(|queued| queued.new_until.is_some())
    }

    /// Ends the wait of new nodes for which `is_known` returns true. `changed`: whether taints may wait for something else
    /// now.
    pub(crate) fn context_renewed(&mut self, changed: bool, is_known: impl Fn(&str, &StoredNode) -> bool) {
        let now = Instant::now();
        for (name, queued) in &mut self.nodes {
            queued.new_until = queued.new_until.filter(|until| now < *until && !is_known(name, &queued.node));
            if changed && queued.is_waiting() {
                self.due.insert(name.clone());
            }
        }
    }

    /// Makes nodes due whose time has come; with `recheck`, also those with an issue that no watch reports the end of.
    pub(crate) fn tick(&mut self, now: Instant, recheck: bool) -> NodeCounts {
        let mut counts = NodeCounts { windows: self.nodes.len(), ..NodeCounts::default() };
        for (name, queued) in &self.nodes {
            let NodeIssues { contested, withheld, unproved, .. } = queued.issues;
            let is_late = queued.retry.is_some_and(|(at, _)| at <= now) && !self.busy.contains(name);
            if is_late || (recheck && (queued.is_waiting() || contested || unproved)) {
                self.due.insert(name.clone());
            }
            counts.waiting += usize::from(queued.is_waiting());
            counts.contested += usize::from(contested);
            counts.withheld += usize::from(withheld);
        }
        counts
    }

    /// Takes the next due node that `is_ready`, unless [`CONCURRENCY`] nodes are busy. It is busy until
    /// [`NodeQueue::settle`] or [`NodeQueue::finish`].
    pub(crate) fn take_due(&mut self, is_ready: impl Fn(&QueuedNode) -> bool) -> Option<ObservedNode> {
        if self.busy.len() >= CONCURRENCY {
            return None;
        }
        let last = self.last_taken.as_str();
        let later = self.due.range::<str, _>((Bound::Excluded(last), Bound::Unbounded));
        let earlier = self.due.range::<str, _>((Bound::Unbounded, Bound::Included(last)));
        let free = later.chain(earlier).filter(|name| !self.busy.contains(*name));
        let mut ready = free.filter_map(|name| Some((name, self.nodes.get(name).filter(|queued| is_ready(queued))?)));
        let (name, node) = ready.next().map(|(name, queued)| (name.clone(), queued.node.observed()))?;
        self.due.remove(&name);
        self.last_taken.clone_from(&name);
        self.busy.insert(name);
        Some(node)
    }

    /// Ends the work on a node whose plan requires nothing; returns `false` if the node waits, and must be planned with
    /// what it waits for.
    pub(crate) fn settle(&mut self, name: &str) -> bool {
        let Some(queued) = self.nodes.get_mut(name).filter(|queued| !queued.is_waiting()) else { return false };
        queued.retry = None;
        queued.issues = NodeIssues::default();
        self.busy.remove(name);
        true
    }

    /// Ends the work on a node.
    pub(crate) fn finish(&mut self, report: NodeReport) {
        let NodeReport { name, version, result, issues } = report;
        self.busy.remove(&name);
        let Some(queued) = self.nodes.get_mut(&name) else {
            // The work may have written an Event after the node was deleted.
            self.silent.push(name);
            return;
        };
        let is_newer = *queued.node.version != *version;
        // Failed work may have written an Event, and is retried soon.
        if issues == NodeIssues::default() && !matches!(result, NodeResult::Failed) {
            self.silent.push(name.clone());
        }
        self.blockers_changed |= queued.issues.waits_for != issues.waits_for;
        queued.issues = issues;
        match result {
            NodeResult::Unchanged | NodeResult::PatchedUnread => queued.retry = None,
            NodeResult::Patched(node) => {
                queued.retry = None;
                // The response is newer than the watch's object, unless the watch has delivered another one meanwhile.
                if !is_newer {
                    let (name, node) = observe(*node);
                    self.update_if_newer(name, node.into());
                }
            }
            // The result is about an older object, or about a deleted node of the same name.
            NodeResult::Conflict | NodeResult::Gone if is_newer => {
                self.due.insert(name);
            }
            NodeResult::Conflict => {
                queued.conflicted = true;
                queued.retry_later(&name);
            }
            NodeResult::Gone => self.forget(&name),
            NodeResult::Failed => queued.retry_later(&name),
            NodeResult::LimitReached(until) => queued.retry = Some((until, 0)),
        }
    }
}

#[cfg(test)]
impl NodeQueue {
    pub(crate) fn mark_busy(&mut self, name: &str) {
        self.due.remove(name);
        self.busy.insert(name.to_owned());
    }

    pub(crate) fn is_due(&self, name: &str) -> bool {
        self.due.contains(name)
    }

    pub(crate) fn mark_known(&mut self, name: &str) {
        if let Some(queued) = self.nodes.get_mut(name) {
            queued.new_until = None;
        }
    }

    pub(crate) fn is_new(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|queued| queued.is_new(Instant::now()))
    }

    pub(crate) fn version_of(&self, name: &str) -> Option<String> {
        self.nodes.get(name).map(|queued| queued.node.version.to_string())
    }
}
