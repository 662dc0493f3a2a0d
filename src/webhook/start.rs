//! Starts the webhook from its flags, and stops it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::{PolicySet, RegistryPolicy};
use mullion_snapshot::dump;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use crate::cluster::state::{StateFollower, follow, last_good};
use crate::cluster::{connect, live};
use crate::policy_files::{PolicyFileReader, load_at_start};
use crate::registry::AddressRule;
use crate::server::tls::{Certificate, ClientCa, secret};
use crate::server::{AdminThread, BodyLimits, ConnectionLimits, LogLevelChanges, listen, run_to_end, serve};
use crate::shutdown_signals::{Signals, StopRequest};
use crate::webhook::args::WebhookArgs;
use crate::webhook::controller_users::ControllerUsers;
use crate::webhook::namespaces::NamespaceLookups;
use crate::webhook::policies_in_force::PoliciesInForce;
use crate::webhook::registries::source_factory;
use crate::webhook::state::WebhookState;
use crate::webhook::{admin, reload, router};

/// Runs until SIGTERM or SIGINT. An error (exit code 2) means that it could not start, and describes what to do; or
/// that a part of it ended, because a restart is better than a snapshot that no longer changes. It logs to standard
/// error from several threads, so the caller must not hold the lock of standard error.
pub(crate) fn run(args: &WebhookArgs) -> anyhow::Result<()> {
    run_with_addresses(args, AddressRule::of)
}

/// Does the same with another rule for the addresses of registries, for tests with registries on loopback.
pub fn run_with_addresses(args: &WebhookArgs, addresses: fn(&RegistryPolicy) -> AddressRule) -> anyhow::Result<()> {
    run_to_end(&args.log, &mut Builder::new_multi_thread(), start(args, addresses))
}

async fn start(args: &WebhookArgs, addresses: fn(&RegistryPolicy) -> AddressRule) -> anyhow::Result<()> {
    // This comes first, because a signal during the start must not trigger the default action.
    let mut signals = Signals::install().context("cannot listen for signals")?;
    let stop = CancellationToken::new();
    let certificate = args.tls_dir.as_deref().map_or_else(|| Ok(Arc::default()), Certificate::load)?;
    let client_ca = args.client_ca.as_deref().map(ClientCa::load).transpose()?;
    let config = Arc::new(certificate.server_config(client_ca.as_ref())?);
    let (cluster, mut state) = if let Some(path) = &args.snapshot {
        (None, WebhookState::fixed(read_snapshot(path)?, PolicySet::built_in()))
    } else {
        let cluster = Cluster::connect(args)?;
        let state = cluster.state();
        (Some(cluster), state)
    };
    let client = cluster.as_ref().map(|cluster| cluster.client.clone());
    state.certificate = certificate;
    state.controller_users = ControllerUsers::new(args.controller_users.clone());
    state.client_ca.clone_from(&client_ca);
    let sources = source_factory(client.clone(), addresses, state.metrics.requests.registry_answers.clone());
    state.policies = PoliciesInForce::with_sources(PolicySet::built_in(), sources);
    let state = Arc::new(state);
    state.metrics.server.tls_valid(state.certificate.valid().as_ref());
    let source = tokio::select! {
        source = policies(args, &state, cluster.as_ref()) => source?,
        _ = signals.next() => {
            tracing::info!("stopping before the policies were read");
            return Ok(());
        }
    };
    if let Some(source) = source {
        tokio::spawn(reload::policies(Arc::clone(&state), source, args.reload_interval, stop.clone()));
    }
    follow_certificate(args, client, &state, &stop)?;
    if let (Some(path), Some(authorities)) = (args.client_ca.clone(), client_ca) {
        let (metrics, interval) = (state.metrics.server.clone(), args.reload_interval);
        tokio::spawn(reload::client_ca(authorities, path, metrics, interval, stop.clone()));
    }

    let admin = listen(args.admin_bind, "--admin-bind").await?;
    let main = listen(args.bind, "--bind").await?;
    tracing::info!(bind = %main.local_addr()?, admin = %admin.local_addr()?, "serving");
    let changes = if args.fixed_log_level { LogLevelChanges::Never } else { LogLevelChanges::FromPod };
    let mut admin = AdminThread::start(admin, admin::router(&state, changes), state.metrics.server.clone())?;
    let (limits, metrics) = (ConnectionLimits::default(), state.metrics.server.clone());
    let main_routes = router::router(Arc::clone(&state), BodyLimits::default());
    let mut main = tokio::spawn(serve(main, Some(config), main_routes, limits, metrics, stop.clone()));

    let watches = async {
        match &cluster {
            Some(cluster) => cluster.live.ended().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = stop_requested(signals, &state, args.drain_delay) => {}
        _ = &mut main => bail!("the HTTPS server ended unexpectedly"),
        () = admin.ended() => bail!("the admin server ended unexpectedly"),
        () = watches => bail!("the watches of the cluster ended unexpectedly"),
    }
    stop.cancel();
    main.await.context("the HTTPS server ended early")?;
    // This comes last, so that probes and scrapes get responses until the end.
    admin.stop().await;
    drop(cluster);
    tracing::info!("stopped");
    Ok(())
}

/// Starts to follow the source of the certificate.
fn follow_certificate(
    args: &WebhookArgs,
    client: Option<kube::Client>,
    state: &Arc<WebhookState>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let stop = stop.clone();
    match (&args.tls_dir, &args.tls_secret, client) {
        (Some(dir), ..) => {
            let (dir, interval) = (dir.clone(), args.reload_interval);
            tokio::spawn(reload::certificate(Arc::clone(state), dir, interval, stop));
        }
        (None, Some(secret), Some(client)) => {
            let (certificate, metrics) = (Arc::clone(&state.certificate), state.metrics.server.clone());
            tokio::spawn(secret::follow(client, secret.clone(), certificate, metrics, stop));
        }
        (None, Some(secret), None) => bail!(
            "the Secret {secret} of --tls-secret is in a cluster, but --snapshot FILE uses no cluster; \
             pass the certificate as files with --tls-dir DIR"
        ),
        (None, None, _) => bail!("there is no certificate to serve with; pass --tls-secret NS/NAME or --tls-dir DIR"),
    }
    Ok(())
}

/// What the webhook reads from a cluster, for as long as this exists.
struct Cluster {
    client: kube::Client,
    /// Mullion's own namespace.
    namespace: String,
    /// The watches of the cluster snapshot.
    live: Arc<live::LiveSnapshot>,
    /// The watch of ConfigMap `mullion-state`.
    follower: StateFollower,
}

impl Cluster {
    /// Starts the watches.
    fn connect(args: &WebhookArgs) -> anyhow::Result<Self> {
        let client = connect::client(args.kubeconfig.as_deref());
        let client = client.context("no cluster to watch (--snapshot FILE needs none)")?;
        let namespace = namespace(args, &client);
        let follower = follow(client.clone(), &namespace, true);
        let live = Arc::new(live::LiveSnapshot::start(client.clone(), follower.state.clone()));
        Ok(Self { client, namespace, live, follower })
    }

    /// The state with the snapshot of the cluster.
    fn state(&self) -> WebhookState {
        let synced = Arc::new(AtomicBool::new(false));
        let (waiter, flag) = (Arc::clone(&self.live), Arc::clone(&synced));
        tokio::spawn(async move {
            waiter.synced().await;
            flag.store(true, Ordering::Release);
        });
        let mut state = WebhookState::new(Arc::clone(&self.live.snapshot), synced, PolicySet::built_in());
        state.mullion_state = Some(self.follower.state.clone());
        state.namespace = Some(self.namespace.clone());
        state.namespaces = Some(NamespaceLookups::of(self.client.clone()));
        state
    }
}

/// Mullion's own namespace: that of `--namespace`, else that of its certificate, else that of the client.
fn namespace(args: &WebhookArgs, client: &kube::Client) -> String {
    let of_secret = args.tls_secret.as_ref().map(|secret| &secret.namespace);
    args.namespace.as_ref().or(of_secret).map_or_else(|| client.default_namespace(), String::as_str).to_owned()
}

fn read_snapshot(path: &Path) -> anyhow::Result<ClusterSnapshot> {
    let name = path.display().to_string();
    let bytes =
        std::fs::read(path).with_context(|| format!("{name}: cannot read the cluster snapshot file of --snapshot"))?;
    dump::from_text(&name, &bytes).map_err(|problem| anyhow!("{problem}"))
}

/// The policies of `--policies`, in force in `state`, and the source of later ones; `None` without directories.
async fn policies(
    args: &WebhookArgs,
    state: &WebhookState,
    cluster: Option<&Cluster>,
) -> anyhow::Result<Option<PolicyFileReader>> {
    if args.policies.is_empty() {
        return Ok(None);
    }
    let earlier = async {
        match cluster {
            Some(cluster) => last_good(cluster.client.clone(), &cluster.namespace).await,
            None => Ok(Vec::new()),
        }
    };
    let reporter = &state.policy_reporter;
    let (set, source) = load_at_start(args.policies.clone(), args.reload_interval, earlier, reporter).await?;
    reload::in_force(state, &set);
    Ok(Some(source))
}

/// Returns when the server must stop accepting connections: immediately on SIGINT (a person waits) or a second signal,
/// else `delay` after SIGTERM. The server is not ready meanwhile.
async fn stop_requested(mut signals: Signals, state: &WebhookState, delay: Duration) {
    let request = signals.next().await;
    state.draining.store(true, Ordering::Release);
    if request == StopRequest::Terminate {
        tracing::info!(seconds = delay.as_secs_f64(), "stopping; connections are still accepted for the drain delay");
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = signals.next() => {}
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::mpsc;
    use std::{fs, io, thread};

    use clap::{Args as _, FromArgMatches as _};
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::server::tls::install_crypto;

    /// Far longer than any response takes: it only limits a failing test.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The status line of the response.
    fn get(admin: SocketAddr, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(admin)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response.lines().next().unwrap_or_default().to_owned())
    }

    /// The runtime of the webhook has one thread here. Nothing that runs in it makes progress while a task blocks that
    /// thread, and the task ends only after the admin port has responded.
    #[test]
    fn the_admin_port_responds_while_the_threads_of_the_runtime_are_blocked() {
        install_crypto();
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["mullion-webhook".to_owned()]).unwrap().self_signed(&key).unwrap();
        fs::write(dir.path().join("tls.crt"), certificate.pem()).unwrap();
        fs::write(dir.path().join("tls.key"), key.serialize_pem()).unwrap();
        fs::write(dir.path().join("snapshot.json"), r#"{"kind": "NodeList", "items": []}"#).unwrap();
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [bind, admin] = free.each_ref().map(|listener| listener.local_addr().unwrap());
        drop(free);
        let at = |name: &str| dir.path().join(name).display().to_string();
        let (tls, snapshot) = (at(""), at("snapshot.json"));
        let (bind, admin_bind) = (bind.to_string(), admin.to_string());
        let flags = ["--bind", &bind, "--admin-bind", &admin_bind, "--tls-dir", &tls, "--snapshot", &snapshot];
        let command = WebhookArgs::augment_args(clap::Command::new("webhook").no_binary_name(true));
        let args = WebhookArgs::from_arg_matches(&command.try_get_matches_from(flags).unwrap()).unwrap();

        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let webhook = runtime.spawn(async move { start(&args, AddressRule::of).await });
        while get(admin, "/readyz").is_err() {
            assert!(!webhook.is_finished(), "{:?}", runtime.block_on(webhook));
            thread::sleep(Duration::from_millis(5));
        }
        let (blocked, is_blocked) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let blocking = runtime.spawn(async move {
            blocked.send(()).unwrap();
            // Until `release` is dropped.
            assert!(released.recv().is_err());
        });
        is_blocked.recv().unwrap();
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(get(admin, path).unwrap(), "HTTP/1.1 200 OK", "{path}");
        }
        assert!(!blocking.is_finished());
        drop(release);
        runtime.shutdown_background();
    }
}
