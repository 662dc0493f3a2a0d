//! Routes of the HTTPS port: `POST /mutate` and `POST /validate`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Extract};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use mullion_engine::admission::Endpoint;

use crate::server::{BadRequest, BodyLimits, RejectedRequest, RequestDeadline, body};
use crate::telemetry::LogLimit;
use crate::webhook::caller::ReviewCaller;
use crate::webhook::handler;
use crate::webhook::state::WebhookState;

static UNREVIEWED_LOG: LogLimit = LogLimit::new();

/// State shared by the routes.
struct Shared {
    state: Arc<WebhookState>,
    limits: BodyLimits,
}

/// The routes of the TLS port. Other methods get 405, other paths 404.
pub fn router(state: Arc<WebhookState>, limits: BodyLimits) -> Router {
    let shared = Arc::new(Shared { state, limits });
    Router::new()
        .route("/mutate", post(|shared, request| answer(shared, Endpoint::Mutate, request)))
        .route("/validate", post(|shared, request| answer(shared, Endpoint::Validate, request)))
        .with_state(shared)
}

async fn answer(Extract(shared): Extract<Arc<Shared>>, endpoint: Endpoint, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (state, limits) = (&shared.state, &shared.limits);
    let caller = ReviewCaller::of(state, &parts.extensions);
    let deadline = RequestDeadline::of_query(parts.uri.query(), limits);
    let outcome = match body::read_body(&parts.headers, body, &deadline, limits, &state.memory).await {
        Ok(body) => handler::handle(state, endpoint, caller, body, deadline).await,
        Err(rejected) => Err(rejected),
    };
    let (mut response, close) = match outcome {
        Ok(json) => (([(header::CONTENT_TYPE, "application/json")], Body::from(json)).into_response(), false),
        Err(rejected) => (error_response(state, &rejected), rejected.close),
    };
    // A client that reconnects may reach another replica.
    if close || state.draining.load(Ordering::Acquire) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Counts and logs a request that was not reviewed; a well-formed one at warn. The text is sent only to the client,
/// because it quotes the body.
fn error_response(state: &WebhookState, rejected: &RejectedRequest) -> Response {
    state.metrics.requests.bad_requests.get_or_create(&rejected.reason).inc();
    let reason = rejected.reason.name();
    match rejected.reason {
        BadRequest::Busy | BadRequest::TooComplex | BadRequest::Late => {
            if let Some(omitted) = UNREVIEWED_LOG.pass(Instant::now()) {
                let text = "a request was not reviewed; the API server applies its failurePolicy";
                tracing::warn!(reason, not_logged_since_the_last = omitted, "{text}");
            }
        }
        _ => tracing::debug!(reason, "malformed request"),
    }
    (rejected.status(), format!("mullion: {}\n", rejected.text)).into_response()
}
