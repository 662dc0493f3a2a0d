//! What the three loops share: reviews of pods as they would be created now, and Events on their owners.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use mullion_engine::admission::{Review, review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::Value;
use tokio::sync::watch as channel;
use tokio::time::Instant;

use crate::cluster::reading::{Item, KindApi, PODS};
use crate::cluster::state::NamespaceCounts;
use crate::cluster::{Backoff, await_answer};
use crate::controller::events::{EventRecorder, NewEvent};
use crate::controller::metrics::ControllerMetrics;
use crate::controller::pods::event_shares::EventShares;
use crate::controller::pods::object::WholePod;
use crate::controller::pods::owner::Owners;
use crate::controller::pods::webhook_selectors::WebhookSelectors;
use crate::controller::repair_mode::RepairMode;
use crate::controller::reported_facts::ReportedFacts;
use crate::telemetry::in_words;
use crate::value_hash::hash_of;

/// Delays after an Event or a patch that could not be written.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(300));

/// Shared by the loops.
pub(crate) struct PodContext {
    pub(crate) client: Client,
    pub(crate) policies: channel::Receiver<Arc<PolicySet>>,
    pub(crate) snapshot: Arc<ArcSwap<ClusterSnapshot>>,
    pub(crate) metrics: ControllerMetrics,
    /// `None` while they are not known.
    pub(crate) selectors: channel::Sender<Option<WebhookSelectors>>,
    namespace: String,
    events: EventRecorder,
    owners: Owners,
    reported: Mutex<EventShares>,
    missed: Mutex<MissedCounts>,
    report: ReportedFacts,
    /// What is done about stuck pods.
    pub(crate) repair: RepairMode,
}

/// The number of pods of each kind, by namespace; `None` until they have been counted.
#[derive(Default)]
struct MissedCounts {
    unscheduled: Option<BTreeMap<String, usize>>,
    bound: Option<BTreeMap<String, usize>>,
}

/// The two kinds of missed pods.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MissedKind {
    /// Pods without a node.
    Unscheduled,
    /// Pods on the wrong node.
    Bound,
}

impl PodContext {
    /// Creates the context; `namespace` is Mullion's own.
    pub(crate) fn new(
        client: Client,
        namespace: String,
        policies: channel::Receiver<Arc<PolicySet>>,
        snapshot: Arc<ArcSwap<ClusterSnapshot>>,
        events: EventRecorder,
        metrics: ControllerMetrics,
        report: ReportedFacts,
    ) -> Self {
        Self {
            owners: Owners::new(client.clone()),
            client,
            policies,
            snapshot,
            metrics,
            selectors: channel::Sender::new(None),
            namespace,
            events,
            reported: Mutex::default(),
            missed: Mutex::default(),
            report,
            repair: RepairMode::Report,
        }
    }

    /// Sets what is done about stuck pods.
    pub(crate) fn with_repair(self, repair: RepairMode) -> Self {
        Self { repair, ..self }
    }

    /// The policies in force.
    pub(crate) fn policies(&self) -> Arc<PolicySet> {
        self.policies.borrow().clone()
    }

    /// Whether pods of the namespace can be reviewed.
    pub(crate) fn is_ready_for(&self, namespace: &str) -> bool {
        self.selectors.borrow().is_some() && self.snapshot.load().namespaces.contains_key(namespace)
    }

    /// The review of a pod as if it were created now. `None` in the cluster's own namespace and Mullion's, for pods for
    /// which the API server does not call Mullion, and while the namespace or the webhook's selectors are not known.
    pub(crate) fn review(&self, metadata: &ObjectMeta, object: &Value) -> Option<Review> {
        let (snapshot, policies) = (self.snapshot.load_full(), self.policies());
        let selectors = self.selectors.borrow();
        let namespace = metadata.namespace.as_deref()?;
        if namespace == "kube-system" || namespace == self.namespace {
            return None;
        }
        let labels = &snapshot.namespaces.get(namespace)?.labels;
        let request = ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace, object });
        let covered = selectors.as_ref()?.covers(labels, &metadata.labels);
        covered.then(|| review(&request, &snapshot, &policies.resolve(&request, &snapshot)))
    }

    /// The newest version of a pod; `None` if it is deleted or cannot be read, or if another pod has its name now.
    pub(crate) async fn read_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> kube::Result<Option<WholePod>> {
        let api = KindApi::namespaced(self.client.clone(), &PODS, namespace);
        let pod: Option<Item<WholePod>> = await_answer(api.get(name)).await?;
        // A pod that cannot be read is no longer in the watch either.
        Ok(pod.and_then(Result::ok).filter(|pod| pod.metadata.uid.as_deref() == uid))
    }

    /// Whether the namespace has not used up its share of Events; the error is the time from which it may write the
    /// next one.
    pub(crate) fn may_report(&self, namespace: &str) -> Result<(), Instant> {
        self.reported().check(namespace, Instant::now())
    }

    /// Writes an Event on the owner of the pod, unless the same Event was written recently or the namespace's share is
    /// used up. Returns whether it is written; a failure is logged.
    pub(crate) async fn report(
        &self,
        pod: &ObjectMeta,
        event: impl FnOnce(&ObjectReference) -> Option<NewEvent>,
    ) -> bool {
        let owner = match self.owners.of(pod).await {
            Ok(owner) => owner,
            Err(error) => {
                tracing::warn!(
                    namespace = pod.namespace,
                    pod = pod.name,
                    error = in_words(error.as_ref()),
                    "cannot write an event, because the owner of the pod is unknown"
                );
                return false;
            }
        };
        let Some(event) = event(&owner) else { return true };
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        let (key, now) = (hash_of(&(&owner.uid, &event)), Instant::now());
        let was_last = {
            let mut reported = self.reported();
            if reported.is_recent(namespace, key, now) {
                return true;
            }
            if reported.check(namespace, now).is_err() {
                return false;
            }
            // Recorded first, because two pods of one owner may be handled at the same time.
            reported.record(namespace, key, now)
        };
        if was_last {
            tracing::warn!(namespace, "the namespace has used up its share of events; the others are written later");
        }
        let written = self.events.publish(&owner, &event).await;
        if !written {
            self.reported().forget(namespace, key);
        }
        written
    }

    fn reported(&self) -> MutexGuard<'_, EventShares> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how many missed pods of one kind each namespace has now.
    pub(crate) fn count(&self, kind: MissedKind, pods: BTreeMap<String, usize>) {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = match kind {
            MissedKind::Unscheduled => &mut missed.unscheduled,
            MissedKind::Bound => &mut missed.bound,
        };
        if counted.as_ref() == Some(&pods) {
            return;
        }
        *counted = Some(pods);
        let mut all: BTreeMap<String, usize> = BTreeMap::new();
        for (namespace, pods) in missed.unscheduled.iter().chain(&missed.bound).flatten() {
            *all.entry(namespace.clone()).or_default() += pods;
        }
        self.metrics.set_missed_pods(all.values().sum());
        if missed.unscheduled.is_some() && missed.bound.is_some() {
            self.report.update(|facts| facts.missed_pods = Some(NamespaceCounts::of(all)));
        }
    }
}
