//! What the controller does while it holds the lease: a task for each duty, all ended together.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::events::Events;
use super::metrics::Metrics;
use super::reachability::{self, Probing};
use super::{certificates, memory, nodes, pods, policies, withdrawn};
use crate::engine::creation::Claimants;
use crate::ownership::Owner;
use crate::policy::PolicySet;
use crate::state::{Follower, Store, follow};
use crate::telemetry::{PolicyReport, PolicyStatus};
use crate::world::live::Live;
use crate::world::watch::streams_lists;

/// How long writes under way may take when the duties end.
const DRAIN: Duration = Duration::from_secs(5);

/// Why leading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// The lease is, or may be, another's.
    Lost,
    /// A duty ended by itself, which only a defect can cause.
    Broken,
}

/// What every duty works with. Clones share.
#[derive(Clone)]
pub struct Leading {
    /// Writes only while the lease is held.
    pub(super) client: Client,
    /// Whether the API server streams lists.
    pub(super) streaming: bool,
    /// Mullion's own: of the lease, the ConfigMap and the Secrets.
    pub(super) namespace: String,
    /// The policies in force.
    pub(super) policies: channel::Receiver<Arc<PolicySet>>,
    /// What is to say about the policy files, as it changes; `None`: nobody says it.
    pub(super) policy_reports: Option<channel::Receiver<Arc<PolicyReport>>>,
    /// What is known of the cluster.
    pub(super) world: Arc<Live>,
    /// What is kept, as it changes.
    pub(super) state: Arc<Follower>,
    /// Where it is kept.
    pub(super) store: Store,
    /// Whose it is, and the Secrets are.
    pub(super) owner: Owner,
    /// What certificates to keep, if any.
    pub(super) certificates: Option<Arc<certificates::Settings>>,
    /// For people.
    pub(super) events: Events,
    /// Who may have a claim to Windows nodes: told by the nodes' duty, `None` until it has planned every node.
    pub(super) claimants: Arc<channel::Sender<Option<Claimants>>>,
    pub(super) metrics: Metrics,
    /// Turns true once every watch of the nodes' duty has been read once.
    pub(super) ready: channel::Sender<bool>,
    /// How the webhook is probed.
    pub(super) probing: Probing,
    /// Ends every duty.
    pub(super) stop: CancellationToken,
}

impl Leading {
    /// Everything that leads, for the Mullion of `namespace`; starts watching what several duties read.
    pub async fn new(
        client: Client,
        namespace: &str,
        policies: channel::Receiver<Arc<PolicySet>>,
        metrics: Metrics,
        ready: channel::Sender<bool>,
        stop: CancellationToken,
    ) -> Self {
        let streaming = streams_lists(&client).await;
        let state = Arc::new(follow(client.clone(), namespace, streaming));
        let owner = Owner::asked(client.clone(), namespace);
        Self {
            streaming,
            namespace: namespace.to_owned(),
            policies,
            policy_reports: None,
            world: Arc::new(Live::start(client.clone(), state.state.clone())),
            state,
            store: Store::new(client.clone(), namespace).owned_by(owner.clone()),
            owner,
            certificates: None,
            events: Events::new(client.clone()),
            claimants: Arc::new(channel::Sender::new(None)),
            client,
            metrics,
            ready,
            probing: Probing::default(),
            stop,
        }
    }

    /// The same, keeping certificates as `settings` say; `None`: nothing is done about them.
    #[must_use]
    pub fn keeping(mut self, settings: Option<certificates::Settings>) -> Self {
        self.certificates = settings.map(Arc::new);
        self
    }

    /// The same, telling people how the policy files stand.
    #[must_use]
    pub fn telling_of(mut self, policies: &PolicyStatus) -> Self {
        self.policy_reports = Some(policies.follow());
        self
    }

    /// With probes of the webhook as `probing` says.
    #[must_use]
    pub fn probing(self, probing: Probing) -> Self {
        Self { probing, ..self }
    }

    /// Works until `stop`, letting writes under way end; or until `lost` is ready, dropping them; or until a duty ends.
    pub async fn run(self, lost: impl Future<Output = ()>) -> Ended {
        let mut duties = JoinSet::new();
        duties.spawn(withdrawn::obey(self.clone(), Self::change));
        duties.spawn(memory::run(self.clone()));
        duties.spawn(policies::run(self.clone()));
        duties.spawn(certificates::run(self.clone()));
        until_the_end(duties, &self.stop, lost).await
    }

    /// The duties that change nodes, RuntimeClasses and pods, and probes of a webhook that may be gone: they end while
    /// Mullion is withdrawn. Works until `stop`, or until one of them ends by itself; dropped, it drops them.
    async fn change(self) {
        let mut duties = JoinSet::new();
        duties.spawn(nodes::run(self.clone()));
        duties.spawn(pods::run(self.clone()));
        duties.spawn(reachability::run(self.clone()));
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = duties.join_next() => {}
        }
        self.stop.cancel();
        while duties.join_next().await.is_some() {}
    }
}

/// Runs until `stop`, until `lost` is ready, or until one of `duties` ends; then ends them all.
pub(super) async fn until_the_end(
    mut duties: JoinSet<()>,
    stop: &CancellationToken,
    lost: impl Future<Output = ()>,
) -> Ended {
    tokio::pin!(lost);
    let ended = tokio::select! {
        biased;
        () = &mut lost => Ended::Lost,
        () = stop.cancelled() => Ended::Stopped,
        _ = duties.join_next() => Ended::Broken,
    };
    stop.cancel();
    if ended != Ended::Lost {
        let done = async { while duties.join_next().await.is_some() {} };
        tokio::select! {
            () = lost => {}
            () = done => {}
            () = tokio::time::sleep(DRAIN) => tracing::warn!("some duties did not end in time; they are dropped"),
        }
    }
    // Waits until every task is gone: nothing of this term reaches into the next.
    duties.shutdown().await;
    ended
}
