//! What every duty of the leading controller works with.

use std::sync::Arc;

use kube::Client;
use mullion_engine::node::node_create::Claimants;
use mullion_policy::policy_set::PolicySet;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use crate::cluster::live::Live;
use crate::cluster::owner_references::Owner;
use crate::cluster::state::follow::{Follower, follow};
use crate::cluster::state::store::Store;
use crate::cluster::watch::streams_lists;
use crate::controller::certificates;
use crate::controller::events::Events;
use crate::controller::metrics::Metrics;
use crate::controller::reachability::probing::Probing;
use crate::policy_files::report::PolicyReport;

/// What every duty works with. Clones share.
#[derive(Clone)]
pub struct Leading {
    /// Writes only while the lease is held.
    pub(crate) client: Client,
    /// Whether the API server streams lists.
    pub(crate) streaming: bool,
    /// Mullion's own: of the lease, the ConfigMap and the Secrets.
    pub(crate) namespace: String,
    /// The policies in force.
    pub(crate) policies: channel::Receiver<Arc<PolicySet>>,
    /// What is to say about the policy files, as it changes; `None`: nobody says it.
    pub(crate) policy_reports: Option<channel::Receiver<Arc<PolicyReport>>>,
    /// What is known of the cluster.
    pub(crate) snapshot: Arc<Live>,
    /// What is kept, as it changes.
    pub(crate) state: Arc<Follower>,
    /// Where it is kept.
    pub(crate) store: Store,
    /// Whose it is, and the Secrets are.
    pub(crate) owner: Owner,
    /// What certificates to keep, if any.
    pub(crate) certificates: Option<Arc<certificates::Settings>>,
    /// For people.
    pub(crate) events: Events,
    /// Who may have a claim to Windows nodes: told by the nodes' duty, `None` until it has planned every node.
    pub(crate) claimants: Arc<channel::Sender<Option<Claimants>>>,
    pub(crate) metrics: Metrics,
    /// Turns true once every watch of the nodes' duty has been read once.
    pub(crate) ready: channel::Sender<bool>,
    /// How the webhook is probed.
    pub(crate) probing: Probing,
    /// Ends every duty.
    pub(crate) stop: CancellationToken,
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
        let owner = Owner::of_client(client.clone(), namespace);
        Self {
            streaming,
            namespace: namespace.to_owned(),
            policies,
            policy_reports: None,
            snapshot: Arc::new(Live::start(client.clone(), state.state.clone())),
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
}
