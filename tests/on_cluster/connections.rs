//! Connections of a real API server: when few slots are free, and which protocols it offers.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::future::try_join_all;
use mullion::server::tls::Certificate;
use mullion::server::{BodyLimits, ConnectionLimits, serve};
use mullion::webhook::{WebhookState, router};
use mullion_cluster::{FailurePolicy, ServingCert, WebhookRegistration, metric};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::PolicySet;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_rustls::LazyConfigAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::shared::*;

/// The label of the namespace, and the name of the configurations.
const MARK: (&str, &str) = ("mullion-test", "connections");
/// Few slots, limits that many connections reach, and the rest as installed.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 64,
    handshake: Duration::from_secs(5),
    idle: Duration::from_secs(120),
    unused: Duration::from_secs(4),
    response: Duration::from_secs(30),
    age: Duration::from_secs(10),
    drain: Duration::from_secs(1),
    accept_backoff: Duration::from_millis(100),
};
/// A bit more than three quarters of the slots.
const MOST_SLOTS: usize = 52;
/// Longer than [`LIMITS`] permits unused connections, and the second until they are detected, and another second in
/// which the API server detects that its spare connections were closed, because Go does not repeat a POST that it
/// writes into a closed one.
const PAUSE: Duration = Duration::from_secs(6);
/// Pods created at the same time, each on a connection of its own.
const BURST: usize = 16;
/// The pause between two connections of a malicious client. Two of them take all slots within 2.5 seconds, which is
/// longer than the API server takes for a handshake on a busy machine; one has 50 connections after the 4 seconds of
/// [`LIMITS`].
const HOSTILE_PAUSE: Duration = Duration::from_millis(80);

/// Bursts of pods with pauses between them: first while two malicious clients take every slot, one from the address of
/// the API server and one from another; then while one holds more than three quarters of the slots. No review is lost.
pub async fn no_review_is_lost_while_slots_are_short(shared: &Shared) -> Result<()> {
    let bursts = if mullion_cluster::soak() { 60 } else { 2 };
    let certificate = ServingCert::for_loopback()?;
    let tls = Certificate::load(certificate.folder())?.server_config(None)?;
    let state = Arc::new(WebhookState::fixed(ClusterSnapshot::default(), PolicySet::built_in()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (routes, stop) = (router::router(Arc::clone(&state), BodyLimits::default()), CancellationToken::new());
    let serving = serve(listener, Some(Arc::new(tls)), routes, LIMITS, state.metrics.server.clone(), stop.clone());
    let serving = tokio::spawn(serving);
    let registration = WebhookRegistration::new(&format!("https://{address}"), certificate.ca_pem())
        .named(MARK.1)
        .namespace_label(MARK.0, MARK.1);
    registration.register(&shared.plane.client()).await?;
    let namespace = shared.plane.namespace_with_labels("connections", &[MARK]).await?;
    wait_until_mullion_is_called(&namespace).await?;

    let number = |series: &str| -> Result<usize> {
        let text = state.metrics.encode()?;
        Ok(metric(&text, series)?.unwrap_or(0))
    };
    let closed = |reason: &str| number(&format!("mullion_connections_closed_total{{reason=\"{reason}\"}}"));
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let all = 2 * LIMITS.connections;
    let mut created = 0;
    for (hostile, reason, least) in [
        (&[(Ipv4Addr::LOCALHOST, all), (other, all)][..], "no_slot", LIMITS.connections),
        (&[(Ipv4Addr::LOCALHOST, MOST_SLOTS)], "unused", 1),
    ] {
        let hostile: Vec<_> = hostile
            .iter()
            .map(|(own, most)| AbortOnDropHandle::new(tokio::spawn(open_connections(*own, address, *most))))
            .collect();
        // On a busy machine, the clients take longer to open as many connections.
        let begun = Instant::now();
        for burst in 0.. {
            sleep(PAUSE).await;
            let pods = (0..BURST).map(|pod| create(format!("p-{burst}-{pod}"), &namespace));
            try_join_all(pods).await.with_context(|| format!("burst {burst}"))?;
            created += BURST;
            let number = closed(reason)?;
            if burst + 1 >= bursts && number >= least {
                break;
            }
            let is_late = begun.elapsed() > DEADLINE && number < least;
            ensure!(!is_late, "slots were not short: {number} connections closed with the reason {reason}");
        }
        ensure!(hostile.iter().all(|client| !client.is_finished()), "a hostile client ended");
    }
    let (no_slot, unused) = (closed("no_slot")?, closed("unused")?);
    eprintln!(
        "connections: {created} pods; {no_slot} connections closed for new clients, {unused} because they were unused"
    );
    registration.remove(&shared.plane.client()).await?;
    stop.cancel();
    serving.await?;
    Ok(())
}

/// For a webhook on another host, as every installed one is, the API server offers HTTP/1.1 and no HTTP/2. For the name
/// `localhost` and for loopback addresses it offers both: `isLocalHost` in k8s.io/apiserver/pkg/util/webhook/client.go.
/// `0.0.0.0` is neither, and Linux connects it to the own host.
pub async fn the_api_server_offers_no_http_2(shared: &Shared) -> Result<()> {
    const MARK: (&str, &str) = ("mullion-test", "protocols");
    let namespace = shared.plane.namespace_with_labels("protocols", &[MARK]).await?;
    for (host, expected) in [("0.0.0.0", &["http/1.1"][..]), ("127.0.0.1", &["h2", "http/1.1"])] {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{host}:{}", listener.local_addr()?.port());
        // No connection is completed, so every call fails.
        let registration = WebhookRegistration::new(&url, ServingCert::for_loopback()?.ca_pem())
            .named(MARK.1)
            .failure_policy(FailurePolicy::Ignore)
            .namespace_label(MARK.0, MARK.1);
        registration.register(&shared.plane.client()).await?;
        let first_offer = async {
            loop {
                let (stream, _) = listener.accept().await?;
                let Ok(hello) = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await else {
                    continue;
                };
                let offered = hello.client_hello().alpn().map(|all| all.map(<[u8]>::to_vec).collect::<Vec<_>>());
                return anyhow::Ok(offered.unwrap_or_default());
            }
        };
        // The API server calls a new webhook only after it has read the configuration.
        let creates = async {
            for number in 0.. {
                let windows =
                    json!({"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}]});
                dry_run(&namespace, &pod(&format!("p-{number}"), windows)).await?;
            }
            anyhow::Ok(())
        };
        let offered = tokio::select! {
            offered = first_offer => offered?,
            ended = creates => return ended,
            () = sleep(DEADLINE) => bail!("the API server never called {url}"),
        };
        let offered: Vec<_> = offered.iter().map(|name| String::from_utf8_lossy(name)).collect();
        ensure!(offered == expected, "{url}: {offered:?}");
        registration.remove(&shared.plane.client()).await?;
    }
    Ok(())
}

/// Creates a pod as a dry run, and fails unless Mullion has placed it.
async fn create(name: String, namespace: &mullion_cluster::TestNamespace) -> Result<()> {
    let windows = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
    let stored = dry_run(namespace, &pod(&name, json!({"containers": [{"name": "c", "image": windows}]}))).await?;
    let selector = &stored["spec"]["nodeSelector"]["kubernetes.io/os"];
    ensure!(*selector == "windows", "the review of {name} was lost: {stored}");
    Ok(())
}

/// Opens connections forever, and closes the oldest when there are `most`: some stay silent, some begin a handshake.
async fn open_connections(own: Ipv4Addr, server: SocketAddr, most: usize) -> Result<()> {
    let mut pause = interval(HOSTILE_PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut open: VecDeque<TcpStream> = VecDeque::new();
    for number in 0.. {
        pause.tick().await;
        let socket = TcpSocket::new_v4()?;
        socket.bind((own, 0).into())?;
        let mut stream = socket.connect(server).await?;
        if number % 2 == 0 {
            // The first bytes of a TLS record with a ClientHello.
            stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.ok();
        }
        open.push_back(stream);
        if open.len() > most {
            open.pop_front();
        }
    }
    Ok(())
}
