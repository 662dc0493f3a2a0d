//! The queue of nodes: what is due, in progress and waiting. It sends no request itself.
//!
//! A node is planned when the node, the policies, or the DaemonSets that it waits for change, never twice at the same
//! time, and always from its newest object. Failures are retried with growing delays.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::settings::{ApplyTaint, NodeLabel, NodeSettings, policy_taint, possible_taint};
use mullion_engine::node::{Claimants, NodeFacts, TaintBlocker, TaintHold, plan_node, wanted_taint};
use mullion_policy::PolicySet;
use tokio::time::Instant;

use crate::cluster::reading::Event;
use crate::cluster::state::{NodesReport, TaintWaiter};
use crate::cluster::{Backoff, Collection, LiveSnapshot, SlimNode};
use crate::controller::nodes::blocker_times::BlockerTimes;
use crate::controller::nodes::daemon_sets::StoredDaemonSet;
use crate::controller::nodes::left_out::{LeftOutPass, LeftOutReport};
use crate::controller::nodes::node_events;
use crate::controller::nodes::requests::{Completed, NodeReport, NodeRequests, NodeResult, now};
use crate::controller::nodes::stored_node::{StoredNode, observe};
use crate::controller::nodes::taint_context::TaintContext;
use crate::controller::runtime_classes;
use crate::controller::runtime_classes::{ClassPlan, ExistingClass, WindowsFleet};
use crate::controller::settled_builds::SettledBuilds;
use crate::value_hash::hash_of;

/// The number of nodes in progress at the same time. With a server that takes 5 ms, 8 resulted in 880 patches a second
/// and 32 in about 2,500.
const CONCURRENCY: usize = 16;
/// Jittered by the node's name: if all nodes fail at once, they are not retried at once.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
/// The interval at which a node with a waiting taint is planned again, because no watch reports changes of pods.
const RECHECK: Duration = Duration::from_secs(30);
/// How long a node's labels wait, at the start or when the node is new, for what only its taint needs: a node that is
/// patched without it is patched twice. Lists of a busy API server take seconds, and up to a minute
/// (`--request-timeout`).
const CONTEXT_WAIT: Duration = Duration::from_secs(30);

/// The interval at which a build without a RuntimeClass is reported.
const CLASS_REPORT: Duration = Duration::from_secs(1800);

/// A node, and the state of the work on it: 120 bytes, 0.6 MB for 5,000 nodes.
#[allow(clippy::struct_excessive_bools, reason = "each states what was found about the node")]
struct QueuedNode {
    node: StoredNode,
    /// Until when a new node waits for the snapshot to contain it, because the operating system of a DaemonSet may
    /// depend on the nodes in the snapshot. `None` once the snapshot contains the node.
    new_until: Option<Instant>,
    /// When to retry, and how often it has failed.
    retry: Option<(Instant, u32)>,
    /// What its taint waits for.
    waits_for: Vec<TaintBlocker>,
    /// The API server rejected a patch of an older object: the node is planned again as soon as a newer one is read.
    conflicted: bool,
    /// A change is not made because someone undoes it repeatedly.
    contested: bool,
    /// `mode: Audit` withholds a change.
    withheld: bool,
    /// The node's record claims a taint that is not Mullion's.
    unproved: bool,
}

impl QueuedNode {
    fn new(node: StoredNode) -> Self {
        Self {
            node,
            new_until: Some(Instant::now() + CONTEXT_WAIT),
            retry: None,
            waits_for: Vec::new(),
            conflicted: false,
            contested: false,
            withheld: false,
            unproved: false,
        }
    }

    fn is_waiting(&self) -> bool {
        !self.waits_for.is_empty()
    }

    fn retry_later(&mut self, name: &str) {
        let failures = self.retry.map_or(0, |(_, failures)| failures);
        let delay = BACKOFF.jittered(failures, hash_of(&(name, failures)));
        self.retry = Some((Instant::now() + delay, failures.saturating_add(1)));
    }
}

#[allow(clippy::struct_excessive_bools, reason = "each states what is due or complete of one kind")]
pub(crate) struct NodeQueue {
    requests: Arc<NodeRequests>,
    policies: Arc<PolicySet>,
    /// Mullion's own taints, as `mullion-state` stores them.
    own_taints: Arc<BTreeSet<Taint>>,
    snapshot: Arc<LiveSnapshot>,
    nodes: BTreeMap<String, QueuedNode>,
    /// Nodes of a list that is not complete yet.
    arriving: BTreeMap<String, StoredNode>,
    nodes_complete: bool,
    pub(crate) daemon_sets: Collection<StoredDaemonSet>,
    /// `None` until DaemonSets and the snapshot have been read, because no taint is set on a guess.
    context: Option<Arc<TaintContext>>,
    context_due: bool,
    pub(crate) classes: Collection<ExistingClass>,
    pub(crate) classes_due: bool,
    classes_busy: bool,
    /// The last warnings about classes, which every changed node would repeat.
    class_warnings: Vec<String>,
    classes_not_before: Instant,
    /// Nodes to be planned.
    due: BTreeSet<String>,
    /// The node that was taken last. The next node by name follows, so that nodes that change all the time do not delay
    /// others.
    last_taken: String,
    /// Nodes that are being planned or patched. A node that is deleted meanwhile stays here until its work ends.
    busy: BTreeSet<String>,
    next_recheck: Instant,
    blockers: BlockerTimes,
    blockers_changed: bool,
    /// The oldest blockers, with the number of their nodes.
    longest: Vec<(TaintBlocker, usize)>,
    /// The number of nodes that wait for their taint, and of nodes on which someone undoes changes.
    counts: (usize, usize),
    left_out: LeftOutPass,
    builds: SettledBuilds,
    /// When the next unknown build gets its class.
    next_build: Option<Instant>,
    /// When a build without a class may be reported again.
    next_class_report: Instant,
    /// Until when nodes wait for the context.
    context_deadline: Instant,
    pub(crate) running: FuturesUnordered<BoxFuture<'static, Completed>>,
}

impl NodeQueue {
    pub(crate) fn new(
        requests: NodeRequests,
        snapshot: Arc<LiveSnapshot>,
        policies: Arc<PolicySet>,
        own_taints: BTreeSet<Taint>,
    ) -> Self {
        Self {
            requests: Arc::new(requests),
            policies,
            own_taints: Arc::new(own_taints),
            snapshot,
            nodes: BTreeMap::new(),
            arriving: BTreeMap::new(),
            nodes_complete: false,
            daemon_sets: Collection::default(),
            context: None,
            context_due: true,
            classes: Collection::default(),
            classes_due: true,
            classes_busy: false,
            class_warnings: Vec::new(),
            classes_not_before: Instant::now(),
            due: BTreeSet::new(),
            last_taken: String::new(),
            busy: BTreeSet::new(),
            next_recheck: Instant::now() + RECHECK,
            blockers: BlockerTimes::default(),
            blockers_changed: false,
            longest: Vec::new(),
            counts: (0, 0),
            left_out: LeftOutPass::new(Instant::now()),
            builds: SettledBuilds::default(),
            next_build: None,
            next_class_report: Instant::now(),
            context_deadline: Instant::now() + CONTEXT_WAIT,
            running: FuturesUnordered::new(),
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.nodes_complete && self.daemon_sets.complete && self.snapshot.ready() && self.classes.complete
    }

    /// Whether nothing is due and nothing is in progress.
    fn has_planned_all(&self) -> bool {
        self.has_synced() && self.due.is_empty() && self.busy.is_empty()
    }

    /// The nodes as of the last tick, for the report, once every node has been planned.
    pub(crate) fn report(&self) -> Option<NodesReport> {
        if self.context.is_none() || !self.has_planned_all() {
            return None;
        }
        let policy = &self.policies.nodes;
        let waiter = |(blocker, nodes): &(TaintBlocker, usize)| {
            let (kind, namespace, name) = blocker.object()?;
            Some(TaintWaiter {
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                nodes: *nodes,
            })
        };
        let (waiting, contested) = self.counts;
        Some(NodesReport {
            mode: format!("{:?}", policy.mode),
            taint: policy_taint(policy).to_string(),
            apply: format!("{:?}", policy.taint.apply),
            release_label: policy.labels.contains(&NodeLabel::Release),
            windows: self.nodes.len(),
            waiting,
            contested,
            waits_for: self.longest.iter().filter_map(waiter).collect(),
        })
    }

    /// The DaemonSets that may be for Windows nodes, once every node has been planned.
    pub(crate) fn claimants(&self) -> Option<Claimants> {
        let daemons = Arc::clone(&self.context.as_ref().filter(|_| self.has_planned_all())?.daemon_sets);
        let waited_for = self.nodes.values().flat_map(|queued| &queued.waits_for).cloned().collect();
        Some(Claimants { policies: self.policies.hash.clone(), daemons, waited_for })
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
                self.nodes_complete = true;
                self.classes_due = true;
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
            self.classes_due |= changed;
            if !changed && !conflicted {
                return;
            }
        } else {
            // The node may have been deleted and created again without an event, so nothing about the other one
            // applies.
            self.forget(&name);
            self.nodes.insert(name.clone(), QueuedNode::new(newest));
            self.classes_due = true;
        }
        self.due.insert(name);
    }

    fn forget(&mut self, name: &str) {
        self.blockers_changed |= self.nodes.remove(name).is_some_and(|queued| queued.is_waiting());
        self.due.remove(name);
        self.requests.events.forget(name);
    }

    /// The first time, and while a new node waits for it, at once; later, a burst (a chart with many DaemonSets) is
    /// processed as a whole, at the next tick.
    pub(crate) fn context_changed(&mut self) {
        self.context_due = true;
        if self.context.is_none() || self.nodes.values().any(|queued| queued.new_until.is_some()) {
            self.update_context();
        }
    }

    fn update_context(&mut self) {
        if !(self.context_due && self.daemon_sets.complete && self.snapshot.ready()) {
            return;
        }
        self.context_due = false;
        let context = TaintContext::new(&self.daemon_sets.entries, self.snapshot.snapshot(), &self.policies);
        let changed = self.context.as_ref().is_none_or(|earlier| !earlier.is_alike(&context));
        let now = Instant::now();
        for (name, queued) in &mut self.nodes {
            queued.new_until = queued.new_until.filter(|until| now < *until && !context.contains(name, &queued.node));
            if changed && queued.is_waiting() {
                self.due.insert(name.clone());
            }
        }
        self.context = Some(Arc::new(context));
    }

    /// Whether the node is too new for a decision about its taint.
    fn is_too_new(&self, name: &str, now: Instant) -> bool {
        let until = || self.nodes.get(name).and_then(|queued| queued.new_until);
        self.policies.nodes.taint.apply == ApplyTaint::WhenTolerated && until().is_some_and(|until| now < until)
    }

    pub(crate) fn set_own_taints(&mut self, own_taints: BTreeSet<Taint>) {
        if *self.own_taints != own_taints {
            self.own_taints = Arc::new(own_taints);
            self.due.extend(self.nodes.keys().cloned());
        }
    }

    pub(crate) fn set_policies(&mut self, policies: Arc<PolicySet>) {
        self.policies = policies;
        // No plan is made from two sets: the context comes from the old set, and work in progress is planned again.
        self.context = None;
        self.due.extend(self.nodes.keys().cloned());
        self.classes_due = true;
        self.classes_not_before = Instant::now();
        self.blockers_changed = true;
        self.requests.limits().clear();
        self.context_due = true;
        self.update_context();
    }

    pub(crate) fn tick(&mut self) {
        let now = Instant::now();
        self.update_context();
        let recheck = now >= self.next_recheck;
        if recheck {
            self.next_recheck = now + RECHECK;
            self.requests.limits().sweep(now);
        }
        let (mut waiting, mut contested, mut withheld) = (0, 0, 0);
        for (name, queued) in &self.nodes {
            let is_late = queued.retry.is_some_and(|(at, _)| at <= now) && !self.busy.contains(name);
            if is_late || (recheck && (queued.is_waiting() || queued.contested || queued.unproved)) {
                self.due.insert(name.clone());
            }
            waiting += usize::from(queued.is_waiting());
            contested += usize::from(queued.contested);
            withheld += usize::from(queued.withheld);
        }
        self.counts = (waiting, contested);
        self.requests.metrics.set_nodes(self.nodes.len(), waiting, contested, withheld);
        if std::mem::take(&mut self.blockers_changed) {
            let present = self.nodes.values().flat_map(|queued| &queued.waits_for);
            self.longest = self.blockers.update(present, now);
            let toleration = node_events::toleration_text(&policy_taint(&self.policies.nodes));
            self.requests.metrics.set_taint_blockers(&toleration, &self.longest);
        }
        self.report_left_out(now);
        self.classes_due |= self.next_build.is_some_and(|at| at <= now);
        let classes_read = self.nodes_complete && self.classes.complete;
        if self.classes_due && classes_read && !self.classes_busy && now >= self.classes_not_before {
            self.classes_due = false;
            self.start_classes();
        }
    }

    fn report_left_out(&mut self, now: Instant) {
        let Some(context) = self.context.as_ref() else { return };
        let report = self.left_out.step(&self.daemon_sets.entries, &context.snapshot, &self.policies, now);
        let Some(LeftOutReport { counts, events }) = report else { return };
        self.requests.metrics.set_left_out(&counts);
        if !events.is_empty() {
            self.running.push(Arc::clone(&self.requests).report_left_out(events).boxed());
        }
    }

    /// Starts work on due nodes, up to [`CONCURRENCY`].
    pub(crate) fn start(&mut self) {
        let now = Instant::now();
        // Label and taint are set in one patch, if everything is read soon, and the taint is recorded soon.
        let can_taint = possible_taint(&self.policies.nodes).is_none_or(|taint| self.own_taints.contains(&taint));
        if !(self.context.is_some() && can_taint) && now < self.context_deadline {
            return;
        }
        while self.busy.len() < CONCURRENCY {
            let ready = |name: &&String| !self.busy.contains(*name) && !self.is_too_new(name, now);
            let last = self.last_taken.as_str();
            let later = self.due.range::<str, _>((Bound::Excluded(last), Bound::Unbounded));
            let earlier = self.due.range::<str, _>((Bound::Unbounded, Bound::Included(last)));
            let Some(name) = later.chain(earlier).find(ready).cloned() else { return };
            self.due.remove(&name);
            self.last_taken.clone_from(&name);
            let Some(queued) = self.nodes.get_mut(&name) else { continue };
            let node = queued.node.observed();
            if !queued.is_waiting() && is_in_order(&node.facts, &self.policies.nodes, &self.own_taints) {
                queued.retry = None;
                queued.contested = false;
                queued.withheld = false;
                queued.unproved = false;
                continue;
            }
            self.busy.insert(name);
            let (requests, policies) = (Arc::clone(&self.requests), Arc::clone(&self.policies));
            let (own_taints, context) = (Arc::clone(&self.own_taints), self.context.clone());
            self.running.push(requests.reconcile(node, policies, own_taints, context).map(Completed::Node).boxed());
        }
    }

    fn start_classes(&mut self) {
        let (now, policy) = (Instant::now(), &self.policies.nodes);
        let facts = self.nodes.values().map(|queued| queued.node.facts());
        let fleet = WindowsFleet::of(facts, policy);
        self.builds.update(fleet.builds.keys().copied(), now);
        self.next_build = self.builds.next(policy, now);
        let ClassPlan { writes, warnings, without_class } =
            runtime_classes::plan(&fleet, policy, &self.classes.entries, |build| {
                self.builds.counts(build, policy, now)
            });
        for warning in warnings.iter().filter(|warning| !self.class_warnings.contains(warning)) {
            tracing::warn!("{warning}");
        }
        self.class_warnings = warnings;
        if let Some((build, node)) = without_class
            && now >= self.next_class_report
            && let Some(queued) = self.nodes.get(&node)
        {
            self.next_class_report = now + CLASS_REPORT;
            let report = Arc::clone(&self.requests).report_class_limit(queued.node.observed(), build);
            self.running.push(report.boxed());
        }
        if !writes.is_empty() {
            self.classes_busy = true;
            self.running.push(Arc::clone(&self.requests).write_classes(writes).boxed());
        }
    }

    pub(crate) fn finish(&mut self, completed: Completed) {
        let report = match completed {
            Completed::Classes { again } => {
                self.classes_busy = false;
                if again {
                    // Not immediately, because what failed will most likely fail again.
                    self.classes_not_before = Instant::now() + RECHECK;
                    self.classes_due = true;
                }
                return;
            }
            Completed::ClassLimit | Completed::LeftOut => return,
            Completed::Node(report) => report,
        };
        let NodeReport { name, version, result, waits_for, contested, withheld, unproved } = report;
        self.busy.remove(&name);
        let Some(queued) = self.nodes.get_mut(&name) else {
            // The work may have written an Event after the node was deleted.
            self.requests.events.forget(&name);
            return;
        };
        let is_newer = *queued.node.version != *version;
        // Failed work may have written an Event, and is retried soon.
        let failed = matches!(result, NodeResult::Failed);
        if waits_for.is_empty() && !contested && !withheld && !unproved && !failed {
            self.requests.events.forget(&name);
        }
        self.blockers_changed |= queued.waits_for != waits_for;
        queued.waits_for = waits_for;
        queued.contested = contested;
        queued.withheld = withheld;
        queued.unproved = unproved;
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

/// Whether there is nothing to read, write or report. This is true for most changes of nodes.
fn is_in_order(facts: &NodeFacts, policy: &NodeSettings, own_taints: &BTreeSet<Taint>) -> bool {
    wanted_taint(facts, policy, own_taints).is_none() && {
        let plan = plan_node(facts, policy, own_taints, &[], now());
        plan.patch.is_none() && plan.hold == TaintHold::None && !plan.withheld && plan.unproved.is_none()
    }
}

#[cfg(test)]
impl NodeQueue {
    /// Sets a context without DaemonSets, in an empty snapshot.
    pub(crate) fn set_empty_context(&mut self) {
        self.context = Some(Arc::new(TaintContext::new(&BTreeMap::new(), Arc::default(), &self.policies)));
    }

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
        self.is_too_new(name, Instant::now())
    }

    pub(crate) fn version_of(&self, name: &str) -> Option<String> {
        self.nodes.get(name).map(|queued| queued.node.version.to_string())
    }
}
