//! Pods labelled `mullion.dev/findings` become Events on their owners.
//!
//! The label names rules; what the Event says comes from a review of one of the pods. Pods of one controller with the same
//! label are one group, however many there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::runtime::watcher::{Config, Event};
use mullion_engine::admission::finding_outcome::FindingOutcome;
use mullion_engine::admission::request_category::RequestCategory;
use mullion_engine::admission::review::Review;
use mullion_engine::model::names::FINDINGS_LABEL;
use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::model::settings::workload_settings::{Lookup, Mode};
use mullion_engine::rules::catalogue;
use tokio::time::{Instant, MissedTickBehavior};

use crate::cluster::watch;
use crate::controller::pods::object::{LabelledPod, owner_uid};
use crate::controller::pods::shared::{AGAIN, BACKOFF, Shared};
use crate::controller::pods::{missed, text};
use crate::telemetry::error_text::in_words;
use crate::value_hash::hash_of;

/// How long a group gathers pods before its owner is told: the pods of a Job that fails at once are soon gone again.
const GATHER: Duration = Duration::from_secs(1);
/// Groups worked on at the same time.
const CONCURRENCY: usize = 4;
/// Most pods counted, of about 50 bytes each: those beyond are of owners that are told of already, most likely.
const MAX_PODS: usize = 100_000;
/// Most groups, of about 500 bytes each. Beyond, an owner is told of when another group has gone.
const MAX_GROUPS: usize = 5_000;
/// How often due work is looked for.
const TICK: Duration = Duration::from_millis(500);

/// Works for ever.
pub(crate) async fn run(shared: Arc<Shared>, streaming: bool) {
    let labelled = Config::default().labels(FINDINGS_LABEL);
    let mut changes = watch::paged_changes::<LabelledPod>(Api::all(shared.client.clone()), labelled, streaming);
    let mut groups = Groups::default();
    let mut running: FuturesUnordered<BoxFuture<'static, (Arc<Key>, End)>> = FuturesUnordered::new();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while running.len() < CONCURRENCY {
            let Some((key, pod)) = groups.due(Instant::now()) else { break };
            let shared = Arc::clone(&shared);
            let tell = async move {
                let end = tell(&shared, &pod, &key.codes).await;
                (key, end)
            };
            running.push(tell.boxed());
        }
        tokio::select! {
            Some(event) = changes.next() => groups.event(event, Instant::now()),
            Some((key, end)) = running.next(), if !running.is_empty() => groups.done(&key, end, Instant::now()),
            _ = ticks.tick() => {}
        }
    }
}

/// What makes pods alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Of the controller, or of a pod without one.
    owner: String,
    /// The label's value: codes with dots between them.
    codes: String,
}

#[derive(Debug)]
struct Group {
    pods: usize,
    /// The one that was seen last: most likely it is still there.
    sample: ObjectMeta,
    due: Instant,
    failures: u32,
}

/// Groups, and which pod is of which.
#[derive(Debug, Default)]
struct Groups {
    known: BTreeMap<Arc<Key>, Group>,
    /// By a hash of the uid.
    pods: HashMap<u64, Arc<Key>>,
    /// Pods of a list that is still coming.
    arriving: Option<BTreeSet<u64>>,
    queue: BTreeSet<(Instant, Arc<Key>)>,
}

/// How telling ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Told,
    /// The pod is gone; the next one of the group that is seen says more.
    Gone,
    Again,
}

impl Groups {
    fn event(&mut self, event: Event<LabelledPod>, now: Instant) {
        match event {
            Event::Init => self.arriving = Some(BTreeSet::new()),
            Event::InitApply(pod) => {
                if let Some(arriving) = &mut self.arriving {
                    arriving.insert(id(&pod.metadata));
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
            Event::Delete(pod) => self.remove(id(&pod.metadata)),
        }
    }

    fn add(&mut self, pod: ObjectMeta, now: Instant) {
        let id = id(&pod);
        let key = key(&pod);
        // Pods that are going say nothing new, and are there until they are gone.
        if pod.deletion_timestamp.is_some() || self.pods.get(&id).is_some_and(|known| **known == key) {
            return;
        }
        self.remove(id);
        if self.pods.len() >= MAX_PODS {
            return;
        }
        let known = self.known.get_key_value(&key).map(|(known, _)| Arc::clone(known));
        if let Some(group) = self.known.get_mut(&key) {
            group.pods += 1;
            group.sample = slim(pod);
            self.pods.extend(known.map(|known| (id, known)));
            return;
        }
        if self.known.len() >= MAX_GROUPS {
            return;
        }
        let (key, due) = (Arc::new(key), now + GATHER);
        self.known.insert(Arc::clone(&key), Group { pods: 1, sample: slim(pod), due, failures: 0 });
        self.queue.insert((due, Arc::clone(&key)));
        self.pods.insert(id, key);
    }

    fn remove(&mut self, id: u64) {
        let Some(key) = self.pods.remove(&id) else { return };
        if let Some(group) = self.known.get_mut(&key) {
            group.pods -= 1;
            if group.pods == 0 {
                self.known.remove(&key);
            }
        }
    }

    /// The next group that is due, with a pod of it; not again before it is done, or much later.
    fn due(&mut self, now: Instant) -> Option<(Arc<Key>, ObjectMeta)> {
        while let Some((due, key)) = self.queue.first().filter(|(due, _)| *due <= now).cloned() {
            self.queue.pop_first();
            if let Some(group) = self.known.get_mut(&key).filter(|group| group.due == due) {
                group.due = now + AGAIN;
                return Some((key, group.sample.clone()));
            }
        }
        None
    }

    fn done(&mut self, key: &Arc<Key>, end: End, now: Instant) {
        let Some(group) = self.known.get_mut(key) else { return };
        if end == End::Told {
            group.failures = 0;
        } else {
            group.due = now + BACKOFF.delay(group.failures);
            group.failures = group.failures.saturating_add(1);
        }
        self.queue.insert((group.due, Arc::clone(key)));
    }
}

fn key(pod: &ObjectMeta) -> Key {
    let codes = pod.labels.as_ref().and_then(|labels| labels.get(FINDINGS_LABEL));
    Key { owner: owner_uid(pod), codes: codes.cloned().unwrap_or_default() }
}

fn id(pod: &ObjectMeta) -> u64 {
    hash_of(&pod.uid)
}

/// What finding the pod and its owner takes.
fn slim(pod: ObjectMeta) -> ObjectMeta {
    let ObjectMeta { name, namespace, uid, owner_references, .. } = pod;
    ObjectMeta { name, namespace, uid, owner_references, ..ObjectMeta::default() }
}

async fn tell(shared: &Shared, pod: &ObjectMeta, codes: &str) -> End {
    let (namespace, name) = (pod.namespace.as_deref().unwrap_or_default(), pod.name.as_deref().unwrap_or_default());
    if !shared.knows(namespace) {
        return End::Again;
    }
    let whole = match shared.read(namespace, name, pod.uid.as_deref()).await {
        Ok(Some(whole)) => whole,
        Ok(None) => return End::Gone,
        Err(error) => {
            tracing::warn!(namespace, name, error = in_words(&error), "cannot read a pod with findings");
            return End::Again;
        }
    };
    let metadata = whole.metadata.clone();
    let object = whole.object();
    let found = match shared.review(&metadata, &object) {
        Some(review) => said(&review, codes),
        None => Vec::new(),
    };
    match shared.tell(pod, |owner| text::findings(owner, &found)).await {
        Ok(()) => End::Told,
        Err(error) => {
            tracing::warn!(
                namespace,
                name,
                error = in_words(error.as_ref()),
                "cannot tell the owner of a pod's findings"
            );
            End::Again
        }
    }
}

/// What to say of a pod labelled with `codes`: code and sentence, most important first. Nothing of what the policies let be
/// by now. What only a registry could say is not known here: of that the catalogue's own words are said.
fn said(review: &Review, codes: &str) -> Vec<(&'static str, String)> {
    if review.settings.mode != Mode::Enforce {
        return Vec::new();
    }
    let codes: Vec<&str> = codes.split('.').collect();
    let found = missed::findings(review, FindingOutcome::Labelled).filter(|finding| codes.contains(&finding.code));
    let mut said: Vec<(&'static str, String)> = found.map(|finding| (finding.code, finding.sentence())).collect();
    if review.settings.lookup != Lookup::Never && review.category != RequestCategory::Skipped {
        for rule in codes.iter().filter_map(|code| catalogue::find(code)) {
            let known = review.findings.iter().any(|finding| finding.code == rule.code);
            let let_be = review.settings.effective_action(rule.code, rule.name, rule.default) == Action::Allow;
            if !known && !let_be {
                said.push((rule.code, format!("{} {}: {}; {}", rule.code, rule.name, rule.why, rule.instead)));
            }
        }
    }
    said
}

#[cfg(test)]
mod tests;
