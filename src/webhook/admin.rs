//! The admin port: what [every server](crate::telemetry::admin) has, and the policies in force.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::State as Extract;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::state::State;
use crate::telemetry::admin;

/// The routes of the admin port.
pub fn router(state: Arc<State>) -> Router {
    let (asked, counted) = (Arc::clone(&state), Arc::clone(&state));
    Router::new()
        .route("/policies", get(policies))
        .with_state(state)
        .merge(admin::routes(move || missing(&asked), move || metrics(&counted)))
}

fn missing(state: &State) -> Option<String> {
    let missing = state.missing();
    (!missing.is_empty()).then(|| missing.join("; "))
}

fn metrics(state: &State) -> Result<String, fmt::Error> {
    if let Some(source) = &*state.images.source() {
        state.metrics.registry_answers(source.outcomes());
    }
    let text = state.metrics.encode();
    // Afterwards: of a namespace that came and went since the last time, this is the only word.
    let world = state.world.load();
    if !world.namespaces.is_empty() {
        state.metrics.forget_namespaces(|name| world.namespaces.contains_key(name));
    }
    text
}

/// The content of `/policies`: `hash`, `policies` in force (lowest priority first), `problems` of the files as they
/// are now, `registries` with why none is asked though one should be, `lastGood` as seconds since 1970, `kept` whether
/// they are those of ConfigMap `mullion-state` because the files were bad from the start.
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
        "kept": report.kept,
        "directories": report.directories,
        "policies": in_force,
        "problems": report.problems,
        "registries": report.registries,
    });
    ([(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}
