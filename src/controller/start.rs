//! Starts the controller from its flags, and stops it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use kube::Client;
use mullion_policy::{PolicyReading, PolicySet};
use tokio::runtime::Builder;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use crate::cluster::state::last_good;
use crate::cluster::{Owner, connect};
use crate::controller::admin;
use crate::controller::admin::Readiness;
use crate::controller::args::ControllerArgs;
use crate::controller::certificates::CertificateSettings;
use crate::controller::control_loops::LeadershipEnd;
use crate::controller::leader_context::LeaderContext;
use crate::controller::lease::{Fence, LeaseFollower, LeaseTiming, create_identity};
use crate::controller::metrics::ControllerMetrics;
use crate::controller::repair_mode::RepairMode;
use crate::policy_files::{PolicyFileReader, PolicyReporter, load_at_start, reload};
use crate::server::{AdminThread, ServerMetrics, listen, run_to_end};
use crate::shutdown_signals::Signals;

/// Runs until SIGTERM or SIGINT. An error (exit code 2) means that it could not start, and describes what to do; or
/// that a part of it ended by itself, and that it must be restarted.
pub(crate) fn run(args: &ControllerArgs) -> anyhow::Result<()> {
    // It waits for the API server most of the time. Each thread has a heap of its own: with two, the controller of 20,000
    // nodes takes 4 MiB more.
    run_to_end(&args.log, Builder::new_multi_thread().worker_threads(1), start(args))
}

async fn start(args: &ControllerArgs) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("cannot listen for signals")?;
    let stop = CancellationToken::new();

    let built_in = Arc::new(PolicySet::built_in());
    let policy_reporter = PolicyReporter::of(Arc::clone(&built_in));
    let metrics = ControllerMetrics::about(&policy_reporter);
    let (policies_sender, policies) = channel::channel(built_in);
    if !args.policies.is_empty() {
        let read = tokio::select! {
            read = read_policies(args, &policy_reporter) => Some(read?),
            _ = signals.next() => None,
        };
        let Some((set, mut source)) = read else {
            tracing::info!("stopped while the policies were being read");
            return Ok(());
        };
        policies_sender.send_replace(set);
        let (policies, reporter) = (policies_sender.clone(), policy_reporter.clone());
        tokio::spawn(reload::every(args.reload_interval, stop.clone(), "the policy files", move || {
            let reading = reload::reread(&mut source);
            if let PolicyReading::Loaded(set) | PolicyReading::Ended(set) = &reading {
                // Files that have their former content again change nothing.
                policies.send_if_modified(|current| !Arc::ptr_eq(&std::mem::replace(current, Arc::clone(set)), set));
            }
            reporter.record(&reading, Timestamp::now().as_second());
        }));
    }
    // A repeated request passes the fence again: see `Fence::client`.
    let client = connect::client_without_retries(args.kubeconfig.as_deref())?;
    let namespace = namespace(args, &client);
    let certificates = certificates(args, &namespace)?.map(Arc::new);

    let listener = listen(args.admin_bind, "--admin-bind").await?;
    let identity = create_identity();
    tracing::info!(admin = %listener.local_addr()?, identity, namespace, "controller started");
    let (timing, owner) = (LeaseTiming::of_seconds(args.lease_duration), Owner::of_client(client.clone(), &namespace));
    let follower = LeaseFollower::start(client.clone(), &namespace, timing, identity, owner);
    let (synced_sender, synced) = channel::channel(false);
    let (leads_sender, leads) = channel::channel(false);
    let readiness = Readiness { status: follower.status.clone(), leads, synced };
    let router = admin::router(metrics.clone(), &policy_reporter, readiness);
    let mut admin = AdminThread::start(listener, router, ServerMetrics::default())?;

    let terms = Terms {
        client,
        namespace,
        policies,
        policy_reporter,
        probe_namespace: args.probe_namespace.clone(),
        repair: args.repair,
        probe_interval: args.probe_interval,
        certificates,
        metrics,
        synced_sender,
        leads_sender,
        stop: stop.clone(),
    };
    let ended = {
        let work = terms.run(&follower);
        tokio::pin!(work);
        let ended = tokio::select! {
            _ = signals.next() => Ok(()),
            () = &mut work => {
                stop.cancel();
                Err(anyhow!("a control loop of the leader ended by itself"))
            }
            () = follower.wait_for_end() => Err(anyhow!("the control loop of the lease ended by itself")),
            () = admin.ended() => Err(anyhow!("the admin server ended by itself")),
        };
        if !stop.is_cancelled() {
            stop.cancel();
            work.await;
        }
        ended
    };
    // After every other write, whatever ended them, so that other processes need not wait until the lease expires.
    follower.release().await;
    ended?;
    admin.stop().await;
    // The sender must live until here, because the control loops end when the channel closes.
    drop(policies_sender);
    tracing::info!("stopped");
    Ok(())
}

/// Which certificates to manage, if `--webhook-service` is set.
fn certificates(args: &ControllerArgs, namespace: &str) -> anyhow::Result<Option<CertificateSettings>> {
    let made = args.webhook_service.as_deref().map(|service| {
        let lifetimes = (args.certificate_lifetime, args.ca_lifetime);
        CertificateSettings::new(service, namespace, &args.certificate_name, lifetimes)
            .context("cannot create certificates; correct --webhook-service and --namespace")
    });
    made.transpose()
}

/// The input of every term of the leader.
struct Terms {
    client: Client,
    namespace: String,
    policies: channel::Receiver<Arc<PolicySet>>,
    policy_reporter: PolicyReporter,
    probe_namespace: String,
    repair: RepairMode,
    probe_interval: Duration,
    certificates: Option<Arc<CertificateSettings>>,
    metrics: ControllerMetrics,
    synced_sender: channel::Sender<bool>,
    leads_sender: channel::Sender<bool>,
    stop: CancellationToken,
}

impl Terms {
    /// Leads whenever the lease is held, until `stop`, or until a control loop ends by itself.
    async fn run(&self, follower: &LeaseFollower) {
        loop {
            let fence = tokio::select! {
                fence = follower.wait_for_term() => fence,
                () = self.stop.cancelled() => return,
            };
            self.set_leads(true);
            tracing::info!("leading");
            let ended = self.lead(&fence).await;
            self.set_leads(false);
            match ended {
                LeadershipEnd::Stopped | LeadershipEnd::Broken => return,
                LeadershipEnd::Lost => {
                    tracing::warn!("no longer leading: the lease was not renewed in time, or another process took it");
                }
            }
        }
    }

    /// One term. It begins by reading the cluster again, because it may have changed while others led.
    async fn lead(&self, fence: &Fence) -> LeadershipEnd {
        let starting = LeaderContext::new(
            fence.client(&self.client),
            &self.namespace,
            self.policies.clone(),
            self.metrics.clone(),
            self.synced_sender.clone(),
            self.stop.child_token(),
        );
        let leading = tokio::select! {
            leading = starting => leading,
            () = fence.wait_until_closed() => return LeadershipEnd::Lost,
            () = self.stop.cancelled() => return LeadershipEnd::Stopped,
        };
        let leading = LeaderContext {
            probe_namespace: self.probe_namespace.clone(),
            repair: self.repair,
            probe_interval: self.probe_interval,
            certificates: self.certificates.clone(),
            policy_reports: Some(self.policy_reporter.follow()),
            ..leading
        };
        leading.run(fence.wait_until_closed()).await
    }

    fn set_leads(&self, leads: bool) {
        self.synced_sender.send_replace(false);
        self.leads_sender.send_replace(leads);
        self.metrics.set_leading(leads);
    }
}

/// Mullion's namespace.
fn namespace(args: &ControllerArgs, client: &kube::Client) -> String {
    args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned())
}

/// The policies of `--policies`, or the last good ones, and the source of later ones.
async fn read_policies(
    args: &ControllerArgs,
    reporter: &PolicyReporter,
) -> anyhow::Result<(Arc<PolicySet>, PolicyFileReader)> {
    let earlier = async {
        let client = connect::client(args.kubeconfig.as_deref())?;
        last_good(client.clone(), &namespace(args, &client)).await
    };
    load_at_start(args.policies.clone(), args.reload_interval, earlier, reporter).await
}
