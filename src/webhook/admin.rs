//! The admin port: health, readiness, metrics and the policies in force. Plain HTTP, nothing secret, nothing written.

use std::sync::Arc;

use axum::Router;
use axum::extract::State as Extract;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::state::State;
use crate::telemetry::METRICS_CONTENT_TYPE;

/// The routes of the admin port.
pub fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/policies", get(policies))
        .with_state(state)
}

async fn ready(Extract(state): Extract<Arc<State>>) -> Response {
    let missing = state.missing();
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", missing.join("; "))).into_response()
}

async fn metrics(Extract(state): Extract<Arc<State>>) -> Response {
    if let Some(source) = &*state.images.source() {
        state.metrics.registry_answers(source.outcomes());
    }
    match state.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The content of `/policies`: `hash`, `policies` in force (lowest priority first), `problems` of the files as they
/// are now, `registries` with why none is asked though one should be, `lastGood` as seconds since 1970.
async fn policies(Extract(state): Extract<Arc<State>>) -> Response {
    let (policies, report) = (state.policies.load(), state.policy_report.load());
    let in_force: Vec<Value> = policies
        .pods
        .iter()
        .map(|policy| {
            let origin = policy.origins.get("");
            json!({
                "kind": "PodPolicy",
                "name": policy.name,
                "priority": policy.spec.priority,
                "file": origin.map(|origin| origin.file.as_ref()),
                "line": origin.map(|origin| origin.line),
            })
        })
        .collect();
    let body = json!({
        "hash": policies.hash,
        "lastGood": report.last_good,
        "directories": report.directories,
        "policies": in_force,
        "problems": report.problems,
        "registries": report.registries,
    });
    ([(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}
