//! What every request reads: the facts, the policies, and what is still missing before requests are welcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_policy::policy_set::PolicySet;
use tokio::sync::{Semaphore, watch as channel};

use crate::cluster::state::document::State as Kept;
use crate::policy_files::report::PolicyReporter;
use crate::telemetry::metrics::Metrics;
use crate::webhook::images::Images;
use crate::webhook::judge;
use crate::webhook::judge::Judge;
use crate::webhook::namespaces::Namespaces;

/// Shared by all connections; nothing in it is ever locked for longer than a pointer swap.
#[derive(Debug)]
pub struct State {
    /// What is known of the cluster; replaced whole.
    pub snapshot: Arc<ArcSwap<ClusterSnapshot>>,
    /// Whether `snapshot` is complete: the first listing of everything watched is in.
    pub snapshot_synced: Arc<AtomicBool>,
    /// The policies in force; replaced whole.
    pub policies: Arc<ArcSwap<PolicySet>>,
    /// The report about the policy files.
    pub policy_reporter: PolicyReporter,
    /// What the controller keeps in ConfigMap `mullion-state`, as it changes; `None` without a cluster.
    pub kept: Option<channel::Receiver<Option<Arc<Kept>>>>,
    /// Mullion's own namespace, whose ConfigMaps can be mounted; `None` without a cluster.
    pub namespace: Option<String>,
    /// Whose turn it is to have policies judged.
    pub policy_turn: Arc<Semaphore>,
    /// Who is asked for namespaces that `snapshot` does not have yet; `None` without a cluster.
    pub namespaces: Option<Namespaces>,
    /// Who is asked what images are.
    pub images: Images,
    /// Whether a certificate is loaded.
    pub certificate: AtomicBool,
    /// Whether the process is about to stop: no longer ready, and HTTP/1 clients are asked to reconnect.
    pub draining: AtomicBool,
    /// The engine.
    pub judge: Judge,
    /// Numbers and events.
    pub metrics: Metrics,
}

impl State {
    /// Over a snapshot and policies that others keep up to date.
    pub fn new(
        snapshot: Arc<ArcSwap<ClusterSnapshot>>,
        snapshot_synced: Arc<AtomicBool>,
        policies: Arc<ArcSwap<PolicySet>>,
    ) -> Self {
        let policy_reporter = PolicyReporter::of(policies.load_full());
        Self {
            snapshot,
            snapshot_synced,
            policies,
            metrics: Metrics::about(policy_reporter.clone()),
            policy_reporter,
            kept: None,
            namespace: None,
            policy_turn: Arc::new(Semaphore::new(1)),
            namespaces: None,
            images: Images::default(),
            certificate: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            judge: judge::engine,
        }
    }

    /// Over facts that never change: `--snapshot FILE`, and tests.
    pub fn fixed(snapshot: ClusterSnapshot, policies: PolicySet) -> Self {
        Self::new(
            Arc::new(ArcSwap::from_pointee(snapshot)),
            Arc::new(AtomicBool::new(true)),
            Arc::new(ArcSwap::from_pointee(policies)),
        )
    }

    /// What is missing before requests are welcome; empty: ready. Policies are there from the start, or the process
    /// is not.
    pub fn missing(&self) -> Vec<&'static str> {
        let checks = [
            (self.certificate.load(Ordering::Acquire), "no certificate is loaded"),
            (self.snapshot_synced.load(Ordering::Acquire), "nodes, namespaces and RuntimeClasses are not synced yet"),
            (!self.draining.load(Ordering::Acquire), "shutting down"),
        ];
        checks.into_iter().filter(|(ok, _)| !ok).map(|(_, text)| text).collect()
    }
}
