//! The state that the control loops of the leader share.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use mullion_engine::node::Claimants;
use mullion_policy::PolicySet;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use crate::cluster::reading::{streams_lists, wait_for_version};
use crate::cluster::state::{StateFollower, StateStore, follow};
use crate::cluster::{LiveSnapshot, Owner};
use crate::controller::certificates::CertificateSettings;
use crate::controller::events::EventRecorder;
use crate::controller::metrics::ControllerMetrics;
use crate::controller::repair_mode::RepairMode;
use crate::controller::reported_facts::ReportedFacts;
use crate::policy_files::PolicyReport;

/// The input of every control loop of the leader. Clones share it.
#[derive(Clone)]
pub struct LeaderContext {
    /// A client that writes only while the lease is held.
    pub(crate) client: Client,
    /// Whether the API server streams lists.
    pub(crate) streaming: bool,
    /// Mullion's namespace: that of the lease, the ConfigMap and the Secrets.
    pub(crate) namespace: String,
    /// The policies in force.
    pub(crate) policies: channel::Receiver<Arc<PolicySet>>,
    /// The status of the policy files, as it changes; `None` if it is not reported.
    pub(crate) policy_reports: Option<channel::Receiver<Arc<PolicyReport>>>,
    /// The live cluster snapshot.
    pub(crate) snapshot: Arc<LiveSnapshot>,
    /// ConfigMap `mullion-state`, as it changes.
    pub(crate) state: Arc<StateFollower>,
    /// Writes ConfigMap `mullion-state`.
    pub(crate) store: StateStore,
    /// The owner of that ConfigMap and of the Secrets.
    pub(crate) owner: Owner,
    /// Which certificates to manage, if any.
    pub(crate) certificates: Option<Arc<CertificateSettings>>,
    pub(crate) events: EventRecorder,
    /// The DaemonSets that may be for Windows nodes: set by the control loop of nodes; `None` until it has planned every
    /// node.
    pub(crate) claimants: Arc<channel::Sender<Option<Claimants>>>,
    pub(crate) metrics: ControllerMetrics,
    /// The results of the control loops for the report in `mullion-state`.
    pub(crate) report: ReportedFacts,
    /// Becomes true once every watch of the control loop of nodes has been read once.
    pub(crate) ready: channel::Sender<bool>,
    /// The namespace of probes: one that the webhook configurations cover.
    pub(crate) probe_namespace: String,
    pub(crate) probe_interval: Duration,
    /// What is done about stuck pods.
    pub(crate) repair: RepairMode,
    /// Ends every control loop.
    pub(crate) stop: CancellationToken,
}

impl LeaderContext {
    /// The context of Mullion in `namespace`; starts the watches that several control loops read.
    pub async fn new(
        client: Client,
        namespace: &str,
        policies: channel::Receiver<Arc<PolicySet>>,
        metrics: ControllerMetrics,
        ready: channel::Sender<bool>,
        stop: CancellationToken,
    ) -> Self {
        let streaming = streams_lists(wait_for_version(&client).await);
        let state = Arc::new(follow(client.clone(), namespace, streaming));
        let owner = Owner::of_client(client.clone(), namespace);
        Self {
            streaming,
            namespace: namespace.to_owned(),
            policies,
            policy_reports: None,
            snapshot: Arc::new(LiveSnapshot::start(client.clone(), state.state.clone())),
            state,
            store: StateStore::new(client.clone(), namespace).owned_by(owner.clone()),
            owner,
            certificates: None,
            events: EventRecorder::new(client.clone()),
            claimants: Arc::new(channel::Sender::new(None)),
            client,
            metrics,
            report: ReportedFacts::default(),
            ready,
            probe_namespace: "default".to_owned(),
            repair: RepairMode::Report,
            probe_interval: Duration::from_secs(60),
            stop,
        }
    }
}
