//! What the webhook does with files that changed under it: policies and the certificate.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mullion_policy::policy_set::PolicySet;
use mullion_policy::store::PolicyReading;
use tokio_util::sync::CancellationToken;

use crate::policy_files::reload::{Source, every, read};
use crate::server::tls::certificate::Certificate;
use crate::webhook::state::WebhookState;

/// Puts the policies in force that came of a reading at `now`, in seconds since 1970. After a bad one, those before stay.
pub fn policies_once(state: &WebhookState, reading: &PolicyReading, now: i64) {
    if let PolicyReading::Loaded(set) = reading {
        in_force(state, set);
    } else {
        // A file that the RegistryPolicy names may have come since.
        ask_registries(state, &state.policies.load(), || ());
    }
    state.policy_reporter.record(reading, now);
}

/// Puts policies in force for reviews. A review that has begun ends with those before.
pub fn in_force(state: &WebhookState, set: &Arc<PolicySet>) {
    ask_registries(state, set, || state.policies.store(Arc::clone(set)));
}

/// Has registries asked as these policies say once `put` has put them in force, and says why that is not possible, if it
/// is not.
fn ask_registries(state: &WebhookState, policies: &PolicySet, put: impl FnOnce()) {
    let problem = state.images.follow(policies, put).err().map(|error| format!("{error:#}"));
    if state.policy_reporter.set_registries(problem.as_deref())
        && let Some(problem) = problem
    {
        state.metrics.registries_unasked(&problem);
    }
}

/// Reads the policies every `interval` until `stop` is cancelled.
pub async fn policies(state: Arc<WebhookState>, mut source: Source, interval: Duration, stop: CancellationToken) {
    every(interval, stop, "the policy files", move || {
        policies_once(&state, &read(&mut source), jiff::Timestamp::now().as_second());
    })
    .await;
}

/// Reads the certificate in `dir` every `interval` until `stop` is cancelled; `seen` is the content it was loaded from.
pub async fn certificate(
    state: Arc<WebhookState>,
    certificate: Arc<Certificate>,
    dir: PathBuf,
    mut seen: u64,
    interval: Duration,
    stop: CancellationToken,
) {
    every(interval, stop, "the certificate files", move || seen = certificate.reload(&dir, seen, &state.metrics)).await;
}
