//! From flags to a running controller, and down again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use kube::Client;
use mullion_policy::policy_set::PolicySet;
use mullion_policy::store::PolicyReading;
use tokio::net::TcpListener;
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use crate::cluster::connect;
use crate::cluster::owner_references::Owner;
use crate::cluster::state::store::last_good;
use crate::controller::admin::Readiness;
use crate::controller::args::ControllerArgs;
use crate::controller::certificates::Settings;
use crate::controller::leader::Leading;
use crate::controller::leading::Ended;
use crate::controller::lease::fence::Fence;
use crate::controller::lease::{Timing, follow};
use crate::controller::metrics::Metrics;
use crate::controller::reachability::probing::Probing;
use crate::controller::{admin, lease};
use crate::policy_files::reload;
use crate::policy_files::reload::{Source, begin};
use crate::policy_files::report::PolicyReporter;
use crate::server::accept::{ConnectionLimits, run_to_end, serve};
use crate::shutdown_signals::Signals;
use crate::telemetry::metrics;

/// Runs until SIGTERM or SIGINT. An error means that it could not start, and says what to do: exit code 2; or that a
/// part of it broke, and that it is better started anew than left doing nothing.
pub fn run(args: &ControllerArgs) -> anyhow::Result<()> {
    run_to_end(&args.log, start(args))
}

async fn start(args: &ControllerArgs) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("cannot listen for signals")?;
    let stop = CancellationToken::new();

    let built_in = Arc::new(PolicySet::built_in());
    let policy_reporter = PolicyReporter::of(Arc::clone(&built_in));
    let metrics = Metrics::about(&policy_reporter);
    let (say_policies, policies) = channel::channel(built_in);
    if !args.policies.is_empty() {
        let read = tokio::select! {
            read = self::policies(args, &policy_reporter) => Some(read?),
            _ = signals.next() => None,
        };
        let Some((set, source)) = read else {
            tracing::info!("asked to stop while the policies were being read");
            return Ok(());
        };
        say_policies.send_replace(set);
        let interval = args.reload_interval;
        tokio::spawn(follow(source, interval, say_policies.clone(), policy_reporter.clone(), stop.clone()));
    }
    // What is sent again passes the fence again: see `Fence::client`.
    let client = connect::client_without_retries(args.kubeconfig.as_deref()).await?;
    let namespace = namespace(args, &client);
    let certificates = certificates(args, &namespace)?.map(Arc::new);

    let listener = TcpListener::bind(args.admin_bind)
        .await
        .with_context(|| format!("cannot listen on {}; choose another address with --admin-bind", args.admin_bind))?;
    let identity = lease::identity();
    tracing::info!(admin = %listener.local_addr()?, identity, namespace, "controller started");
    let (timing, owner) = (Timing::of_seconds(args.lease_duration), Owner::of_client(client.clone(), &namespace));
    let follower = follow::follow(client.clone(), &namespace, timing, identity, owner);
    let (say_synced, synced) = channel::channel(false);
    let (say_leads, leads) = channel::channel(false);
    let admin_stop = CancellationToken::new();
    let limits = ConnectionLimits { connections: 64, drain: Duration::from_secs(1), ..ConnectionLimits::default() };
    let readiness = Readiness { standing: follower.standing.clone(), leads, synced };
    let router = admin::router(metrics.clone(), &policy_reporter, readiness);
    let mut admin = tokio::spawn(serve(listener, None, router, limits, metrics::Metrics::new(), admin_stop.clone()));

    let probing = Probing { namespace: args.probe_namespace.clone(), interval: args.probe_interval };
    let terms = Terms {
        client,
        namespace,
        policies,
        policy_reporter,
        probing,
        certificates,
        metrics,
        say_synced,
        say_leads,
        stop: stop.clone(),
    };
    let ended = {
        let work = terms.run(&follower);
        tokio::pin!(work);
        let ended = tokio::select! {
            _ = signals.next() => Ok(()),
            () = &mut work => {
                stop.cancel();
                Err(anyhow!("a duty of the leader ended by itself"))
            }
            () = follower.ended() => Err(anyhow!("the lease is followed no more")),
            _ = &mut admin => Err(anyhow!("the admin server ended by itself")),
        };
        if !stop.is_cancelled() {
            stop.cancel();
            work.await;
        }
        ended
    };
    // Last of what writes, and whatever ended it: others need not wait for the lease's end.
    follower.vacate().await;
    ended?;
    admin_stop.cancel();
    admin.await.context("the admin server ended early")?;
    // Alive until here: without a sender the duties would take the policies for gone.
    drop(say_policies);
    tracing::info!("stopped");
    Ok(())
}

/// What certificates to keep, where `--webhook-service` asks for it.
fn certificates(args: &ControllerArgs, namespace: &str) -> anyhow::Result<Option<Settings>> {
    let made = args.webhook_service.as_deref().map(|service| {
        let lifetimes = (args.certificate_lifetime, args.ca_lifetime);
        Settings::new(service, namespace, &args.certificate_name, lifetimes)
            .context("no certificates can be made; correct --webhook-service and --lease-namespace")
    });
    made.transpose()
}

/// What one term of leading after another works with.
struct Terms {
    client: Client,
    namespace: String,
    policies: channel::Receiver<Arc<PolicySet>>,
    policy_reporter: PolicyReporter,
    probing: Probing,
    certificates: Option<Arc<Settings>>,
    metrics: Metrics,
    say_synced: channel::Sender<bool>,
    say_leads: channel::Sender<bool>,
    stop: CancellationToken,
}

impl Terms {
    /// Leads whenever the lease is held, until `stop`, or until a duty ends by itself.
    async fn run(&self, follower: &follow::Follower) {
        loop {
            let fence = tokio::select! {
                fence = follower.gained() => fence,
                () = self.stop.cancelled() => return,
            };
            self.leads(true);
            tracing::info!("leading");
            let ended = self.lead(&fence).await;
            self.leads(false);
            match ended {
                Ended::Stopped | Ended::Broken => return,
                Ended::Lost => tracing::warn!("leading no more: the lease was not renewed in time, or was taken away"),
            }
        }
    }

    /// One term. It begins by reading the cluster anew: whatever changed while others led is seen.
    async fn lead(&self, fence: &Fence) -> Ended {
        let starting = Leading::new(
            fence.client(&self.client),
            &self.namespace,
            self.policies.clone(),
            self.metrics.clone(),
            self.say_synced.clone(),
            self.stop.child_token(),
        );
        let leading = tokio::select! {
            leading = starting => leading,
            () = fence.closed() => return Ended::Lost,
            () = self.stop.cancelled() => return Ended::Stopped,
        };
        let leading = Leading {
            probing: self.probing.clone(),
            certificates: self.certificates.clone(),
            policy_reports: Some(self.policy_reporter.follow()),
            ..leading
        };
        leading.run(fence.closed()).await
    }

    fn leads(&self, leads: bool) {
        self.say_synced.send_replace(false);
        self.say_leads.send_replace(leads);
        self.metrics.leading(leads);
    }
}

/// Mullion's own.
fn namespace(args: &ControllerArgs, client: &kube::Client) -> String {
    args.lease_namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned())
}

/// The policies of `--policies`, or the last good ones, and the source of later ones.
async fn policies(args: &ControllerArgs, reporter: &PolicyReporter) -> anyhow::Result<(Arc<PolicySet>, Source)> {
    let earlier = async {
        let client = connect::client(args.kubeconfig.as_deref()).await?;
        last_good(client.clone(), &namespace(args, &client)).await
    };
    begin(args.policies.clone(), args.reload_interval, earlier, reporter).await
}

/// Reads the policy files every `interval` until `stop` is cancelled, and sends every new set that is good.
async fn follow(
    mut source: Source,
    interval: Duration,
    policies: channel::Sender<Arc<PolicySet>>,
    reporter: PolicyReporter,
    stop: CancellationToken,
) {
    reload::every(interval, stop, "the policy files", move || {
        let reading = reload::read(&mut source);
        if let PolicyReading::Loaded(set) = &reading {
            // Files that are back as they were change nothing.
            policies.send_if_modified(|current| {
                let news = !Arc::ptr_eq(current, set);
                *current = Arc::clone(set);
                news
            });
        }
        reporter.record(&reading, Timestamp::now().as_second());
    })
    .await;
}
