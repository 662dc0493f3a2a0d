//! The accept loop. No client can delay another.
//!
//! This is not `axum::serve`, because a TLS handshake inside `accept` would let one unresponsive client block all
//! others.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::server::connection::ConnectionServer;
use crate::server::connection_limits::ConnectionLimits;
use crate::server::metrics::ServerMetrics;
use crate::server::open_connections::OpenConnections;
use crate::server::tls::install_crypto;
use crate::telemetry::{LogArgs, logs};

/// The pause between two searches for overdue connections. The time limits are 10 s and more, and a search takes
/// microseconds.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(1);

/// Binds `address`, which `flag` sets.
pub(crate) async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}; choose another address with {flag}"))
}

/// Runs a server program: sets up logs and cryptography, and runs `program` in a runtime with all drivers.
pub(crate) fn run_to_end(
    log: &LogArgs,
    runtime: &mut Builder,
    program: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    logs::init(log);
    install_crypto();
    let runtime = runtime.enable_all().build().context("cannot start the async runtime")?;
    let ended = runtime.block_on(program);
    // A read that hangs in its file system cannot be stopped.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

/// Serves `router` on `listener`, with TLS if there is a configuration for it, until `stop` is canceled; then lets
/// pending requests finish, up to [`ConnectionLimits::drain`]. Errors of clients and of `accept` never end it.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    limits: ConnectionLimits,
    metrics: ServerMetrics,
    stop: CancellationToken,
) {
    let drain = limits.drain;
    let open = OpenConnections::new(limits.clone());
    let accept = Accept { listener, open: Arc::clone(&open), backoff: limits.accept_backoff, metrics: metrics.clone() };
    let server = Arc::new(ConnectionServer::new(tls, router, limits, metrics, stop.clone()));
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = accept.connections(&server) => {}
        () = close_overdue(&open) => {}
    }
    drop(accept);
    if timeout(drain, open.none_left()).await.is_err() {
        tracing::warn!("some connections did not finish in time; dropping them");
    }
}

struct Accept {
    listener: TcpListener,
    open: Arc<OpenConnections>,
    backoff: Duration,
    metrics: ServerMetrics,
}

impl Accept {
    /// Accepts connections, forever. While no slot is free and none can be freed, clients wait in the kernel's queue.
    async fn connections(&self, server: &Arc<ConnectionServer>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let connection = self.open.open(peer.ip()).await;
                    let server = Arc::clone(server);
                    tokio::spawn(async move { server.serve(stream, peer, connection).await });
                }
                // The client closed the connection; no pause is necessary.
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    // Most often because file descriptors ran out.
                    self.metrics.accept_errors.inc();
                    tracing::warn!(%error, "cannot accept connections now; trying again");
                    sleep(self.backoff).await;
                }
            }
        }
    }
}

async fn close_overdue(open: &OpenConnections) {
    let mut interval = interval(OVERDUE_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        open.close_overdue(Instant::now());
    }
}

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
