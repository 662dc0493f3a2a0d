//! Serves one connection, from the TLS handshake to the end.

use std::convert::Infallible;
use std::fmt::Display;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::server::admin_port::Peer;
use crate::server::connection_limits::ConnectionLimits;
use crate::server::metrics::ServerMetrics;
use crate::server::open_connections::OpenConnection;
use crate::server::response_end::{TrackedBody, TrackedStream};
use crate::server::tls::VerifiedClient;

/// The maximum number of bytes that hyper reads ahead, and so the longest head of a request: 8 KiB, hyper's minimum.
/// The head of an API server's request has less than 1 KiB. A TLS connection takes 22 KiB if it was never used, and 32
/// KiB with a part of a head or after a review: 24 MiB for all slots.
const READ_BUFFER: usize = 8 << 10;
/// The maximum number of bytes of responses that rustls keeps for a client that reads slowly: one TLS record.
const TLS_BUFFER: usize = 16 << 10;

/// The state that all connections of one port share.
pub(crate) struct ConnectionServer {
    tls: Option<TlsAcceptor>,
    router: Router,
    http: http1::Builder,
    limits: ConnectionLimits,
    metrics: ServerMetrics,
    stop: CancellationToken,
}

impl ConnectionServer {
    /// Serves `router`, with TLS if there is a configuration for it. Once `stop` is canceled, connections end as soon
    /// as no request is pending.
    pub(crate) fn new(
        tls: Option<Arc<ServerConfig>>,
        router: Router,
        limits: ConnectionLimits,
        metrics: ServerMetrics,
        stop: CancellationToken,
    ) -> Self {
        let mut http = http1::Builder::new();
        // `OpenConnections` limits the time of a head, together with the time before it.
        http.header_read_timeout(None).max_buf_size(READ_BUFFER);
        Self { tls: tls.map(TlsAcceptor::from), router, http, limits, metrics, stop }
    }

    /// Serves one connection.
    pub(crate) async fn serve(&self, stream: TcpStream, peer: SocketAddr, connection: OpenConnection) {
        let _count = self.metrics.connection();
        // Small responses must not wait for acknowledgments. This fails only if the connection is closed.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let connection = Arc::new(connection);
        let Some(tls) = &self.tls else {
            // The admin port checks the address of the client: see `server::admin_port`.
            let router = self.router.clone().layer(Extension(Peer(peer)));
            return self.serve_http(router, stream, peer, &connection).await;
        };
        let handshake = tokio::select! {
            biased;
            handshake = timeout(self.limits.handshake, tls.accept(stream)) => handshake,
            () = connection.close_requested() => return self.count_close(peer, &connection),
        };
        match handshake {
            Ok(Ok(mut stream)) => {
                stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER));
                let router = match stream.get_ref().1.peer_certificates() {
                    Some(_) => self.router.clone().layer(Extension(VerifiedClient)),
                    None => self.router.clone(),
                };
                self.serve_http(router, stream, peer, &connection).await;
            }
            Ok(Err(error)) => self.count_failed_handshake(peer, &error),
            Err(_) => self.count_failed_handshake(peer, &"it took too long"),
        }
    }

    async fn serve_http<S>(&self, router: Router, stream: S, peer: SocketAddr, connection: &Arc<OpenConnection>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(TrackedStream::new(stream, Arc::clone(connection)));
        let service = service_fn(|request| answer(router.clone(), request, Arc::clone(connection)));
        let mut http = pin!(self.http.serve_connection(stream, service));
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                ended = http.as_mut() => return log_end(ended),
                () = connection.close_requested() => {
                    // A request that has arrived, but that the runtime has not read yet, comes first: `yield_now` lets
                    // the runtime poll its sockets.
                    tokio::select! {
                        biased;
                        ended = http.as_mut() => return log_end(ended),
                        () = yield_now() => {}
                    }
                    // Whether a request is pending changes only when `http` is polled, so it does not change from here
                    // to the end.
                    if connection.reason_to_end().is_some() {
                        return self.count_close(peer, connection);
                    }
                    http.as_mut().graceful_shutdown();
                }
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    http.as_mut().graceful_shutdown();
                }
            }
        }
    }

    fn count_close(&self, peer: SocketAddr, connection: &OpenConnection) {
        if let Some(reason) = connection.reason_to_end() {
            self.metrics.connections_closed.get_or_create(&reason).inc();
            // Only at debug, because other clients decide how often it happens.
            tracing::debug!(%peer, reason = reason.name(), "closed a connection");
        }
    }

    fn count_failed_handshake(&self, peer: SocketAddr, error: &dyn Display) {
        self.metrics.tls_handshake_failures.inc();
        // Only at debug, because every port scan and TCP health check causes one.
        tracing::debug!(%peer, %error, "TLS handshake failed");
    }
}

/// Handles one request, and records when it begins and when its response begins.
async fn answer(
    router: Router,
    request: Request<Incoming>,
    connection: Arc<OpenConnection>,
) -> Result<Response<TrackedBody>, Infallible> {
    connection.begin_request();
    let mut response = router.oneshot(request).await?;
    if connection.begin_response(Instant::now()) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| TrackedBody::new(body, connection)))
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::trace!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::time::Duration;

    use axum::body::Bytes;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::server::metrics::ConnectionClose;
    use crate::server::open_connections::OpenConnections;

    const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nping";

    fn peer() -> SocketAddr {
        ([192, 0, 2, 1], 40000).into()
    }

    /// One connection over memory, with the body of the request as response.
    struct Echo {
        all: Arc<OpenConnections>,
        client: DuplexStream,
        metrics: ServerMetrics,
        stop: CancellationToken,
        task: JoinHandle<()>,
    }

    impl Echo {
        async fn start(limits: ConnectionLimits) -> Self {
            let (metrics, stop) = (ServerMetrics::default(), CancellationToken::new());
            let all = OpenConnections::new(limits.clone());
            let router = Router::new().route("/", post(async |body: Bytes| body));
            let server = ConnectionServer::new(None, router.clone(), limits, metrics.clone(), stop.clone());
            // Two requests of the test fit, and no response that is not read.
            let (client, stream) = duplex(128);
            let connection = Arc::new(all.open(peer().ip()).await);
            let task = tokio::spawn(async move { server.serve_http(router, stream, peer(), &connection).await });
            let mut echo = Self { all, client, metrics, stop, task };
            echo.runs().await;
            echo
        }

        /// Lets the server do everything that it can do now.
        async fn runs(&mut self) {
            for _ in 0..16 {
                yield_now().await;
            }
        }

        async fn request(&mut self) -> String {
            self.client.write_all(REQUEST).await.unwrap();
            self.response().await
        }

        async fn response(&mut self) -> String {
            let mut text = String::new();
            while !text.ends_with("ping") {
                let mut part = [0; 64];
                let length = self.client.read(&mut part).await.unwrap();
                assert!(length > 0, "it ended after {text:?}");
                text.push_str(std::str::from_utf8(part.get(..length).unwrap()).unwrap());
            }
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
            text
        }

        /// The rest of what the server sends.
        async fn rest(&mut self) -> String {
            let mut text = String::new();
            self.client.read_to_string(&mut text).await.unwrap();
            text
        }

        /// A new client that finds no free slot.
        async fn replaced(&self) {
            drop(self.all.open(peer().ip()).await);
        }

        fn closed(&self, reason: ConnectionClose) -> bool {
            self.metrics.connections_closed.get_or_create(&reason).get() == 1
        }
    }

    fn one_slot() -> ConnectionLimits {
        ConnectionLimits { connections: 1, ..ConnectionLimits::default() }
    }

    fn is_last(response: &str) -> bool {
        response.contains("connection: close\r\n")
    }

    #[tokio::test(start_paused = true)]
    async fn unused_and_idle_connections_make_room() {
        for requests in 0..3 {
            let mut echo = Echo::start(one_slot()).await;
            for _ in 0..requests {
                assert!(!is_last(&echo.request().await));
            }
            echo.replaced().await;
            assert_eq!(echo.rest().await, "");
            (&mut echo.task).await.unwrap();
            assert!(echo.closed(ConnectionClose::NoSlot));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_of_a_head_makes_room() {
        let mut echo = Echo::start(one_slot()).await;
        echo.client.write_all(&REQUEST[..20]).await.unwrap();
        echo.runs().await;
        echo.replaced().await;
        assert_eq!(echo.rest().await, "");
        assert!(echo.closed(ConnectionClose::NoSlot));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_arrives_when_its_connection_is_chosen_is_answered() {
        for requests_before in 0..3 {
            let mut echo = Echo::start(one_slot()).await;
            for _ in 0..requests_before {
                echo.request().await;
            }
            // The server runs neither between these two lines nor before the new client has chosen its connection.
            echo.client.write_all(REQUEST).await.unwrap();
            let all = Arc::clone(&echo.all);
            let (response, second) = tokio::join!(echo.response(), all.open(peer().ip()));
            assert!(is_last(&response), "{response}");
            assert_eq!(echo.rest().await, "");
            drop(second);
            assert!(!echo.closed(ConnectionClose::NoSlot));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_under_way_is_answered_before_a_new_client() {
        let mut echo = Echo::start(one_slot()).await;
        let (head, body) = REQUEST.split_at(REQUEST.len() - 2);
        echo.client.write_all(head).await.unwrap();
        echo.runs().await;
        let all = Arc::clone(&echo.all);
        let answered = async {
            echo.runs().await;
            echo.client.write_all(body).await.unwrap();
            echo.response().await
        };
        let (response, second) = tokio::join!(answered, all.open(peer().ip()));
        assert!(!is_last(&response), "it was chosen after the response: {response}");
        drop(second);
        assert_eq!(echo.rest().await, "");
        assert!(echo.closed(ConnectionClose::NoSlot));
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_is_not_read_ends() {
        let limits = ConnectionLimits { age: Duration::from_secs(3600), ..one_slot() };
        let mut echo = Echo::start(limits).await;
        let long = "x".repeat(4096);
        let request = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{long}", long.len());
        echo.client.write_all(request.as_bytes()).await.unwrap();
        echo.runs().await;
        tokio::time::advance(Duration::from_secs(29)).await;
        echo.all.close_overdue(Instant::now());
        echo.runs().await;
        assert!(!echo.task.is_finished());
        tokio::time::advance(Duration::from_secs(1)).await;
        echo.all.close_overdue(Instant::now());
        echo.runs().await;
        assert!(echo.task.is_finished() && echo.closed(ConnectionClose::UnreadResponse));
        assert!(echo.rest().await.len() < long.len());
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_connection_ends_with_its_next_response() {
        let mut echo = Echo::start(one_slot()).await;
        tokio::time::advance(Duration::from_secs(299)).await;
        assert!(!is_last(&echo.request().await));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(is_last(&echo.request().await));
        assert_eq!(echo.rest().await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_lets_the_request_under_way_finish() {
        let mut echo = Echo::start(one_slot()).await;
        let (head, body) = REQUEST.split_at(REQUEST.len() - 2);
        echo.client.write_all(head).await.unwrap();
        echo.runs().await;
        echo.stop.cancel();
        echo.runs().await;
        echo.client.write_all(body).await.unwrap();
        echo.response().await;
        assert_eq!(echo.rest().await, "");

        let mut idle = Echo::start(one_slot()).await;
        idle.request().await;
        idle.stop.cancel();
        assert_eq!(idle.rest().await, "");
    }
}
