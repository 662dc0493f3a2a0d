//! What the three loops share: reviews of pods as they would be created now, and telling owners.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use mullion_engine::admission::review::{Review, review};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
use mullion_policy::policy_set::PolicySet;
use serde_json::Value;
use tokio::sync::watch as channel;
use tokio::time::Instant;

use crate::cluster::backoff::Backoff;
use crate::cluster::call::await_answer;
use crate::controller::events::{Events, News};
use crate::controller::leader::Leading;
use crate::controller::metrics::Metrics;
use crate::controller::pods::object::WholePod;
use crate::controller::pods::owner::Owners;
use crate::controller::pods::reach::Reach;
use crate::value_hash::hash_of;

/// How long news stands before it is told again, by counting its Event up: while it is true it should be there, and the API
/// server forgets events after an hour (kube-apiserver `--event-ttl`).
pub(crate) const AGAIN: Duration = Duration::from_secs(45 * 60);
/// Most pieces of news remembered, of 24 bytes each.
const MAX_TOLD: usize = 16_384;
/// After an Event or a patch that could not be written.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(300));

/// Shared by the loops.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) policies: channel::Receiver<Arc<PolicySet>>,
    pub(crate) snapshot: Arc<ArcSwap<ClusterSnapshot>>,
    pub(crate) metrics: Metrics,
    /// `None` while it is not known.
    pub(crate) reach: channel::Sender<Option<Reach>>,
    namespace: String,
    events: Events,
    owners: Owners,
    told: Mutex<HashMap<u64, Instant>>,
    missed: [AtomicUsize; 2],
}

/// Who counts missed pods.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counted {
    /// Those without a node.
    Unscheduled,
    /// Those on the wrong node.
    Bound,
}

impl Shared {
    pub(crate) fn new(leading: &Leading) -> Self {
        let Leading { client, namespace, policies, snapshot, events, metrics, .. } = leading.clone();
        Self::with(client, &namespace, policies, Arc::clone(&snapshot.snapshot), events, metrics)
    }

    /// Of its parts; `namespace` is Mullion's own.
    pub(crate) fn with(
        client: Client,
        namespace: &str,
        policies: channel::Receiver<Arc<PolicySet>>,
        snapshot: Arc<ArcSwap<ClusterSnapshot>>,
        events: Events,
        metrics: Metrics,
    ) -> Self {
        Self {
            owners: Owners::new(client.clone()),
            client,
            policies,
            snapshot,
            metrics,
            reach: channel::Sender::new(None),
            namespace: namespace.to_owned(),
            events,
            told: Mutex::default(),
            missed: [AtomicUsize::new(0), AtomicUsize::new(0)],
        }
    }

    /// The policies in force.
    pub(crate) fn policies(&self) -> Arc<PolicySet> {
        self.policies.borrow().clone()
    }

    /// Whether enough is known to say anything of pods there.
    pub(crate) fn knows(&self, namespace: &str) -> bool {
        self.reach.borrow().is_some() && self.snapshot.load().namespaces.contains_key(namespace)
    }

    /// The review of a pod as if it were created now. `None` where it is not Mullion's business: in the cluster's own
    /// namespace and Mullion's, and where the API server does not ask Mullion; and while too little is known.
    pub(crate) fn review(&self, metadata: &ObjectMeta, object: &Value) -> Option<Review> {
        let (snapshot, policies) = (self.snapshot.load_full(), self.policies());
        let reach = self.reach.borrow();
        let namespace = metadata.namespace.as_deref()?;
        if namespace == "kube-system" || namespace == self.namespace {
            return None;
        }
        let labels = &snapshot.namespaces.get(namespace)?.labels;
        reach.as_ref()?.covers(labels, &metadata.labels).then(|| created_now(namespace, object, &snapshot, &policies))
    }

    /// The newest version of a pod; `None` where it is gone, or another has its name now.
    pub(crate) async fn read(&self, namespace: &str, name: &str, uid: Option<&str>) -> kube::Result<Option<WholePod>> {
        let api: Api<WholePod> = Api::namespaced(self.client.clone(), namespace);
        let pod = await_answer(api.get_opt(name)).await?;
        Ok(pod.filter(|pod| pod.metadata.uid.as_deref() == uid))
    }

    /// Tells whoever owns the pod, unless that has been said not long ago. An error: it is not told.
    pub(crate) async fn tell(
        &self,
        pod: &ObjectMeta,
        news: impl FnOnce(&ObjectReference) -> Option<News>,
    ) -> anyhow::Result<()> {
        let owner = self.owners.of(pod).await?;
        let Some(news) = news(&owner) else { return Ok(()) };
        let key = hash_of(&(&owner.uid, &news));
        if self.told().get(&key).is_some_and(|at| at.elapsed() < AGAIN) {
            return Ok(());
        }
        // Noted first: two pods of one owner may come here together.
        self.note(key);
        if !self.events.tell(&owner, &news).await {
            self.told().remove(&key);
            anyhow::bail!("the event was not written");
        }
        Ok(())
    }

    fn note(&self, key: u64) {
        let mut told = self.told();
        if told.len() >= MAX_TOLD {
            told.retain(|_, at| at.elapsed() < AGAIN);
        }
        if told.len() >= MAX_TOLD {
            told.clear();
        }
        told.insert(key, Instant::now());
    }

    fn told(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Instant>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how many missed pods one of the two sees now.
    pub(crate) fn count(&self, who: Counted, pods: usize) {
        let [unscheduled, bound] = &self.missed;
        let mine = if matches!(who, Counted::Unscheduled) { unscheduled } else { bound };
        mine.store(pods, Ordering::Relaxed);
        self.metrics.missed_pods(unscheduled.load(Ordering::Relaxed) + bound.load(Ordering::Relaxed));
    }
}

fn created_now(namespace: &str, object: &Value, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Review {
    let request = ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace, object });
    review(&request, snapshot, &policies.resolve(&request, snapshot))
}
