//! From flags to a running server, and down again.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use arc_swap::ArcSwap;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_policy::policy_set::PolicySet;
use mullion_snapshot::dump;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cluster::state::follow::{Follower, follow};
use crate::cluster::state::store::last_good;
use crate::cluster::{connect, live};
use crate::policy_files::reload::{Source, begin};
use crate::server::accept::{ConnectionLimits, run_to_end, serve};
use crate::server::body::Limits;
use crate::server::tls::certificate::Certificate;
use crate::server::tls::secret;
use crate::shutdown_signals::{Ask, Signals};
use crate::webhook::args::Args;
use crate::webhook::images::Images;
use crate::webhook::namespaces::Namespaces;
use crate::webhook::registries::maker;
use crate::webhook::state::State;
use crate::webhook::{admin, reload, router};

/// Runs until SIGTERM or SIGINT. An error means that it could not start, and says what to do: exit code 2; or that a
/// part of it broke, and that it is better started anew than left with a snapshot that stands still. It logs
/// to standard error from several threads, so the caller must not hold its lock.
pub fn run(args: &Args) -> anyhow::Result<()> {
    run_to_end(&args.log, start(args))
}

async fn start(args: &Args) -> anyhow::Result<()> {
    // First of all: a signal during the start must not find the default action.
    let mut signals = Signals::install().context("cannot listen for signals")?;
    let stop = CancellationToken::new();
    let (certificate, seen) = match &args.tls_dir {
        Some(dir) => Certificate::load(dir)?,
        None => (Arc::default(), 0),
    };
    let config = Arc::new(certificate.server_config()?);
    let Facts { snapshot, synced, live, kept, client } = snapshot(args).await?;
    let mut state = State::new(snapshot, synced, Arc::new(ArcSwap::from_pointee(PolicySet::built_in())));
    state.kept = kept.as_ref().map(|kept| kept.state.clone());
    state.namespace = client.as_ref().map(|client| namespace(args, client));
    state.namespaces = client.clone().map(Namespaces::of);
    state.images = images(client.clone());
    let state = Arc::new(state);
    state.metrics.tls_valid(certificate.valid().as_ref());
    let source = tokio::select! {
        source = policies(args, &state, client.clone()) => source?,
        _ = signals.next() => {
            tracing::info!("asked to stop while the policies were being read");
            return Ok(());
        }
    };
    if let Some(source) = source {
        tokio::spawn(reload::policies(Arc::clone(&state), source, args.reload_interval, stop.clone()));
    }
    follow_certificate(args, client, certificate, seen, &state, &stop)?;

    let admin = listen(args.admin_bind, "--admin-bind").await?;
    let main = listen(args.bind, "--bind").await?;
    tracing::info!(bind = %main.local_addr()?, admin = %admin.local_addr()?, "serving");
    let limits = ConnectionLimits::default();
    let metrics = state.metrics.clone();
    let admin_routes = admin::router(&state);
    let admin_stop = CancellationToken::new();
    let admin_limits = ConnectionLimits { connections: 64, drain: Duration::from_secs(1), ..limits.clone() };
    let mut admin = tokio::spawn(serve(admin, None, admin_routes, admin_limits, metrics.clone(), admin_stop.clone()));
    let main_routes = router::router(Arc::clone(&state), Limits::default());
    let mut main = tokio::spawn(serve(main, Some(config), main_routes, limits, metrics, stop.clone()));

    let watches = async {
        match &live {
            Some(live) => live.ended().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = asked_to_stop(signals, &state, args.drain_delay) => {}
        _ = &mut main => bail!("the HTTPS server ended by itself"),
        _ = &mut admin => bail!("the admin server ended by itself"),
        () = watches => bail!("the watches of the cluster ended by themselves"),
    }
    stop.cancel();
    main.await.context("the HTTPS server ended early")?;
    // Last, so that probes and scrapes are answered to the end.
    admin_stop.cancel();
    admin.await.context("the admin server ended early")?;
    drop(kept);
    tracing::info!("stopped");
    Ok(())
}

/// Keeps `certificate`, which was loaded from the content `seen` if there is a `--tls-dir`, as new as its source.
fn follow_certificate(
    args: &Args,
    client: Option<kube::Client>,
    certificate: Arc<Certificate>,
    seen: u64,
    state: &Arc<State>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    state.certificate.store(certificate.is_loaded(), Ordering::Release);
    let (shared, stop) = (Arc::clone(state), stop.clone());
    match (&args.tls_dir, &args.tls_secret, client) {
        (Some(dir), ..) => {
            let (dir, interval) = (dir.clone(), args.reload_interval);
            tokio::spawn(reload::certificate(shared, certificate, dir, seen, interval, stop));
        }
        (None, Some(secret), Some(client)) => {
            tokio::spawn(secret::follow(client, secret.clone(), certificate, shared, stop));
        }
        (None, Some(secret), None) => bail!(
            "the Secret {secret} of --tls-secret is in a cluster, and with --snapshot FILE there is none; \
             give the certificate as files by --tls-dir DIR"
        ),
        (None, None, _) => bail!("there is no certificate to serve with; pass --tls-secret NS/NAME or --tls-dir DIR"),
    }
    Ok(())
}

async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}; choose another address with {flag}"))
}

/// What the cluster tells.
struct Facts {
    snapshot: Arc<ArcSwap<ClusterSnapshot>>,
    /// Whether `snapshot` is complete.
    synced: Arc<AtomicBool>,
    /// What must live as long as the facts are wanted.
    live: Option<Arc<live::Live>>,
    /// As does this.
    kept: Option<Follower>,
    /// For what is asked beside them.
    client: Option<kube::Client>,
}

async fn snapshot(args: &Args) -> anyhow::Result<Facts> {
    if let Some(path) = &args.snapshot {
        let snapshot = Arc::new(ArcSwap::from_pointee(read_snapshot(path)?));
        return Ok(Facts { snapshot, synced: Arc::new(AtomicBool::new(true)), live: None, kept: None, client: None });
    }
    let client = connect::client(args.kubeconfig.as_deref()).await;
    let client = client.context("no cluster to watch (--snapshot FILE needs none)")?;
    let kept = follow(client.clone(), &namespace(args, &client), true);
    let live = Arc::new(live::Live::start(client.clone(), kept.state.clone()));
    let synced = Arc::new(AtomicBool::new(false));
    let (waiter, flag) = (Arc::clone(&live), Arc::clone(&synced));
    tokio::spawn(async move {
        waiter.synced().await;
        flag.store(true, Ordering::Release);
    });
    let snapshot = Arc::clone(&live.snapshot);
    Ok(Facts { snapshot, synced, live: Some(live), kept: Some(kept), client: Some(client) })
}

/// Mullion's own: where its certificate is, if nothing else is said.
fn namespace(args: &Args, client: &kube::Client) -> String {
    let of_secret = || args.tls_secret.as_ref().map(|secret| secret.namespace.clone());
    args.namespace.clone().or_else(of_secret).unwrap_or_else(|| client.default_namespace().to_owned())
}

/// Who is asked for images, once policies have them asked for.
fn images(client: Option<kube::Client>) -> Images {
    Images::made_by(maker(client))
}

fn read_snapshot(path: &Path) -> anyhow::Result<ClusterSnapshot> {
    let name = path.display().to_string();
    let bytes =
        std::fs::read(path).with_context(|| format!("{name}: cannot read the cluster snapshot file of --snapshot"))?;
    dump::from_text(&name, &bytes).map_err(|problem| anyhow!("{problem}"))
}

/// The policies of `--policies`, in force in `state`, and the source of later ones; `None` without directories.
async fn policies(args: &Args, state: &State, client: Option<kube::Client>) -> anyhow::Result<Option<Source>> {
    if args.policies.is_empty() {
        return Ok(None);
    }
    let earlier = async {
        match client {
            Some(client) => last_good(client.clone(), &namespace(args, &client)).await,
            None => Ok(Vec::new()),
        }
    };
    let reporter = &state.policy_reporter;
    let (set, source) = begin(args.policies.clone(), args.reload_interval, earlier, reporter).await?;
    reload::in_force(state, &set);
    Ok(Some(source))
}

/// Returns when it is time to stop accepting: at once on SIGINT (a person waits) or a second signal, else `delay` after
/// SIGTERM, unready meanwhile.
async fn asked_to_stop(mut signals: Signals, state: &State, delay: Duration) {
    let ask = signals.next().await;
    state.draining.store(true, Ordering::Release);
    if ask == Ask::Terminate {
        tracing::info!(seconds = delay.as_secs_f64(), "asked to stop; still accepting for a while");
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = signals.next() => {}
        }
    }
}
