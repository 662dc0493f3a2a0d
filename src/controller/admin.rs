//! The controller's admin port: health, readiness, metrics. Plain HTTP, nothing secret, nothing written.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::sync::watch;

use super::metrics::Metrics;
use crate::telemetry::METRICS_CONTENT_TYPE;

/// The routes; `ready` turns true once every watch has been read once.
pub fn router(metrics: Metrics, ready: watch::Receiver<bool>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(async move || readiness(*ready.borrow())))
        .route("/metrics", get(async move || text(&metrics)))
}

fn readiness(ready: bool) -> Response {
    if ready {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready: the cluster has not been read yet\n").into_response()
    }
}

fn text(metrics: &Metrics) -> Response {
    match metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn ready_once_the_cluster_has_been_read() {
        let (say_ready, ready) = watch::channel(false);
        let router = router(Metrics::new(), ready);
        let get = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            let status = response.status().as_u16();
            (status, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
        };
        assert_eq!(get("/healthz").await.0, 200);
        assert_eq!(get("/readyz").await.0, 503);
        say_ready.send_replace(true);
        assert_eq!(get("/readyz").await, (200, "ok\n".to_owned()));
        assert!(get("/metrics").await.1.ends_with("# EOF\n"));
        assert_eq!(get("/policies").await.0, 404);
    }
}
