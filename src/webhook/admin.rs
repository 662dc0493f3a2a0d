//! The admin port: what [every server](crate::server::admin) has, and the policies in force.

use std::fmt;
use std::sync::Arc;

use axum::Router;

use crate::server::admin;
use crate::webhook::state::State;

/// The routes of the admin port.
pub fn router(state: &Arc<State>) -> Router {
    let (asked, counted) = (Arc::clone(state), Arc::clone(state));
    state.policy_reporter.routes().merge(admin::routes(move || missing(&asked), move || metrics(&counted)))
}

fn missing(state: &State) -> Option<String> {
    let missing = state.missing();
    (!missing.is_empty()).then(|| missing.join("; "))
}

fn metrics(state: &State) -> Result<String, fmt::Error> {
    if let Some(source) = state.images.source() {
        state.metrics.registry_answers(source.outcomes());
    }
    let text = state.metrics.encode();
    // Afterwards: of a namespace that came and went since the last time, this is the only word.
    let snapshot = state.snapshot.load();
    if !snapshot.namespaces.is_empty() {
        state.metrics.forget_namespaces(|name| snapshot.namespaces.contains_key(name));
    }
    text
}
