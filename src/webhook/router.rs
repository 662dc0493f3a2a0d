//! Routes of the HTTPS port: `POST /mutate` and `POST /validate`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Request, State as Extract};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use mullion_engine::admission::Endpoint;
use tokio::time::Instant;

use crate::server::{BodyLimits, BodyPool, UnreadBody, body};
use crate::telemetry::BadRequest;
use crate::webhook::handler;
use crate::webhook::state::WebhookState;

/// State shared by the routes.
struct Shared {
    state: Arc<WebhookState>,
    limits: BodyLimits,
    pool: BodyPool,
}

/// The routes of the TLS port. Other methods get 405, other paths 404.
pub fn router(state: Arc<WebhookState>, limits: BodyLimits) -> Router {
    let shared = Arc::new(Shared { state, limits, pool: BodyPool::default() });
    Router::new()
        .route("/mutate", post(|shared, request| answer(shared, Endpoint::Mutate, request)))
        .route("/validate", post(|shared, request| answer(shared, Endpoint::Validate, request)))
        .with_state(shared)
}

async fn answer(Extract(shared): Extract<Arc<Shared>>, endpoint: Endpoint, request: Request) -> Response {
    let arrived = Instant::now();
    let (parts, body) = request.into_parts();
    let read = body::read(&parts.headers, parts.uri.query(), body, &shared.limits, &shared.pool).await;
    let outcome = match read {
        Err(unread) => Err(unread),
        Ok((bytes, _share)) => {
            let deadline = arrived + body::budget(parts.uri.query(), &shared.limits);
            let answer = handler::handle(&shared.state, endpoint, &bytes, deadline).await;
            answer.map_err(|error| UnreadBody { reason: BadRequest::Malformed, text: error.to_string(), close: false })
        }
    };
    let (mut response, close) = match outcome {
        Ok(json) => (([(header::CONTENT_TYPE, "application/json")], json).into_response(), false),
        Err(unread) => (error_response(&shared.state, &unread), unread.close),
    };
    // A client that reconnects reaches another replica.
    if close || shared.state.draining.load(Ordering::Acquire) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn error_response(state: &WebhookState, unread: &UnreadBody) -> Response {
    state.metrics.bad_request(unread.reason);
    let status = unread.status();
    let mut response = (status, format!("mullion: {}\n", unread.text)).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
