//! Unscheduled pods: repaired if possible, otherwise reported.
//!
//! Every change of an unscheduled pod is reviewed as it arrives; only pods that need something are stored. When such a
//! pod is due it is read again, so every write follows from its newest version and the newest snapshot. Namespaces take
//! turns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mullion_engine::model::cluster::{ClusterSnapshot, Nodes};
use mullion_policy::PolicySet;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};

use crate::cluster::await_answer;
use crate::cluster::reading::{Changes, Event, KindApi, PODS, Selection, changes};
use crate::controller::denied_write::denied_write;
use crate::controller::metrics::WriteOutcome;
use crate::controller::pods::event_shares::{EventShares, REPEAT};
use crate::controller::pods::fair_queue::{FairQueue, LeftOut};
use crate::controller::pods::missed::{MissedPod, MissedReport, assess};
use crate::controller::pods::object::{WholePod, owner_uid, reviewed};
use crate::controller::pods::pod_context::{BACKOFF, MissedKind, PodContext};
use crate::controller::pods::pod_events;
use crate::controller::pods::repair::{patches_by_effect, toleration_patch};
use crate::controller::pods::webhook_selectors::WebhookSelectors;
use crate::telemetry::in_words;
use crate::value_hash::hash_of;

/// How long a pod may wait for the scheduler before anything is done: a pod that is being scheduled needs nothing.
const SCHEDULING_TIME: Duration = Duration::from_secs(5);
/// The number of pods in progress at the same time.
const CONCURRENCY: usize = 8;
/// The maximum number of pods that are stored, of about 500 bytes each, shared by all namespaces that have any. The
/// rest follow when these are done and all are listed again.
const MAX_PODS: usize = 5_000;
/// The interval at which due work is started and changes of the snapshot are detected.
const TICK: Duration = Duration::from_secs(1);
/// How long after one list of all pods the next may begin: ten times the duration of the list, within these limits.
const LIST_PAUSE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// Runs forever.
pub(crate) async fn run(context: Arc<PodContext>, streaming: bool) {
    let mut changes = follow(&context, streaming);
    let mut queue = PodQueue::new(context);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        queue.start();
        tokio::select! {
            Some(event) = changes.next() => queue.apply(event),
            Some((key, began, result)) = queue.running.next(), if !queue.running.is_empty() => {
                queue.finish(&key, began, result);
            }
            _ = ticks.tick() => {
                if queue.tick() {
                    changes = follow(&queue.context, streaming);
                }
            }
        }
    }
}

fn follow(context: &PodContext, streaming: bool) -> Changes<WholePod> {
    let unscheduled = Selection::fields("spec.nodeName=,status.phase=Pending");
    changes(KindApi::all(context.client.clone(), &PODS), unscheduled, streaming)
}

/// A pod that needs something.
#[derive(Debug, Clone, PartialEq)]
struct QueuedPod {
    uid: String,
    task: PodTask,
    /// When the work in progress began; `None` if there is none.
    began: Option<Instant>,
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodTask {
    /// The pod is reviewed again when it is due, and repaired.
    Review,
    /// The pod is to be reported; a hash of the owner and the report.
    Report(u64),
    /// The pod was reported, or waits until its namespace has a share of Events again.
    Reported(u64),
}

/// Namespace and name.
type PodKey = (Arc<str>, String);
/// By name.
type Pods = FairQueue<String, QueuedPod>;

struct PodQueue {
    context: Arc<PodContext>,
    pods: Pods,
    /// Pods of a list that is not complete yet.
    arriving: Option<Pods>,
    /// Reports that were written, by the hash of the owner and the report.
    reported: EventShares,
    running: FuturesUnordered<BoxFuture<'static, (PodKey, Instant, PodResult)>>,
    basis: ReviewBasis,
    began: Instant,
    not_before: Instant,
    overflowed: bool,
}

/// The facts that affect the reviews of all pods.
struct ReviewBasis {
    snapshot: u64,
    policies: Arc<PolicySet>,
    selectors: Option<WebhookSelectors>,
}

/// The result of the work on one pod.
#[derive(Debug, Clone, Copy)]
enum PodResult {
    /// Nothing is left to do, or the watch delivers a change.
    Finished,
    /// The pod was reported; the hash of the owner and the report.
    Reported(u64),
    Failed,
}

impl PodQueue {
    fn new(context: Arc<PodContext>) -> Self {
        let now = Instant::now();
        Self {
            basis: ReviewBasis::of(&context),
            context,
            pods: Pods::new(MAX_PODS),
            arriving: None,
            reported: EventShares::default(),
            running: FuturesUnordered::new(),
            began: now,
            not_before: now,
            overflowed: false,
        }
    }

    fn apply(&mut self, event: Event<WholePod>) {
        match event {
            Event::Init => {
                self.arriving = Some(Pods::new(MAX_PODS));
                self.began = Instant::now();
            }
            Event::InitDone => {
                self.pods = self.arriving.take().unwrap_or_else(|| Pods::new(MAX_PODS));
                let took = self.began.elapsed().saturating_mul(10);
                self.not_before = Instant::now() + took.clamp(LIST_PAUSE.0, LIST_PAUSE.1);
            }
            Event::InitApply(pod) | Event::Apply(pod) => self.add(&pod),
            Event::Delete(head) => {
                self.pods.remove(&head.namespace, &head.name);
            }
        }
    }

    /// Stores the pod if it needs something, and forgets it otherwise.
    fn add(&mut self, pod: &WholePod) {
        let (namespace, name) = names(&pod.metadata);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let wait = remaining_wait(pod.metadata.creation_timestamp.as_ref().map(|time| time.0), Timestamp::now());
        let owner = owner_uid(&pod.metadata);
        let task = match decide(&self.context, pod) {
            PodAction::Nothing => None,
            PodAction::TooEarly | PodAction::Repair(..) => Some(PodTask::Review),
            PodAction::Report(report) => Some(PodTask::Report(hash_of(&(owner, &report)))),
        };
        // Work in progress may have read the pod before this change.
        let before = self.pods.get(namespace, name).filter(|before| before.uid == uid && before.began.is_none());
        let before = before.cloned().zip(self.pods.due(namespace, name));
        let pods = self.arriving.as_mut().unwrap_or(&mut self.pods);
        let Some(task) = task else {
            pods.remove(namespace, name);
            return;
        };
        let is_same = |(before, _): &(QueuedPod, Instant)| match (before.task, task) {
            (PodTask::Reported(earlier), PodTask::Report(report)) => earlier == report,
            (earlier, task) => earlier == task,
        };
        let new = QueuedPod { uid, task, began: None, failures: 0 };
        let (queued, due) = before.filter(is_same).unwrap_or_else(|| (new, Instant::now() + wait));
        if pods.insert(namespace, name.to_owned(), due, queued) != LeftOut::Nothing {
            if !self.overflowed {
                tracing::warn!(
                    "more than {MAX_PODS} unscheduled pods need something; the rest, of the namespaces that have most, wait \
                     until these are done"
                );
            }
            self.overflowed = true;
        }
    }

    /// Starts work on due pods, up to [`CONCURRENCY`].
    fn start(&mut self) {
        let now = Instant::now();
        while self.running.len() < CONCURRENCY {
            let Some((namespace, name)) = self.pods.take_due(now) else { return };
            let Some(queued) = self.pods.get_mut(&namespace, &name) else { continue };
            if let PodTask::Report(report) | PodTask::Reported(report) = queued.task {
                let later = if self.reported.is_recent(&namespace, report, now) {
                    // Already reported for another pod of the same owner.
                    Err(now + REPEAT)
                } else {
                    self.context.may_report(&namespace)
                };
                if let Err(later) = later {
                    queued.task = PodTask::Reported(report);
                    self.pods.set_due(&namespace, &name, later);
                    continue;
                }
            }
            queued.began = Some(now);
            let (context, uid, key) = (Arc::clone(&self.context), queued.uid.clone(), (namespace, name));
            let act = async move {
                let result = act(&context, &key, &uid).await;
                (key, now, result)
            };
            self.running.push(act.boxed());
        }
    }

    fn finish(&mut self, (namespace, name): &PodKey, began: Instant, result: PodResult) {
        // A pod that has changed meanwhile has a new due time.
        let Some(queued) = self.pods.get_mut(namespace, name).filter(|queued| queued.began == Some(began)) else {
            return;
        };
        queued.began = None;
        let due = match result {
            PodResult::Reported(report) => {
                queued.task = PodTask::Reported(report);
                queued.failures = 0;
                self.reported.record(namespace, report, Instant::now());
                Instant::now() + REPEAT
            }
            PodResult::Finished => {
                self.pods.remove(namespace, name);
                return;
            }
            PodResult::Failed => {
                let due = Instant::now() + BACKOFF.delay(queued.failures);
                queued.failures = queued.failures.saturating_add(1);
                due
            }
        };
        self.pods.set_due(namespace, name, due);
    }

    /// Counts reported pods, and returns whether all pods should be listed again: the basis of reviews has changed, or
    /// there is room for pods that exceeded the limit.
    fn tick(&mut self) -> bool {
        let mut reported: BTreeMap<String, usize> = BTreeMap::new();
        for (namespace, _) in self.pods.iter().filter(|(_, queued)| matches!(queued.task, PodTask::Reported(_))) {
            *reported.entry(namespace.to_owned()).or_default() += 1;
        }
        self.context.count(MissedKind::Unscheduled, reported);
        let now = Instant::now();
        if self.arriving.is_some() || now < self.not_before {
            return false;
        }
        let basis = ReviewBasis::of(&self.context);
        let room = self.overflowed && (self.pods.len() < MAX_PODS / 2 || now > self.not_before + LIST_PAUSE.1);
        if basis.is_same(&self.basis) && !room {
            return false;
        }
        self.basis = basis;
        self.overflowed = false;
        true
    }
}

impl ReviewBasis {
    fn of(context: &PodContext) -> Self {
        Self {
            snapshot: fingerprint(&context.snapshot.load_full()),
            policies: context.policies(),
            selectors: context.selectors.borrow().clone(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.snapshot == other.snapshot
            && Arc::ptr_eq(&self.policies, &other.policies)
            && self.selectors == other.selectors
    }
}

/// A hash of everything in the snapshot that affects reviews of pods. Only kinds of nodes count: another node of a pool
/// changes nothing.
fn fingerprint(snapshot: &ClusterSnapshot) -> u64 {
    let nodes = snapshot.nodes.as_ref();
    let is_own = |key: &str| key == "kubernetes.io/hostname";
    let kinds = nodes.iter().flat_map(|nodes| nodes.samples([])).map(|node| {
        let labels: Vec<_> = node.labels.iter().filter(|(key, _)| !is_own(key)).collect();
        hash_of(&(node.os, labels))
    });
    let kinds: BTreeSet<u64> = kinds.collect();
    let taints: Vec<_> = nodes.iter().flat_map(|nodes| nodes.windows_taints().iter()).map(|(taint, _)| taint).collect();
    let builds = nodes.map(Nodes::windows_builds);
    let classes: Vec<_> = snapshot
        .runtime_classes
        .iter()
        .flatten()
        .map(|(name, class)| (name, &class.handler, &class.node_selector, class.ours))
        .collect();
    hash_of(&(kinds, taints, builds, &snapshot.seen_taints, &snapshot.seen_builds, classes, &snapshot.namespaces))
}

/// How long a pod must still wait. Because clocks differ, it is never longer than for a new pod.
fn remaining_wait(created: Option<Timestamp>, now: Timestamp) -> Duration {
    let age = created.map_or(Duration::ZERO, |created| now.duration_since(created).try_into().unwrap_or_default());
    SCHEDULING_TIME.saturating_sub(age)
}

/// Namespace and name.
fn names(metadata: &ObjectMeta) -> (&str, &str) {
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

enum PodAction {
    Nothing,
    /// Its namespace is not known yet.
    TooEarly,
    /// The patches, and what they leave unrepaired.
    Repair(PodPatches, Option<MissedReport>),
    Report(MissedReport),
}

/// What to do about the pod now.
fn decide(context: &PodContext, pod: &WholePod) -> PodAction {
    let metadata = &pod.metadata;
    if !context.is_ready_for(metadata.namespace.as_deref().unwrap_or_default()) {
        return PodAction::TooEarly;
    }
    let (reviewed, unschedulable) = (reviewed(metadata), pod.status.unschedulable());
    let object = pod.object();
    let Some(review) = context.review(metadata, &object) else { return PodAction::Nothing };
    match assess(&review, &object, &context.snapshot.load(), reviewed) {
        MissedPod::Repair { tolerations, unrepaired } => match toleration_patch(&object, &tolerations) {
            Some(whole) => {
                let parts = patches_by_effect(&object, &tolerations);
                PodAction::Repair(PodPatches { whole, parts }, unrepaired)
            }
            None => PodAction::Nothing,
        },
        // If the scheduler finds a node for a pod, no report is needed.
        MissedPod::Report(report) if unschedulable => PodAction::Report(report),
        MissedPod::Report(_) | MissedPod::Nothing => PodAction::Nothing,
    }
}

/// Reads the pod again, and does what is needed then.
async fn act(context: &PodContext, (namespace, name): &PodKey, uid: &str) -> PodResult {
    let (namespace, name) = (&**namespace, name.as_str());
    let pod = match context.read_pod(namespace, name, Some(uid)).await {
        Ok(Some(pod)) => pod,
        Ok(None) => return PodResult::Finished,
        Err(error) => {
            tracing::warn!(namespace, name, error = in_words(&error), "cannot read an unscheduled pod");
            return PodResult::Failed;
        }
    };
    let metadata = &pod.metadata;
    let report_missed = async |report: &MissedReport| {
        context.report(metadata, |owner| Some(pod_events::unscheduled(owner, report))).await
    };
    match decide(context, &pod) {
        PodAction::Nothing => PodResult::Finished,
        PodAction::Repair(patches, unrepaired) => {
            // The report comes first: with its tolerations the pod gets bound, and is no longer in this watch.
            if let Some(report) = unrepaired {
                report_missed(&report).await;
            }
            write(context, metadata, patches).await
        }
        PodAction::Report(report) if report_missed(&report).await => {
            PodResult::Reported(hash_of(&(owner_uid(metadata), &report)))
        }
        PodAction::TooEarly | PodAction::Report(_) => PodResult::Failed,
    }
}

/// The patch with all tolerations, and those with the tolerations of one effect each.
struct PodPatches {
    whole: Value,
    parts: Vec<Value>,
}

/// Sends the patch. If the chart's fence denies it because of one toleration, the others are sent without that one, and
/// the pod is read again.
async fn write(context: &PodContext, pod: &ObjectMeta, PodPatches { whole, parts }: PodPatches) -> PodResult {
    let (namespace, name) = (pod.namespace.as_deref().unwrap_or_default(), pod.name.as_deref().unwrap_or_default());
    let api = KindApi::namespaced(context.client.clone(), &PODS, namespace);
    let send = async |patch: &Value| {
        let written = await_answer(api.merge_patch::<IgnoredAny>(name, patch)).await;
        let outcome = WriteOutcome::of(&written);
        context.metrics.pod_patched(outcome);
        (written, outcome)
    };
    let (written, outcome) = send(&whole).await;
    match written {
        Ok(_) => tracing::info!(namespace, name, "tolerations appended to a pod that was created without them"),
        Err(error) if outcome == WriteOutcome::Failed => {
            let words = in_words(&error);
            tracing::warn!(namespace, name, error = words, "cannot append tolerations to a pod; trying again");
            if let Some(event) = denied_write(&error) {
                for part in &parts {
                    if let (Ok(_), _) = send(part).await {
                        tracing::info!(namespace, name, "tolerations of one effect appended to that pod");
                        break;
                    }
                }
                context.report(pod, |_| Some(event)).await;
            }
        }
        Err(_) => {}
    }
    if matches!(outcome, WriteOutcome::Done | WriteOutcome::Gone) { PodResult::Finished } else { PodResult::Failed }
}

#[cfg(test)]
mod tests;
