//! State that every request reads: cluster snapshot, policies, and the conditions of readiness.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::PolicySet;
use tokio::sync::{Semaphore, watch as channel};

use crate::cluster::state::MullionState;
use crate::policy_files::PolicyReporter;
use crate::server::MemoryPool;
use crate::server::tls::{Certificate, ClientCa};
use crate::webhook::controller_users::ControllerUsers;
use crate::webhook::engine_review::{ReviewFunction, review_and_respond};
use crate::webhook::metrics::WebhookMetrics;
use crate::webhook::namespaces::NamespaceLookups;
use crate::webhook::policies_in_force::PoliciesInForce;
use crate::webhook::review_stages::BlockingPermits;

/// Shared by all connections; no lock in it is held for longer than a pointer swap.
#[derive(Debug)]
pub struct WebhookState {
    /// The cluster snapshot; replaced as a whole.
    pub snapshot: Arc<ArcSwap<ClusterSnapshot>>,
    /// Whether `snapshot` is complete: the first lists of all watches have arrived.
    pub snapshot_synced: Arc<AtomicBool>,
    /// The policies in force, and the source of the platforms of images.
    pub policies: PoliciesInForce,
    /// The report about the policy files.
    pub policy_reporter: PolicyReporter,
    /// ConfigMap `mullion-state`, which the controller writes; `None` without a cluster.
    pub mullion_state: Option<channel::Receiver<Option<Arc<MullionState>>>>,
    /// Mullion's own namespace, whose ConfigMaps can be mounted; `None` without a cluster.
    pub namespace: Option<String>,
    /// Held while the policies of a ConfigMap are reviewed, one at a time.
    pub policy_turn: Arc<Semaphore>,
    /// Look-ups of namespaces that `snapshot` does not contain yet; `None` without a cluster.
    pub namespaces: Option<NamespaceLookups>,
    /// The certificate of TLS handshakes.
    pub certificate: Arc<Certificate>,
    /// The authorities of clients' certificates; `None`: the webhook requests no certificate.
    pub client_ca: Option<Arc<ClientCa>>,
    /// Whether the process is about to stop: it is not ready, and connections are closed after the response.
    pub draining: AtomicBool,
    /// The memory of all requests.
    pub memory: MemoryPool,
    /// The number of stages of large reviews that run at a time.
    pub blocking_permits: BlockingPermits,
    /// The users with trusted owner references.
    pub controller_users: ControllerUsers,
    /// The review of one workload.
    pub review: ReviewFunction,
    /// Metrics and events.
    pub metrics: Arc<WebhookMetrics>,
}

impl WebhookState {
    /// State with a snapshot and policies that the caller updates.
    pub fn new(snapshot: Arc<ArcSwap<ClusterSnapshot>>, snapshot_synced: Arc<AtomicBool>, policies: PolicySet) -> Self {
        let policies = PoliciesInForce::fixed(policies, None);
        let policy_reporter = PolicyReporter::of(policies.load());
        Self {
            snapshot,
            snapshot_synced,
            policies,
            metrics: Arc::new(WebhookMetrics::about(policy_reporter.clone())),
            policy_reporter,
            mullion_state: None,
            namespace: None,
            policy_turn: Arc::new(Semaphore::new(1)),
            namespaces: None,
            certificate: Arc::default(),
            client_ca: None,
            draining: AtomicBool::new(false),
            memory: MemoryPool::default(),
            blocking_permits: BlockingPermits::default(),
            controller_users: ControllerUsers::default(),
            review: review_and_respond,
        }
    }

    /// State with a snapshot and policies that never change: `--snapshot FILE`, and tests.
    pub fn fixed(snapshot: ClusterSnapshot, policies: PolicySet) -> Self {
        Self::new(Arc::new(ArcSwap::from_pointee(snapshot)), Arc::new(AtomicBool::new(true)), policies)
    }

    /// What is missing for readiness; empty if it is ready. Policies are never missing, because without them the
    /// process does not start.
    pub fn missing(&self) -> Vec<&'static str> {
        let checks = [
            (self.certificate.is_loaded(), "no certificate is loaded"),
            (self.snapshot_synced.load(Ordering::Acquire), "nodes, namespaces and RuntimeClasses are not synced yet"),
            (!self.draining.load(Ordering::Acquire), "shutting down"),
        ];
        checks.into_iter().filter(|(ok, _)| !ok).map(|(_, text)| text).collect()
    }
}
