//! The caller of a review, from its connection.

use axum::http::Extensions;

use crate::server::tls::VerifiedClient;
use crate::webhook::state::WebhookState;

/// The caller of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// The API server: it has presented a trusted certificate, or the webhook requires none.
    ApiServer,
    /// A client without a certificate, although the webhook requests one. It gets a review without the use of pull
    /// secrets, because it could specify a pod with those of any namespace.
    Unknown,
}

impl Caller {
    /// The caller of a request with these extensions.
    pub(crate) fn of(state: &WebhookState, extensions: &Extensions) -> Self {
        if state.client_ca.is_none() || extensions.get::<VerifiedClient>().is_some() {
            return Self::ApiServer;
        }
        state.metrics.unknown_caller();
        Self::Unknown
    }
}
