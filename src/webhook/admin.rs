//! Routes of the admin port: those of [every server](crate::server::admin_port), and the policies in force.

use std::fmt;
use std::sync::Arc;

use axum::Router;

use crate::server::{LogLevelChanges, admin_port};
use crate::webhook::state::WebhookState;

/// The routes of the admin port.
pub fn router(state: &Arc<WebhookState>, changes: LogLevelChanges) -> Router {
    let (ready_state, metrics_state) = (Arc::clone(state), Arc::clone(state));
    state.policy_reporter.routes().merge(admin_port::routes(
        changes,
        move || missing(&ready_state),
        move || metrics(&metrics_state),
    ))
}

fn missing(state: &WebhookState) -> Option<String> {
    let missing = state.missing();
    (!missing.is_empty()).then(|| missing.join("; "))
}

fn metrics(state: &WebhookState) -> Result<String, fmt::Error> {
    let text = state.metrics.encode();
    // This comes last, because the counts of a namespace that was created and deleted since the last scrape are only in
    // this text.
    let snapshot = state.snapshot.load();
    if !snapshot.namespaces.is_empty() {
        state.metrics.forget_namespaces(|name| snapshot.namespaces.contains_key(name));
    }
    text
}
