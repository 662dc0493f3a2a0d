//! Reloads of the files of the webhook: policies, certificate, authorities of clients.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mullion_policy::{PolicyReading, PolicySet};
use tokio_util::sync::CancellationToken;

use crate::policy_files::{PolicyFileReader, every, reread};
use crate::server::ServerMetrics;
use crate::server::tls::ClientCa;
use crate::webhook::state::WebhookState;

/// Puts the policies of a reading at `now`, in seconds since 1970, in force. After an invalid reading the earlier
/// policies stay.
pub fn policies_once(state: &WebhookState, reading: &PolicyReading, now: i64) {
    if let PolicyReading::Loaded(set) | PolicyReading::Ended(set) = reading {
        in_force(state, set);
    } else {
        // A file that the RegistryPolicy refers to may exist by now.
        in_force(state, &state.policies.load());
    }
    state.policy_reporter.record(reading, now);
}

/// Puts policies in force for reviews, and reports if the image source that they set cannot be used. A review that has
/// begun ends with the earlier policies.
pub fn in_force(state: &WebhookState, set: &Arc<PolicySet>) {
    let problem = state.policies.replace(set).err().map(|error| format!("{error:#}"));
    if state.policy_reporter.set_registries(problem.as_deref())
        && let Some(problem) = problem
    {
        let text = "no registry is queried until this is corrected; Mullion uses only the names of images";
        tracing::error!(problem, "{text}");
    }
}

/// Reads the policies every `interval` until `stop` is canceled.
pub async fn policies(
    state: Arc<WebhookState>,
    mut source: PolicyFileReader,
    interval: Duration,
    stop: CancellationToken,
) {
    every(interval, stop, "the policy files", move || {
        policies_once(&state, &reread(&mut source), jiff::Timestamp::now().as_second());
    })
    .await;
}

/// Reads the certificate in `dir` every `interval` until `stop` is canceled.
pub async fn certificate(state: Arc<WebhookState>, dir: PathBuf, interval: Duration, stop: CancellationToken) {
    every(interval, stop, "the certificate files", move || {
        state.certificate.reload(&dir, &state.metrics.server);
    })
    .await;
}

/// Reads the authorities of clients at `path` every `interval` until `stop` is canceled.
pub async fn client_ca(
    authorities: Arc<ClientCa>,
    path: PathBuf,
    metrics: ServerMetrics,
    interval: Duration,
    stop: CancellationToken,
) {
    every(interval, stop, "the client authorities", move || {
        authorities.reload(&path, &metrics);
    })
    .await;
}
