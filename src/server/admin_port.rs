//! Routes of the admin port of both servers. It serves plain HTTP without secrets. Only the log level can be changed,
//! and only from inside the pod.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::time::timeout;

use crate::telemetry::logs;

/// The content type of `/metrics`: `OpenMetrics` text, not the older Prometheus format.
const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The longest body of `PUT /log-level`, in bytes.
const MAX_LEVEL: usize = 1024;
/// The time limit of that body.
const PATIENCE: Duration = Duration::from_secs(5);

/// The response to `PUT /log-level` if changes are disabled.
const FIXED: &str = "mullion: the log level is fixed by --fixed-log-level, because every process of the node reaches this port; \
    start the webhook with another --log-level (chart value webhook.log)\n";

/// The client's address: an extension of every request on the admin port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub SocketAddr);

/// The clients that may change the log level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevelChanges {
    /// Clients inside the pod.
    FromPod,
    /// No client: `--fixed-log-level`. On the network of a node, every process of the node would count as inside.
    Never,
}

/// `/healthz`, `/readyz`, `/metrics` and `/log-level`. `missing` returns what readiness waits for, if anything;
/// `metrics` returns the text.
pub(crate) fn routes(
    changes: LogLevelChanges,
    missing: impl Fn() -> Option<String> + Clone + Send + Sync + 'static,
    metrics: impl Fn() -> Result<String, fmt::Error> + Clone + Send + Sync + 'static,
) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(async move || readiness(missing())))
        .route("/metrics", get(async move || text(metrics())))
        .route(
            "/log-level",
            match changes {
                LogLevelChanges::FromPod => get(level).put(set_level),
                LogLevelChanges::Never => get(level).put(async || (StatusCode::FORBIDDEN, FIXED)),
            },
        )
}

fn readiness(missing: Option<String>) -> Response {
    match missing {
        None => "ok\n".into_response(),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {missing}\n")).into_response(),
    }
}

fn text(metrics: Result<String, fmt::Error>) -> Response {
    match metrics {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn level() -> Response {
    level_response(logs::level())
}

/// Sets a level, or directives: `curl -X PUT --data debug http://localhost:8080/log-level`.
async fn set_level(request: Request) -> Response {
    // Every pod in the cluster reaches this port; `kubectl port-forward` and `kubectl exec` come from inside the pod.
    let here = request.extensions().get::<Peer>().is_some_and(|Peer(peer)| peer.ip().to_canonical().is_loopback());
    if !here {
        let why = "mullion: the log level can be changed only from inside the pod: run kubectl port-forward to the admin port, \
                   then PUT to it on localhost\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let Ok(body) = timeout(PATIENCE, axum::body::to_bytes(request.into_body(), MAX_LEVEL)).await else {
        return (StatusCode::REQUEST_TIMEOUT, "mullion: the body did not arrive in time\n").into_response();
    };
    let Ok(body) = body else {
        let why = format!("mullion: expected a level or directives of at most {MAX_LEVEL} bytes\n");
        return (StatusCode::PAYLOAD_TOO_LARGE, why).into_response();
    };
    level_response(logs::set_level(&String::from_utf8_lossy(&body)))
}

fn level_response(level: Result<String, logs::BadLevel>) -> Response {
    match level {
        Ok(directives) => format!("{directives}\n").into_response(),
        Err(error @ logs::BadLevel::Unknown(_)) => {
            (StatusCode::BAD_REQUEST, format!("mullion: {error}\n")).into_response()
        }
        Err(error @ logs::BadLevel::Foreign) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("mullion: {error}\n")).into_response()
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use axum::body::Body;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::telemetry::LogArgs;

    async fn send(method: &str, path: &str, peer: Option<&str>, body: impl Into<Body>) -> (u16, String) {
        send_to(LogLevelChanges::FromPod, method, path, peer, body).await
    }

    async fn send_to(
        changes: LogLevelChanges,
        method: &str,
        path: &str,
        peer: Option<&str>,
        body: impl Into<Body>,
    ) -> (u16, String) {
        let router = routes(changes, || Some("this and that".to_owned()), || Ok("# EOF\n".to_owned()));
        let mut request = Request::builder().method(method).uri(path).body(body.into()).unwrap();
        if let Some(peer) = peer {
            request.extensions_mut().insert(Peer(peer.parse().unwrap()));
        }
        let response = router.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        (status, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn both_servers_have_these_routes() {
        let expected = [
            ("/healthz", (200, "ok\n")),
            ("/readyz", (503, "not ready: this and that\n")),
            ("/metrics", (200, "# EOF\n")),
            ("/elsewhere", (404, "")),
        ];
        for (path, (status, text)) in expected {
            assert_eq!(send("GET", path, None, "").await, (status, text.to_owned()), "{path}");
        }
    }

    #[tokio::test]
    async fn the_level_can_be_changed_only_from_inside_the_pod() {
        // One test for all cases: a process has one log.
        logs::init(&LogArgs::default());
        for other in [None, Some("10.1.2.3:4711"), Some("[2001:db8::1]:4711"), Some("[::ffff:10.1.2.3]:4711")] {
            let (status, text) = send("PUT", "/log-level", other, "off").await;
            assert!(status == 403 && text.contains("kubectl port-forward"), "{other:?}: {status} {text}");
        }
        for own in ["127.0.0.1:4711", "127.8.8.8:1", "[::1]:4711", "[::ffff:127.0.0.1]:4711"] {
            let (status, text) = send("PUT", "/log-level", Some(own), "warn").await;
            assert_eq!((status, text.as_str()), (200, "warn,mullion=warn\n"), "{own}");
        }
        let own = Some("127.0.0.1:4711");
        let (_, text) = send("PUT", "/log-level", own, "mullion=error, kube=warn\n").await;
        assert_eq!(text, "mullion=error,kube=warn\n");
        for bad in [&b"loud"[..], b"", b"\xff\xfe", b"mullion=debug,hyper"] {
            let (status, text) = send("PUT", "/log-level", own, bad).await;
            assert!(status == 400 && text.contains("expected off, error"), "{status} {text}");
        }
        let (status, text) = send("PUT", "/log-level", own, "x".repeat(MAX_LEVEL + 1)).await;
        assert!(status == 413 && text.contains("1024 bytes"), "{status} {text}");
        assert_eq!(send("POST", "/log-level", own, "off").await.0, 405);
        let (status, text) = send("GET", "/log-level", None, "").await;
        assert!(status == 200 && text.contains("mullion=error"), "{text}");
        let (status, text) = send_to(LogLevelChanges::Never, "PUT", "/log-level", own, "debug").await;
        assert!(status == 403 && text.contains("fixed by --fixed-log-level"), "{status} {text}");
        let (status, text) = send_to(LogLevelChanges::Never, "GET", "/log-level", own, "").await;
        assert!(status == 200 && text.contains("mullion=error"), "{text}");
    }
}
