//! Events on the owners of pods with the label `mullion.dev/findings`.
//!
//! The label contains codes of rules; the content of the Event comes from a review of one of the pods. Pods of one
//! controller with the same label are one group, however many there are. Namespaces take turns.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mullion_engine::admission::{FindingOutcome, Review};
use mullion_engine::model::names::FINDINGS_LABEL;
use mullion_engine::model::settings::{Action, Lookup, Mode};
use mullion_engine::rules::catalogue;
use tokio::time::{Instant, MissedTickBehavior};

use crate::cluster::SlimObject;
use crate::cluster::reading::{Event, KindApi, PODS, Selection, changes};
use crate::controller::pods::event_shares::REPEAT;
use crate::controller::pods::fair_queue::{FairQueue, LeftOut};
use crate::controller::pods::missed::findings_with_outcome;
use crate::controller::pods::object::owner_uid;
use crate::controller::pods::pod_context::{BACKOFF, PodContext};
use crate::controller::pods::pod_events;
use crate::telemetry::in_words;
use crate::value_hash::hash_of;

/// How long a group collects pods before its Event: the pods of a Job that fails at once are soon deleted.
const GATHER: Duration = Duration::from_secs(1);
/// The number of groups in progress at the same time.
const CONCURRENCY: usize = 4;
/// The maximum number of pods that are counted, of about 50 bytes each. The owners of any others most likely have their
/// Event already.
const MAX_PODS: usize = 100_000;
/// The maximum number of pods that are counted in one namespace.
const MAX_PODS_OF_NAMESPACE: usize = 10_000;
/// The maximum number of groups, of about 500 bytes each, shared by all namespaces that have any. An owner beyond the
/// limit gets its Event with the next list.
const MAX_GROUPS: usize = 5_000;
/// The interval at which due work is started.
const TICK: Duration = Duration::from_millis(500);

/// Runs forever.
pub(crate) async fn run(context: Arc<PodContext>, streaming: bool) {
    let labelled = Selection::labels(FINDINGS_LABEL);
    let mut changes = changes(KindApi::all(context.client.clone(), &PODS), labelled, streaming);
    let mut groups = Groups::default();
    let mut running: FuturesUnordered<BoxFuture<'static, (Arc<GroupKey>, bool)>> = FuturesUnordered::new();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while running.len() < CONCURRENCY {
            let Some((key, pod)) = groups.next_due(Instant::now()) else { break };
            if let Err(later) = context.may_report(&key.namespace) {
                groups.queue.set_due(&key.namespace, &key, later);
                continue;
            }
            let context = Arc::clone(&context);
            let report = async move {
                let result = report(&context, &pod, &key.codes).await;
                (key, result)
            };
            running.push(report.boxed());
        }
        tokio::select! {
            Some(event) = changes.next() => groups.apply(event, Instant::now()),
            Some((key, result)) = running.next(), if !running.is_empty() => groups.finish(&key, result, Instant::now()),
            _ = ticks.tick() => {}
        }
    }
}

/// What the pods of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    namespace: String,
    /// The uid of the controller, or of a pod without a controller. Authors of pods can write any uid there, so it
    /// proves nothing without the namespace.
    owner: String,
    /// The label's value: codes with dots between them.
    codes: String,
}

#[derive(Debug)]
struct Group {
    key: Arc<GroupKey>,
    pods: usize,
    /// The newest pod, because it most likely still exists.
    sample: ObjectMeta,
    failures: u32,
}

/// Groups, and the group of each pod.
#[derive(Debug)]
struct Groups {
    queue: FairQueue<Arc<GroupKey>, Group>,
    /// The group of each pod, by a hash of the uid.
    pods: HashMap<u64, Arc<GroupKey>>,
    /// The number of pods of each namespace.
    counts: HashMap<String, usize>,
    /// Pods of a list that is not complete yet.
    arriving: Option<BTreeSet<u64>>,
}

impl Default for Groups {
    fn default() -> Self {
        let queue = FairQueue::new(MAX_GROUPS);
        Self { queue, pods: HashMap::new(), counts: HashMap::new(), arriving: None }
    }
}

impl Groups {
    fn apply(&mut self, event: Event<SlimObject>, now: Instant) {
        match event {
            Event::Init => self.arriving = Some(BTreeSet::new()),
            Event::InitApply(pod) => {
                if let Some(arriving) = &mut self.arriving {
                    arriving.insert(id(pod.metadata.uid.as_deref()));
                }
                self.add(pod.metadata, now);
            }
            Event::InitDone => {
                let arrived = self.arriving.take().unwrap_or_default();
                let gone: Vec<u64> = self.pods.keys().filter(|id| !arrived.contains(id)).copied().collect();
                for id in gone {
                    self.remove(id);
                }
            }
            Event::Apply(pod) => self.add(pod.metadata, now),
            Event::Delete(head) => self.remove(id(Some(&head.uid))),
        }
    }

    fn add(&mut self, pod: ObjectMeta, now: Instant) {
        let id = id(pod.uid.as_deref());
        let key = key(&pod);
        // A pod that is being deleted changes nothing until it is deleted.
        if pod.deletion_timestamp.is_some() || self.pods.get(&id).is_some_and(|known| **known == key) {
            return;
        }
        self.remove(id);
        let counted = self.counts.get(&key.namespace).copied().unwrap_or_default();
        if self.pods.len() >= MAX_PODS || counted >= MAX_PODS_OF_NAMESPACE {
            return;
        }
        let key = if let Some(group) = self.queue.get_mut(&key.namespace, &key) {
            group.pods += 1;
            group.sample = slim(pod);
            Arc::clone(&group.key)
        } else {
            let key = Arc::new(key);
            let group = Group { key: Arc::clone(&key), pods: 1, sample: slim(pod), failures: 0 };
            if self.queue.insert(&key.namespace, Arc::clone(&key), now + GATHER, group) == LeftOut::TheNew {
                return;
            }
            key
        };
        self.counts.insert(key.namespace.clone(), counted + 1);
        self.pods.insert(id, key);
    }

    fn remove(&mut self, id: u64) {
        let Some(key) = self.pods.remove(&id) else { return };
        if let Some(counted) = self.counts.get_mut(&key.namespace) {
            *counted -= 1;
            if *counted == 0 {
                self.counts.remove(&key.namespace);
            }
        }
        // Another group may have replaced this one since.
        let Some(group) = self.queue.get_mut(&key.namespace, &key) else { return };
        group.pods = group.pods.saturating_sub(1);
        if group.pods == 0 {
            self.queue.remove(&key.namespace, &key);
        }
    }

    /// The next due group, with one of its pods. It is not due again before its report ends.
    fn next_due(&mut self, now: Instant) -> Option<(Arc<GroupKey>, ObjectMeta)> {
        let (namespace, key) = self.queue.take_due(now)?;
        let sample = self.queue.get(&namespace, &key)?.sample.clone();
        Some((key, sample))
    }

    fn finish(&mut self, key: &Arc<GroupKey>, reported: bool, now: Instant) {
        let Some(group) = self.queue.get_mut(&key.namespace, key) else { return };
        let due = if reported {
            group.failures = 0;
            now + REPEAT
        } else {
            let due = now + BACKOFF.delay(group.failures);
            group.failures = group.failures.saturating_add(1);
            due
        };
        self.queue.set_due(&key.namespace, key, due);
    }
}

fn key(pod: &ObjectMeta) -> GroupKey {
    let codes = pod.labels.as_ref().and_then(|labels| labels.get(FINDINGS_LABEL));
    GroupKey {
        namespace: pod.namespace.clone().unwrap_or_default(),
        owner: owner_uid(pod),
        codes: codes.cloned().unwrap_or_default(),
    }
}

fn id(uid: Option<&str>) -> u64 {
    hash_of(&uid)
}

/// The members that are needed to read the pod and its owner.
fn slim(pod: ObjectMeta) -> ObjectMeta {
    let ObjectMeta { name, namespace, uid, owner_references, .. } = pod;
    ObjectMeta { name, namespace, uid, owner_references, ..ObjectMeta::default() }
}

async fn report(context: &PodContext, pod: &ObjectMeta, codes: &str) -> bool {
    let (namespace, name) = (pod.namespace.as_deref().unwrap_or_default(), pod.name.as_deref().unwrap_or_default());
    if !context.is_ready_for(namespace) {
        return false;
    }
    let whole = match context.read_pod(namespace, name, pod.uid.as_deref()).await {
        Ok(Some(whole)) => whole,
        Ok(None) => return false,
        Err(error) => {
            tracing::warn!(namespace, name, error = in_words(&error), "cannot read a pod with findings");
            return false;
        }
    };
    let review = context.review(&whole.metadata, &whole.object());
    let findings = review.map(|review| labelled_findings(&review, codes)).unwrap_or_default();
    context.report(pod, |owner| pod_events::findings(owner, &findings)).await
}

/// The findings of a pod with the label value `codes`: code and sentence, most important first. Findings that the
/// policies allow by now are left out. Findings that need a registry are not known here; the catalogue describes them.
fn labelled_findings(review: &Review, codes: &str) -> Vec<(&'static str, String)> {
    if review.settings.mode != Mode::Enforce {
        return Vec::new();
    }
    let codes: Vec<&str> = codes.split('.').collect();
    let labelled = findings_with_outcome(review, FindingOutcome::Labelled);
    let labelled = labelled.filter(|finding| codes.contains(&finding.code));
    let mut texts: Vec<(&'static str, String)> = labelled.map(|finding| (finding.code, finding.sentence())).collect();
    if review.settings.lookup != Lookup::Never && review.category.not_reviewed().is_none() {
        for rule in codes.iter().filter_map(|code| catalogue::find(code)) {
            let known = review.findings.iter().any(|finding| finding.code == rule.code);
            let allowed = review.settings.action_under_denials(rule.code, rule.name, rule.default) == Action::Allow;
            if !known && !allowed {
                texts.push((rule.code, format!("{} {}: {}; {}", rule.code, rule.name, rule.why, rule.instead)));
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests;
