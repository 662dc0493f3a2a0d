//! The caller of a review, from its connection.

use std::time::Instant;

use axum::http::Extensions;

use crate::server::tls::VerifiedClient;
use crate::telemetry::LogLimit;
use crate::webhook::state::WebhookState;

static UNKNOWN_CALLER_LOG: LogLimit = LogLimit::new();

/// The caller of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewCaller {
    /// The API server: it has presented a trusted certificate, or the webhook requires none.
    ApiServer,
    /// A client without a certificate, although the webhook requests one. It gets a review without the use of pull
    /// secrets, because it could specify a pod with those of any namespace.
    Unknown,
}

impl ReviewCaller {
    /// The caller of a request with these extensions.
    pub(crate) fn of(state: &WebhookState, extensions: &Extensions) -> Self {
        if state.client_ca.is_none() || extensions.get::<VerifiedClient>().is_some() {
            return Self::ApiServer;
        }
        state.metrics.requests.unknown_callers.inc();
        // It can be an API server that sends no certificate.
        if let Some(omitted) = UNKNOWN_CALLER_LOG.pass(Instant::now()) {
            let text = "a caller showed no client certificate, so no pull secrets are used for it";
            tracing::warn!(not_logged_since_the_last = omitted, "{text}");
        }
        Self::Unknown
    }
}
