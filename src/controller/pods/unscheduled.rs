//! Pods that wait for a node: helped where that is allowed, else told of.
//!
//! Every change of an unscheduled pod is looked at as it comes; kept is only what something is to be done about. When that
//! is due the pod is read again, so whatever is written rests on its newest version and the newest snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::Patch;
use kube::runtime::watcher::{Config, Event};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_policy::policy_set::PolicySet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::cluster::call::await_answer;
use crate::cluster::watch;
use crate::cluster::watch::Changes;
use crate::cluster::write_params::patch_params;
use crate::controller::metrics::Outcome;
use crate::controller::pods::missed::{Missed, Report, missed};
use crate::controller::pods::object::{WholePod, owner_uid, reviewed};
use crate::controller::pods::reach::Reach;
use crate::controller::pods::shared::{AGAIN, BACKOFF, Counted, Shared};
use crate::controller::pods::{repair, text};
use crate::telemetry::error_text::in_words;
use crate::value_hash::hash_of;

/// How long a pod may wait for the scheduler before anything is done: one that is just being scheduled needs nothing.
const SETTLE: Duration = Duration::from_secs(5);
/// Pods of one page where lists are not streamed: each is 10 KB or more, and three times that when it is parsed.
const PAGE: u32 = 100;
/// Pods worked on at the same time.
const CONCURRENCY: usize = 8;
/// Most pods kept, of about 500 bytes each. The rest come when these are done and all are looked at again.
const MAX_KEPT: usize = 5_000;
/// How often due work and a changed snapshot are looked for.
const TICK: Duration = Duration::from_secs(1);
/// How long after one look at all pods the next may begin: ten times as long as it took, within these.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// Works for ever.
pub(crate) async fn run(shared: Arc<Shared>, streaming: bool) {
    let mut changes = follow(&shared, streaming);
    let mut work = Work::new(shared);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        work.start();
        tokio::select! {
            Some(event) = changes.next() => work.event(event),
            Some((key, began, end)) = work.running.next(), if !work.running.is_empty() => work.done(&key, began, end),
            _ = ticks.tick() => {
                if work.tick() {
                    changes = follow(&work.shared, streaming);
                }
            }
        }
    }
}

fn follow(shared: &Shared, streaming: bool) -> Changes<WholePod> {
    let unscheduled = Config::default().fields("spec.nodeName=,status.phase=Pending").page_size(PAGE);
    watch::paged_changes(Api::all(shared.client.clone()), unscheduled, streaming)
}

/// One pod something is to be done about.
#[derive(Debug, Clone, PartialEq)]
struct Kept {
    uid: String,
    what: What,
    due: Instant,
    /// When the work that is under way began; `None` while there is none.
    began: Option<Instant>,
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// To be looked at when it is due, and helped.
    Look,
    /// To be told of; what, and of whose pods.
    Tell(u64),
    /// Told of.
    Told(u64),
}

/// Namespace and name.
type Key = (String, String);
type Pods = BTreeMap<Key, Kept>;

struct Work {
    shared: Arc<Shared>,
    pods: Pods,
    /// Those of a list that is still coming.
    arriving: Option<Pods>,
    /// What may be due; out of date where the pod says otherwise.
    queue: BTreeSet<(Instant, Key)>,
    /// What has been told of whose pods.
    said: HashMap<u64, Instant>,
    running: FuturesUnordered<BoxFuture<'static, (Key, Instant, End)>>,
    seen: Seen,
    began: Instant,
    not_before: Instant,
    overflowed: bool,
}

/// What all pods were looked at with.
struct Seen {
    snapshot: u64,
    policies: Arc<PolicySet>,
    reach: Option<Reach>,
}

/// How the work on one pod ended.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Nothing is left to be done, or the watch will say what.
    Settled,
    /// Told of; what, and of whose pods.
    Told(u64),
    Again,
}

impl Work {
    fn new(shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        Self {
            seen: Seen::of(&shared),
            shared,
            pods: Pods::new(),
            arriving: None,
            queue: BTreeSet::new(),
            said: HashMap::new(),
            running: FuturesUnordered::new(),
            began: now,
            not_before: now,
            overflowed: false,
        }
    }

    fn event(&mut self, event: Event<WholePod>) {
        match event {
            Event::Init => {
                self.arriving = Some(Pods::new());
                self.began = Instant::now();
            }
            Event::InitDone => {
                self.pods = self.arriving.take().unwrap_or_default();
                // What came due meanwhile was looked for among the old ones.
                self.queue = self.pods.iter().map(|(key, kept)| (kept.due, key.clone())).collect();
                let took = self.began.elapsed().saturating_mul(10);
                self.not_before = Instant::now() + took.clamp(BETWEEN.0, BETWEEN.1);
            }
            Event::InitApply(pod) | Event::Apply(pod) => self.look(pod),
            Event::Delete(pod) => {
                self.pods.remove(&key(&pod.metadata));
            }
        }
    }

    /// Keeps the pod if there is something to be done, and forgets it otherwise.
    fn look(&mut self, pod: WholePod) {
        let key = key(&pod.metadata);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let wait = settle(pod.metadata.creation_timestamp.as_ref().map(|time| time.0), Timestamp::now());
        let owner = owner_uid(&pod.metadata);
        let what = match say(&self.shared, pod) {
            Said::Nothing => None,
            Said::TooEarly | Said::Repair(..) => Some(What::Look),
            Said::Report(report) => Some(What::Tell(hash_of(&(owner, &report)))),
        };
        // What is under way may have read the pod before it was as it is now.
        let before = self.pods.get(&key).filter(|before| before.uid == uid && before.began.is_none()).cloned();
        let pods = self.arriving.as_mut().unwrap_or(&mut self.pods);
        let Some(what) = what else {
            pods.remove(&key);
            return;
        };
        if pods.len() >= MAX_KEPT && !pods.contains_key(&key) {
            if !self.overflowed {
                tracing::warn!(
                    "more than {MAX_KEPT} unscheduled pods need something; the rest wait until these are done"
                );
            }
            self.overflowed = true;
            return;
        }
        let kept = match (before, what) {
            // Known, and nothing new about it.
            (Some(before), What::Look) if before.what == What::Look => before,
            (Some(before), What::Tell(news)) if matches!(before.what, What::Tell(known) | What::Told(known) if known == news) => {
                before
            }
            _ => Kept { uid, what, due: Instant::now() + wait, began: None, failures: 0 },
        };
        self.queue.insert((kept.due, key.clone()));
        pods.insert(key, kept);
    }

    /// Starts what is due, as far as there is room.
    fn start(&mut self) {
        let now = Instant::now();
        while self.running.len() < CONCURRENCY {
            let Some((due, key)) = self.queue.first().filter(|(due, _)| *due <= now).cloned() else { return };
            self.queue.pop_first();
            let Some(kept) = self.pods.get_mut(&key).filter(|kept| kept.due == due) else { continue };
            if let What::Tell(news) | What::Told(news) = kept.what
                && self.said.get(&news).is_some_and(|at| at.elapsed() < AGAIN)
            {
                // Another pod of the same owner has had it told.
                kept.what = What::Told(news);
                kept.due = now + AGAIN;
                self.queue.insert((kept.due, key));
                continue;
            }
            let (shared, uid) = (Arc::clone(&self.shared), kept.uid.clone());
            // Not again while it is under way; the end of it says when.
            kept.due = now + AGAIN;
            kept.began = Some(now);
            let act = async move {
                let end = act(&shared, &key, &uid).await;
                (key, now, end)
            };
            self.running.push(act.boxed());
        }
    }

    fn done(&mut self, key: &Key, began: Instant, end: End) {
        // What has changed meanwhile has a time of its own.
        let Some(kept) = self.pods.get_mut(key).filter(|kept| kept.began == Some(began)) else { return };
        kept.began = None;
        match end {
            End::Told(news) => {
                kept.what = What::Told(news);
                kept.failures = 0;
                if self.said.len() >= MAX_KEPT {
                    self.said.retain(|_, at| at.elapsed() < AGAIN);
                }
                self.said.insert(news, Instant::now());
            }
            End::Settled => {
                self.pods.remove(key);
                return;
            }
            End::Again => {
                kept.due = Instant::now() + BACKOFF.delay(kept.failures);
                kept.failures = kept.failures.saturating_add(1);
            }
        }
        self.queue.insert((kept.due, key.clone()));
    }

    /// Counts, and says whether all pods should be looked at again: something else is known now, or there is room for
    /// those that were too many.
    fn tick(&mut self) -> bool {
        let told = self.pods.values().filter(|kept| matches!(kept.what, What::Told(_))).count();
        self.shared.count(Counted::Unscheduled, told);
        let now = Instant::now();
        if self.arriving.is_some() || now < self.not_before {
            return false;
        }
        let seen = Seen::of(&self.shared);
        let room = self.overflowed && (self.pods.len() < MAX_KEPT / 2 || now > self.not_before + BETWEEN.1);
        if seen.same(&self.seen) && !room {
            return false;
        }
        self.seen = seen;
        self.overflowed = false;
        true
    }
}

impl Seen {
    fn of(shared: &Shared) -> Self {
        Self {
            snapshot: fingerprint(&shared.snapshot.load_full()),
            policies: shared.policies(),
            reach: shared.reach.borrow().clone(),
        }
    }

    fn same(&self, other: &Self) -> bool {
        self.snapshot == other.snapshot && Arc::ptr_eq(&self.policies, &other.policies) && self.reach == other.reach
    }
}

/// What a pod's review can depend on, as a number. Nodes count by their kinds: another node of a pool changes nothing.
fn fingerprint(snapshot: &ClusterSnapshot) -> u64 {
    let nodes = snapshot.nodes.as_ref();
    let own = |key: &str| key == "kubernetes.io/hostname";
    let kinds = nodes.iter().flat_map(|nodes| nodes.samples([])).map(|node| {
        let labels: Vec<_> = node.labels.iter().filter(|(key, _)| !own(key)).collect();
        hash_of(&(node.os, labels))
    });
    let kinds: BTreeSet<u64> = kinds.collect();
    let taints = nodes.map(|nodes| (nodes.windows_taints(), nodes.windows_builds()));
    let classes: Vec<_> = snapshot
        .runtime_classes
        .iter()
        .flatten()
        .map(|(name, class)| (name, &class.handler, &class.node_selector, class.ours))
        .collect();
    let namespaces: Vec<_> =
        snapshot.namespaces.iter().map(|(name, namespace)| (name, &namespace.labels, &namespace.annotations)).collect();
    hash_of(&(kinds, taints, &snapshot.seen_taints, &snapshot.seen_builds, classes, namespaces))
}

/// How long a pod made then has still to wait. Clocks differ: never longer than a new one.
fn settle(created: Option<Timestamp>, now: Timestamp) -> Duration {
    let age = created.map_or(Duration::ZERO, |created| now.duration_since(created).try_into().unwrap_or_default());
    SETTLE.saturating_sub(age)
}

fn key(metadata: &ObjectMeta) -> Key {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

enum Said {
    Nothing,
    /// Its namespace is not known yet.
    TooEarly,
    /// The patch, and what it leaves undone.
    Repair(serde_json::Value, Option<Report>),
    Report(Report),
}

/// What is to be done about the pod, by what is known now.
fn say(shared: &Shared, pod: WholePod) -> Said {
    let metadata = pod.metadata.clone();
    if !shared.knows(metadata.namespace.as_deref().unwrap_or_default()) {
        return Said::TooEarly;
    }
    let (reviewed, unschedulable) = (reviewed(&metadata), pod.status.unschedulable());
    let object = pod.object();
    let Some(review) = shared.review(&metadata, &object) else { return Said::Nothing };
    match missed(&review, &object, &shared.snapshot.load(), reviewed) {
        Missed::Repair { tolerations, undone } => match repair::patch(&object, &tolerations) {
            Some(patch) => Said::Repair(patch, undone),
            None => Said::Nothing,
        },
        // What the scheduler finds a node for needs no word.
        Missed::Report(report) if unschedulable => Said::Report(report),
        Missed::Report(_) | Missed::Nothing => Said::Nothing,
    }
}

/// Reads the pod again and does what is to be done then.
async fn act(shared: &Shared, (namespace, name): &Key, uid: &str) -> End {
    let pod = match shared.read(namespace, name, Some(uid)).await {
        Ok(Some(pod)) => pod,
        Ok(None) => return End::Settled,
        Err(error) => {
            tracing::warn!(namespace, name, error = in_words(&error), "cannot read an unscheduled pod");
            return End::Again;
        }
    };
    let metadata = pod.metadata.clone();
    match say(shared, pod) {
        Said::Nothing => End::Settled,
        Said::TooEarly => End::Again,
        Said::Repair(patch, undone) => {
            // Told first: once it has its tolerations it is bound, and not looked at again.
            if let Some(report) = undone
                && let Err(error) = shared.tell(&metadata, |owner| Some(text::unscheduled(owner, &report))).await
            {
                tracing::warn!(namespace, name, error = in_words(error.as_ref()), "cannot tell what a pod lacks");
            }
            write(shared, namespace, name, patch).await
        }
        Said::Report(report) => {
            let told = shared.tell(&metadata, |owner| Some(text::unscheduled(owner, &report))).await;
            match told {
                Ok(()) => End::Told(hash_of(&(owner_uid(&metadata), &report))),
                Err(error) => {
                    tracing::warn!(
                        namespace,
                        name,
                        error = in_words(error.as_ref()),
                        "cannot tell of an unscheduled pod"
                    );
                    End::Again
                }
            }
        }
    }
}

async fn write(shared: &Shared, namespace: &str, name: &str, patch: serde_json::Value) -> End {
    let api: Api<WholePod> = Api::namespaced(shared.client.clone(), namespace);
    let params = patch_params();
    let written = await_answer(api.patch(name, &params, &Patch::Merge(&patch))).await;
    let outcome = Outcome::of(&written);
    shared.metrics.pod_patched(outcome);
    match written {
        Ok(_) => tracing::info!(namespace, name, "tolerations appended to a pod that was created without them"),
        Err(error) if outcome == Outcome::Failed => {
            let error = in_words(&error);
            tracing::warn!(namespace, name, error, "cannot append tolerations to a pod; trying again");
        }
        Err(_) => {}
    }
    if matches!(outcome, Outcome::Done | Outcome::Gone) { End::Settled } else { End::Again }
}

#[cfg(test)]
mod tests;
