//! What is due, under way and waiting: knows the cluster, makes no request itself.
//!
//! A node is planned when it, the policies, or the DaemonSets it waits for change, never twice at the same time, and
//! always from the newest object seen. What fails is tried again with growing waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use kube::runtime::watcher::Event;
use mullion_engine::model::cluster::taint::Taint;
use mullion_engine::model::settings::node_settings::{ApplyTaint, policy_taint};
use mullion_engine::node::node_create::Claimants;
use mullion_engine::node::node_patch::{Hold, Trust};
use mullion_engine::node::plan::{plan_node, wanted_taint};
use mullion_policy::policy_set::PolicySet;
use tokio::time::Instant;

use crate::cluster::backoff::Backoff;
use crate::cluster::live::{Collection, Live, SlimNode};
use crate::controller::nodes::daemons::KnownDaemonSet;
use crate::controller::nodes::known::{Kept, Known, Neighbours, known};
use crate::controller::nodes::repeats::key;
use crate::controller::nodes::requests::{Done, End, Report, Shared, now};
use crate::controller::runtime_classes;
use crate::controller::runtime_classes::Standing;

/// Nodes worked on at the same time. Against a server that takes 5 ms, 8 gave 880 patches a second and 32 about 2,500.
const CONCURRENCY: usize = 16;
/// Jittered by the node's name: a fleet that failed as a whole does not come back as a whole.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
/// How often a node whose taint waits is looked at again: pods come and go unseen.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How long a node's labels wait, at the start or when it is new, for what only its taint needs: a node that is patched
/// without it is patched twice. Lists of a busy API server take seconds, and up to a minute (`--request-timeout`).
const PATIENCE: Duration = Duration::from_secs(30);

#[allow(clippy::struct_excessive_bools, reason = "each says what is due or known of one kind")]
pub(crate) struct Work {
    shared: Arc<Shared>,
    policies: Arc<PolicySet>,
    /// The taint of every policy so far, and what was ever seen on Windows nodes.
    trust: Arc<Trust>,
    snapshot: Arc<Live>,
    nodes: BTreeMap<String, Kept>,
    arriving: BTreeMap<String, Kept>,
    nodes_complete: bool,
    pub(crate) daemons: Collection<KnownDaemonSet>,
    /// `None` until DaemonSets and the snapshot have been read: no taint is set on a guess.
    neighbours: Option<Arc<Neighbours>>,
    neighbours_due: bool,
    /// Nodes that the snapshot may not have seen yet, and until when they wait for that: whose a DaemonSet is may depend
    /// on the nodes there are.
    newcomers: BTreeMap<String, Instant>,
    pub(crate) classes: Collection<Standing>,
    pub(crate) classes_due: bool,
    classes_busy: bool,
    /// What was said of classes last: it would be the same with every node that changes.
    complaints: Vec<String>,
    classes_not_before: Instant,
    /// To be planned.
    due: BTreeSet<String>,
    /// Being planned or patched.
    busy: BTreeSet<String>,
    /// Patched too late: planned again as soon as a newer object is seen.
    conflicted: BTreeSet<String>,
    /// When to try again, and how often it has failed.
    retries: BTreeMap<String, (Instant, u32)>,
    /// Whose taint waits, and for whom.
    waiting: BTreeMap<String, Vec<String>>,
    /// Nodes of which something is left alone because somebody undoes it.
    contested: BTreeSet<String>,
    /// Nodes that are only told what they would get.
    withheld: BTreeSet<String>,
    look_again: Instant,
    /// Until when nodes wait for the DaemonSets and namespaces to be read.
    patience: Instant,
    pub(crate) running: FuturesUnordered<BoxFuture<'static, Done>>,
}

impl Work {
    pub(crate) fn new(shared: Shared, snapshot: Arc<Live>, policies: Arc<PolicySet>, seen: BTreeSet<Taint>) -> Self {
        Self {
            shared: Arc::new(shared),
            policies,
            trust: Arc::new(Trust { seen, ..Trust::default() }),
            snapshot,
            nodes: BTreeMap::new(),
            arriving: BTreeMap::new(),
            nodes_complete: false,
            daemons: Collection::default(),
            neighbours: None,
            neighbours_due: true,
            newcomers: BTreeMap::new(),
            classes: Collection::default(),
            classes_due: true,
            classes_busy: false,
            complaints: Vec::new(),
            classes_not_before: Instant::now(),
            due: BTreeSet::new(),
            busy: BTreeSet::new(),
            conflicted: BTreeSet::new(),
            retries: BTreeMap::new(),
            waiting: BTreeMap::new(),
            contested: BTreeSet::new(),
            withheld: BTreeSet::new(),
            look_again: Instant::now() + LOOK_AGAIN,
            patience: Instant::now() + PATIENCE,
            running: FuturesUnordered::new(),
        }
    }

    pub(crate) fn complete(&self) -> bool {
        self.nodes_complete && self.daemons.complete && self.snapshot.ready() && self.classes.complete
    }

    /// Who has a claim to Windows nodes, once every node has been planned.
    pub(crate) fn claimants(&self) -> Option<Claimants> {
        let settled = self.complete() && self.due.is_empty() && self.busy.is_empty();
        let daemons = Arc::clone(&self.neighbours.as_ref().filter(|_| settled)?.daemons);
        let waited_for = self.waiting.values().flatten().cloned().collect();
        Some(Claimants { policies: self.policies.hash.clone(), daemons, waited_for })
    }

    pub(crate) fn node_event(&mut self, event: Event<SlimNode>) {
        match event {
            Event::Init => self.arriving.clear(),
            Event::InitApply(node) => {
                let (name, known) = known(node);
                self.arriving.insert(name, known.into());
            }
            Event::InitDone => {
                let arrived = std::mem::take(&mut self.arriving);
                let gone: Vec<String> =
                    self.nodes.keys().filter(|name| !arrived.contains_key(*name)).cloned().collect();
                for name in gone {
                    self.forget(&name);
                }
                for (name, kept) in arrived {
                    // Not held against what was seen: after a restore from a backup, versions start lower.
                    self.take_in(name, kept);
                }
                self.nodes_complete = true;
                self.classes_due = true;
            }
            Event::Apply(node) => {
                let (name, known) = known(node);
                self.seen(name, known.into());
            }
            Event::Delete(node) => self.forget(&known(node).0),
        }
    }

    /// Takes the object in. Kubelets write their status every few minutes: what changes nothing that is read here
    /// only brings a newer version to patch against.
    fn seen(&mut self, name: String, newest: Kept) {
        let late = |before: &Kept| newest.is_before(before);
        // One that was on its way before the answer to our own patch says nothing new.
        if !self.nodes.get(&name).is_some_and(late) {
            self.take_in(name, newest);
        }
    }

    fn take_in(&mut self, name: String, newest: Kept) {
        let before = self.nodes.get(&name);
        let changed = before.is_none_or(|before| !before.is_alike(&newest));
        if before.is_none_or(|before| !before.is_same(&newest)) {
            // Deleted and made again, unseen: nothing that was said of the other holds.
            self.forget(&name);
            self.newcomers.insert(name.clone(), Instant::now() + PATIENCE);
        }
        self.nodes.insert(name.clone(), newest);
        self.classes_due |= changed;
        if self.conflicted.remove(&name) || changed {
            self.due.insert(name);
        }
    }

    fn forget(&mut self, name: &str) {
        self.nodes.remove(name);
        self.newcomers.remove(name);
        self.due.remove(name);
        self.conflicted.remove(name);
        self.retries.remove(name);
        self.waiting.remove(name);
        self.contested.remove(name);
        self.withheld.remove(name);
        self.shared.told.forget(name);
    }

    /// The first time, and while somebody new waits for it, at once; later a burst (a chart with many DaemonSets) is
    /// taken in as a whole, at the next tick.
    pub(crate) fn neighbours_changed(&mut self) {
        self.neighbours_due = true;
        if self.neighbours.is_none() || !self.newcomers.is_empty() {
            self.meet_neighbours();
        }
    }

    fn meet_neighbours(&mut self) {
        if !(self.neighbours_due && self.daemons.complete && self.snapshot.ready()) {
            return;
        }
        self.neighbours_due = false;
        let met = Neighbours::meet(&self.daemons.entries, self.snapshot.snapshot(), &self.policies);
        let now = Instant::now();
        let nodes = &self.nodes;
        let included = |name: &String| nodes.get(name).is_some_and(|kept| met.include(name, kept));
        self.newcomers.retain(|name, until| now < *until && !included(name));
        if self.neighbours.as_ref().is_none_or(|before| !before.alike(&met)) {
            self.due.extend(self.waiting.keys().cloned());
        }
        self.neighbours = Some(Arc::new(met));
    }

    /// Whether the node is too new for a decision about its taint.
    fn unmet(&self, name: &str, now: Instant) -> bool {
        self.policies.nodes.taint.apply == ApplyTaint::WhenTolerated
            && self.newcomers.get(name).is_some_and(|until| now < *until)
    }

    /// What was seen stays known: nodes may still have it when it is forgotten.
    pub(crate) fn seen_changed(&mut self, seen: &BTreeSet<Taint>) {
        if !seen.is_subset(&self.trust.seen) {
            Arc::make_mut(&mut self.trust).seen.extend(seen.iter().cloned());
        }
    }

    pub(crate) fn policies_changed(&mut self, policies: Arc<PolicySet>) {
        // Nodes may have had it for less time than it takes to be seen.
        self.seen_changed(&BTreeSet::from([policy_taint(&self.policies.nodes)]));
        self.policies = policies;
        // Judged by those before: no plan is made from both. What is under way was planned by those alone, and comes again.
        self.neighbours = None;
        self.due.extend(self.nodes.keys().cloned());
        self.classes_due = true;
        self.classes_not_before = Instant::now();
        self.shared.repeats().clear();
        self.neighbours_due = true;
        self.meet_neighbours();
    }

    pub(crate) fn tick(&mut self) {
        let now = Instant::now();
        self.meet_neighbours();
        if now >= self.look_again {
            self.look_again = now + LOOK_AGAIN;
            self.shared.repeats().sweep(now);
            self.due.extend(self.waiting.keys().chain(&self.contested).cloned());
        }
        let late = self.retries.iter().filter(|(name, (at, _))| *at <= now && !self.busy.contains(*name));
        self.due.extend(late.map(|(name, _)| name.clone()));
        let classes_known = self.nodes_complete && self.classes.complete;
        if self.classes_due && classes_known && !self.classes_busy && now >= self.classes_not_before {
            self.classes_due = false;
            self.start_classes();
        }
        let (waiting, contested) = (self.waiting.len(), self.contested.len());
        self.shared.metrics.nodes(self.nodes.len(), waiting, contested, self.withheld.len());
    }

    /// Starts what is due, as far as there is room.
    pub(crate) fn start(&mut self) {
        // Label and taint in one patch, if everything is known soon.
        if self.neighbours.is_none() && Instant::now() < self.patience {
            return;
        }
        let now_here = Instant::now();
        while self.busy.len() < CONCURRENCY {
            let ready = |name: &&String| !self.busy.contains(*name) && !self.unmet(name, now_here);
            let Some(name) = self.due.iter().find(ready).cloned() else { return };
            self.due.remove(&name);
            let Some(known) = self.nodes.get(&name).map(Kept::known) else { continue };
            if self.is_quiet(&name, &known) {
                self.retries.remove(&name);
                self.contested.remove(&name);
                self.withheld.remove(&name);
                continue;
            }
            self.busy.insert(name);
            let (shared, policies) = (Arc::clone(&self.shared), Arc::clone(&self.policies));
            let (trust, neighbours) = (Arc::clone(&self.trust), self.neighbours.clone());
            self.running.push(shared.reconcile(Arc::new(known), policies, trust, neighbours).map(Done::Node).boxed());
        }
    }

    /// Whether there is nothing to ask, to write or to say. Most changes are of that kind.
    fn is_quiet(&self, name: &str, known: &Known) -> bool {
        let policy = &self.policies.nodes;
        !self.waiting.contains_key(name) && wanted_taint(&known.facts, policy, &self.trust).is_none() && {
            let plan = plan_node(&known.facts, policy, &self.trust, &[], now());
            plan.patch.is_none() && plan.hold == Hold::None && !plan.withheld
        }
    }

    fn start_classes(&mut self) {
        let facts = self.nodes.values().map(Kept::facts);
        let (writes, complaints) = runtime_classes::plan(facts, &self.policies.nodes, &self.classes.entries);
        for complaint in complaints.iter().filter(|complaint| !self.complaints.contains(complaint)) {
            tracing::warn!("{complaint}");
        }
        self.complaints = complaints;
        if !writes.is_empty() {
            self.classes_busy = true;
            self.running.push(Arc::clone(&self.shared).write_classes(writes).boxed());
        }
    }

    pub(crate) fn done(&mut self, done: Done) {
        let report = match done {
            Done::Classes { again } => {
                self.classes_busy = false;
                if again {
                    // Not at once: what failed will most likely fail again.
                    self.classes_not_before = Instant::now() + LOOK_AGAIN;
                    self.classes_due = true;
                }
                return;
            }
            Done::Node(report) => report,
        };
        let Report { name, version, end, waits_for, contested, withheld } = report;
        self.busy.remove(&name);
        let Some(now_known) = self.nodes.get(&name) else {
            // Something may have been told of it after it had gone.
            self.shared.told.forget(&name);
            return;
        };
        let newer_seen = *now_known.version != *version;
        if waits_for.is_empty() {
            self.waiting.remove(&name);
        } else {
            self.waiting.insert(name.clone(), waits_for);
        }
        for (set, belongs) in [(&mut self.contested, contested), (&mut self.withheld, withheld)] {
            if belongs {
                set.insert(name.clone());
            } else {
                set.remove(&name);
            }
        }
        if !contested && !withheld && !self.waiting.contains_key(&name) {
            self.shared.told.forget(&name);
        }
        match end {
            End::Settled => {
                self.retries.remove(&name);
            }
            End::Patched(node) => {
                self.retries.remove(&name);
                // The answer is newer than what the watch has brought, unless that has moved on by itself.
                if !newer_seen {
                    let (name, known) = known(*node);
                    self.seen(name, known.into());
                }
            }
            // What was patched too late, or is gone, is not what is there now: a node of the same name came back.
            End::Conflict | End::Gone if newer_seen => {
                self.due.insert(name);
            }
            End::Conflict => {
                self.conflicted.insert(name.clone());
                self.retry(name);
            }
            End::Gone => self.forget(&name),
            End::Failed => self.retry(name),
            End::Enough(until) => {
                self.retries.insert(name, (until, 0));
            }
        }
    }

    fn retry(&mut self, name: String) {
        let failures = self.retries.get(&name).map_or(0, |(_, failures)| *failures);
        let wait = BACKOFF.jittered(failures, key(&(&name, failures)));
        self.retries.insert(name, (Instant::now() + wait, failures.saturating_add(1)));
    }
}

#[cfg(test)]
impl Work {
    /// Meets nobody, in an empty snapshot.
    pub(crate) fn alone(&mut self) {
        let nobody = BTreeMap::new();
        self.neighbours = Some(Arc::new(Neighbours::meet(&nobody, Arc::default(), &self.policies)));
    }

    pub(crate) fn take_due(&mut self, name: &str) {
        self.due.remove(name);
        self.busy.insert(name.to_owned());
    }

    pub(crate) fn is_due(&self, name: &str) -> bool {
        self.due.contains(name)
    }

    pub(crate) fn met(&mut self, name: &str) {
        self.newcomers.remove(name);
    }

    pub(crate) fn is_unmet(&self, name: &str) -> bool {
        self.unmet(name, Instant::now())
    }

    pub(crate) fn version_of(&self, name: &str) -> Option<String> {
        self.nodes.get(name).map(|kept| kept.version.to_string())
    }
}
