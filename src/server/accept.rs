//! The accept loop. No client can delay another.
//!
//! Not `axum::serve`: a TLS handshake inside `accept` would let one silent client block all others.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::server::admin_port::Peer;
use crate::server::tls::install_crypto;
use crate::telemetry::{ConnectionGuard, LogArgs, WebhookMetrics, logs};

/// Limits of one connection, and of all together.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Open connections; further clients wait in the kernel's queue. Below 1024, the usual soft limit of descriptors.
    pub connections: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long a connection may be silent, or take for the head of a request. Longer than the 90 s after which Go
    /// drops an idle connection: if it were shorter, the API server would sometimes send into a connection just closed,
    /// and that pod would be admitted without a review.
    pub idle: Duration,
    /// How long requests under way may take after the shutdown began.
    pub drain: Duration,
    /// The pause after `accept` failed because descriptors or memory ran out.
    pub accept_backoff: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 768,
            handshake: Duration::from_secs(5),
            idle: Duration::from_secs(120),
            drain: Duration::from_secs(20),
            accept_backoff: Duration::from_millis(100),
        }
    }
}

impl ConnectionLimits {
    /// The limits of an admin port.
    pub(crate) fn of_admin() -> Self {
        Self { connections: 64, drain: Duration::from_secs(1), ..Self::default() }
    }
}

/// Binds `address`, which `flag` sets.
pub(crate) async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}; choose another address with {flag}"))
}

/// Runs a server program: sets up logs and cryptography, and runs `program` in a runtime.
pub(crate) fn run_to_end(log: &LogArgs, program: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    logs::init(log);
    install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime")?;
    let ended = runtime.block_on(program);
    // A read that hangs in its file system cannot be stopped.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

/// Serves `router` on `listener`, with TLS if there is a configuration for it, until `stop` is cancelled; then lets
/// requests under way finish, up to [`ConnectionLimits::drain`]. Errors of clients and of `accept` never end it.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    limits: ConnectionLimits,
    metrics: WebhookMetrics,
    stop: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let shared = Arc::new(Shared { tls: tls.map(TlsAcceptor::from), router, http: http(&limits), limits, metrics });
    loop {
        let next = async {
            // The semaphore is never closed.
            let slot = Arc::clone(&slots).acquire_owned().await.ok();
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let guard = (slot, shared.metrics.connection());
                tokio::spawn(connection(Arc::clone(&shared), stream, graceful.watcher(), guard));
            }
            // The client closed the connection; no pause is necessary.
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                shared.metrics.accept_failed(&error);
                sleep(shared.limits.accept_backoff).await;
            }
        }
    }
    drop(listener);
    if timeout(shared.limits.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not finish in time; dropping them");
    }
}

struct Shared {
    tls: Option<TlsAcceptor>,
    router: Router,
    http: auto::Builder<TokioExecutor>,
    limits: ConnectionLimits,
    metrics: WebhookMetrics,
}

/// Held for as long as the connection lives.
type Guard = (Option<OwnedSemaphorePermit>, ConnectionGuard);

fn http(limits: &ConnectionLimits) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    // hyper's clock for the head runs between requests as well, so it cannot be shorter than `idle`.
    http.http1().timer(TokioTimer::new()).header_read_timeout(limits.idle).max_buf_size(64 << 10);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10))
        .max_concurrent_streams(64)
        .max_header_list_size(16 << 10);
    http
}

async fn connection(shared: Arc<Shared>, stream: TcpStream, watcher: Watcher, guard: Guard) {
    let _guard = guard;
    // Small responses must not wait for acknowledgements. This fails only if the connection is closed.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let Ok(peer) = stream.peer_addr() else { return };
    let stream = Idle::new(stream, shared.limits.idle);
    let Some(tls) = &shared.tls else {
        // The admin port checks the address of the client: see `server::admin`.
        let router = shared.router.clone().layer(Extension(Peer(peer)));
        return http_connection(&shared, router, stream, watcher).await;
    };
    match timeout(shared.limits.handshake, tls.accept(stream)).await {
        Ok(Ok(stream)) => http_connection(&shared, shared.router.clone(), stream, watcher).await,
        Ok(Err(error)) => shared.metrics.handshake_failed(peer, &error),
        Err(_) => shared.metrics.handshake_failed(peer, &"it took too long"),
    }
}

async fn http_connection<S>(shared: &Shared, router: Router, stream: S, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let connection = shared.http.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::trace!(%error, "connection ended");
    }
}

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// A stream that fails if no byte is read or written for a while. It covers what hyper has no timeout for: the wait for the
/// first byte, an idle HTTP/2 client, a response that the client does not read.
struct Idle<S> {
    stream: S,
    limit: Duration,
    last: Instant,
    // Reset only when it fires: moving a timer costs more than looking at the clock.
    alarm: Pin<Box<Sleep>>,
}

impl<S> Idle<S> {
    fn new(stream: S, limit: Duration) -> Self {
        let last = Instant::now();
        Self { stream, limit, last, alarm: Box::pin(sleep_until(last + limit)) }
    }

    /// Records progress, or fails if there was none for too long.
    fn check<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.last = Instant::now();
            return outcome;
        }
        while self.alarm.as_mut().poll(cx).is_ready() {
            let due = self.last + self.limit;
            if due <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.alarm.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Idle<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.check(cx, outcome)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Idle<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.check(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
