//! Maintains nodes and RuntimeClasses while this controller leads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::settings::{ApplyTaint, NodeLabel, policy_taint, possible_taint};
use mullion_engine::node::{Claimants, TaintBlocker, plan_node};
use mullion_policy::PolicySet;
use tokio::time::{Instant, MissedTickBehavior, timeout};

use crate::cluster::LiveSnapshot;
use crate::cluster::reading::{DAEMON_SETS, Event, KindApi, RUNTIME_CLASSES, Selection, changes};
use crate::cluster::state::{NodesReport, StateReceiver, TaintWaiter};
use crate::controller::leader_context::LeaderContext;
use crate::controller::nodes::blocker_times::BlockerTimes;
use crate::controller::nodes::classes::ClassQueue;
use crate::controller::nodes::daemon_sets::SlimDaemonSet;
use crate::controller::nodes::left_out::LeftOutPass;
use crate::controller::nodes::node_events::{no_class_left, node_reference, toleration_text};
use crate::controller::nodes::queue::{CONTEXT_WAIT, NodeCounts, NodeQueue};
use crate::controller::nodes::requests::{Completed, NodeRequests, unix_time};
use crate::controller::nodes::taint_context::NewestContext;

/// The interval at which due work is started.
const TICK: Duration = Duration::from_millis(500);
/// The time limit of pending requests at the end.
const DRAIN: Duration = Duration::from_secs(10);
/// The interval at which a node with a waiting taint is planned again, because no watch reports changes of pods.
const RECHECK: Duration = Duration::from_secs(30);

/// Works until it must stop.
pub async fn run(leading: LeaderContext) {
    let LeaderContext {
        client,
        streaming,
        mut policies,
        snapshot,
        state,
        events,
        claimants,
        metrics,
        report,
        ready,
        stop,
        ..
    } = leading;
    claimants.send_replace(None);
    let mut nodes = snapshot.follow_nodes().await;
    let mut state = state.state.clone();
    // Only the ConfigMap proves which taints are Mullion's.
    tokio::select! {
        Ok(()) = async { state.wait_for(Option::is_some).await.map(drop) } => {}
        () = stop.cancelled() => return,
    }
    // This list never comes from the API server's cache, which may be stale: no taint would wait for a DaemonSet that
    // is missing in it.
    let mut daemon_sets = changes(KindApi::all(client.clone(), &DAEMON_SETS), Selection::default(), streaming);
    let mut classes = changes(KindApi::all(client.clone(), &RUNTIME_CLASSES), Selection::default(), streaming);
    let mut snapshots = snapshot.changes();

    let first = policies.borrow_and_update().clone();
    let requests = NodeRequests::new(client, events, metrics);
    let mut work = NodeLoop::new(requests, snapshot, first, stored_taints(&mut state).unwrap_or_default());
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        work.start();
        if work.has_synced() {
            ready.send_if_modified(|ready| !std::mem::replace(ready, true));
        }
        tokio::select! {
            () = stop.cancelled() => break,
            Some(event) = nodes.recv() => work.queue.apply(event),
            Some(event) = daemon_sets.next() => work.apply_daemon_set(event),
            Ok(()) = snapshots.changed() => work.context_changed(),
            Some(event) = classes.next() => work.classes.apply(event),
            Some(completed) = work.running.next(), if !work.running.is_empty() => work.finish(completed),
            Ok(()) = state.changed() => {
                // If the ConfigMap was deleted, the taints on nodes are Mullion's as before.
                if let Some(own_taints) = stored_taints(&mut state) {
                    work.set_own_taints(own_taints);
                }
            }
            Ok(()) = policies.changed() => {
                let set = policies.borrow_and_update().clone();
                work.set_policies(set);
            }
            _ = ticks.tick() => {
                work.tick();
                if let Some((nodes, newest)) = work.results() {
                    report.update(|facts| facts.nodes = Some(nodes));
                    claimants.send_if_modified(|known| known.replace(newest.clone()) != Some(newest));
                }
            }
        }
    }
    // Nothing updates it from now on.
    report.update(|facts| facts.nodes = None);
    // The snapshot must not wait for a follower that no longer reads.
    drop(nodes);
    if timeout(DRAIN, work.running.collect::<Vec<_>>()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// Mullion's own taints, if the ConfigMap contains them. Those of an earlier release are written there first.
fn stored_taints(state: &mut StateReceiver) -> Option<BTreeSet<Taint>> {
    state.borrow_and_update().as_ref().and_then(|state| state.own_taints.clone())
}

/// The state of the loop: the queue, the input of plans besides the nodes, and the work in progress.
pub(crate) struct NodeLoop {
    requests: Arc<NodeRequests>,
    policies: Arc<PolicySet>,
    /// Mullion's own taints, as `mullion-state` stores them.
    own_taints: Arc<BTreeSet<Taint>>,
    pub(crate) queue: NodeQueue,
    pub(crate) context: NewestContext,
    /// Until when nodes wait for the context.
    context_deadline: Instant,
    pub(crate) classes: ClassQueue,
    next_recheck: Instant,
    reports: Reports,
    pub(crate) running: FuturesUnordered<BoxFuture<'static, Completed>>,
}

/// What is reported of all nodes, as of the last tick.
struct Reports {
    counts: NodeCounts,
    blockers: BlockerTimes,
    /// The oldest blockers, with the number of their nodes.
    longest: Vec<(TaintBlocker, usize)>,
    left_out: LeftOutPass,
}

impl NodeLoop {
    pub(crate) fn new(
        requests: NodeRequests,
        snapshot: Arc<LiveSnapshot>,
        policies: Arc<PolicySet>,
        own_taints: BTreeSet<Taint>,
    ) -> Self {
        let now = Instant::now();
        Self {
            queue: NodeQueue::default(),
            requests: Arc::new(requests),
            policies,
            own_taints: Arc::new(own_taints),
            context: NewestContext::new(snapshot),
            context_deadline: now + CONTEXT_WAIT,
            classes: ClassQueue::new(now),
            next_recheck: now + RECHECK,
            reports: Reports {
                counts: NodeCounts::default(),
                blockers: BlockerTimes::default(),
                longest: Vec::new(),
                left_out: LeftOutPass::new(now),
            },
            running: FuturesUnordered::new(),
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.queue.is_complete() && self.context.is_complete() && self.classes.is_complete()
    }

    /// The nodes as of the last tick, and the DaemonSets that may be for Windows nodes, once every node has been planned.
    pub(crate) fn results(&self) -> Option<(NodesReport, Claimants)> {
        let context = self.context.newest().filter(|_| self.has_synced() && self.queue.is_idle())?;
        let claimants = Claimants {
            policies: self.policies.hash.clone(),
            daemons: Arc::clone(&context.daemon_sets),
            waited_for: self.queue.blockers().cloned().collect(),
        };
        let policy = &self.policies.nodes;
        let waiter = |(blocker, nodes): &(TaintBlocker, usize)| {
            let (kind, namespace, name) = blocker.object()?;
            let (kind, namespace, name) = (kind.to_owned(), namespace.to_owned(), name.to_owned());
            Some(TaintWaiter { kind, namespace, name, nodes: *nodes })
        };
        let NodeCounts { windows, waiting, contested, .. } = self.reports.counts;
        let report = NodesReport {
            mode: format!("{:?}", policy.mode),
            taint: policy_taint(policy).to_string(),
            apply: format!("{:?}", policy.taint.apply),
            release_label: policy.labels.contains(&NodeLabel::Release),
            windows,
            waiting,
            contested,
            waits_for: self.reports.longest.iter().filter_map(waiter).collect(),
        };
        Some((report, claimants))
    }

    pub(crate) fn apply_daemon_set(&mut self, event: Event<SlimDaemonSet>) {
        if self.context.apply(event) {
            self.context_changed();
        }
    }

    /// The first time, and while a new node waits for it, at once; later, a burst (a chart with many DaemonSets) is
    /// processed as a whole, at the next tick.
    pub(crate) fn context_changed(&mut self) {
        self.context.set_due();
        if self.context.newest().is_none() || self.queue.has_new_nodes() {
            self.renew_context();
        }
    }

    fn renew_context(&mut self) {
        if let Some((context, changed)) = self.context.renew(&self.policies) {
            self.queue.context_renewed(changed, |name, node| context.contains(name, node));
        }
    }

    pub(crate) fn set_own_taints(&mut self, own_taints: BTreeSet<Taint>) {
        if *self.own_taints != own_taints {
            self.own_taints = Arc::new(own_taints);
            self.queue.set_all_due();
        }
    }

    pub(crate) fn set_policies(&mut self, policies: Arc<PolicySet>) {
        self.policies = policies;
        // No plan is made from two sets: the context comes from the old set, and work in progress is planned again.
        self.context.clear();
        self.queue.set_all_due();
        self.queue.blockers_changed = true;
        self.classes.set_due_now();
        self.requests.limits().clear();
        self.renew_context();
    }

    pub(crate) fn tick(&mut self) {
        let now = Instant::now();
        self.renew_context();
        let recheck = now >= self.next_recheck;
        if recheck {
            self.next_recheck = now + RECHECK;
            self.requests.limits().sweep(now);
        }
        self.reports.counts = self.queue.tick(now, recheck);
        let NodeCounts { windows, waiting, contested, withheld } = self.reports.counts;
        self.requests.metrics.set_nodes(windows, waiting, contested, withheld);
        if std::mem::take(&mut self.queue.blockers_changed) {
            self.reports.longest = self.reports.blockers.update(self.queue.blockers(), now);
            let toleration = toleration_text(&policy_taint(&self.policies.nodes));
            self.requests.metrics.set_taint_blockers(&toleration, &self.reports.longest);
        }
        self.report_left_out(now);
        if std::mem::take(&mut self.queue.facts_changed) {
            self.classes.set_due();
        }
        if self.queue.is_complete() {
            self.start_classes(now);
        }
    }

    fn report_left_out(&mut self, now: Instant) {
        let Some(context) = self.context.newest() else { return };
        let daemon_sets = self.context.daemon_sets();
        let Some(report) = self.reports.left_out.step(daemon_sets, &context.snapshot, &self.policies, now) else {
            return;
        };
        self.requests.metrics.set_left_out(&report.counts);
        if !report.events.is_empty() {
            self.running.push(Arc::clone(&self.requests).write_events(report.events).boxed());
        }
    }

    /// Starts work on due nodes.
    pub(crate) fn start(&mut self) {
        for name in self.queue.silent.drain(..) {
            self.requests.events.forget(&name);
        }
        let (now, policy) = (Instant::now(), &self.policies.nodes);
        // Label and taint are set in one patch, if everything is read soon, and the taint is recorded soon.
        let can_taint = possible_taint(policy).is_none_or(|taint| self.own_taints.contains(&taint));
        if !(self.context.newest().is_some() && can_taint) && now < self.context_deadline {
            return;
        }
        let waits = policy.taint.apply == ApplyTaint::WhenTolerated;
        while let Some(node) = self.queue.take_due(|queued| !(waits && queued.is_new(now))) {
            let plan = plan_node(&node.facts, policy, &self.own_taints, &[], unix_time());
            // This is true for most changes of nodes.
            if plan.is_idle() && self.queue.settle(&node.facts.name) {
                continue;
            }
            let (requests, policies) = (Arc::clone(&self.requests), Arc::clone(&self.policies));
            let (own_taints, context) = (Arc::clone(&self.own_taints), self.context.newest().cloned());
            let work = requests.reconcile(node, plan, policies, own_taints, context);
            self.running.push(work.map(Completed::Node).boxed());
        }
    }

    fn start_classes(&mut self, now: Instant) {
        let Some(plan) = self.classes.start(self.queue.facts(), &self.policies.nodes, now) else { return };
        if let Some((build, node)) = plan.without_class
            && let Some(node) = self.queue.observed(&node)
        {
            let event = (node_reference(&node), no_class_left(build));
            self.running.push(Arc::clone(&self.requests).write_events(vec![event]).boxed());
        }
        if !plan.writes.is_empty() {
            self.running.push(Arc::clone(&self.requests).write_classes(plan.writes).boxed());
        }
    }

    pub(crate) fn finish(&mut self, completed: Completed) {
        match completed {
            Completed::Node(report) => self.queue.finish(report),
            // Not immediately, because what failed will most likely fail again.
            Completed::Classes { again } => self.classes.finish(again.then(|| Instant::now() + RECHECK)),
            Completed::Events => {}
        }
    }
}

#[cfg(test)]
impl NodeLoop {
    pub(crate) fn set_empty_context(&mut self) {
        self.context.set_empty(&self.policies);
    }
}
