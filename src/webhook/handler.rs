//! Handles an admission call, from the bytes of the request to the bytes of the response.
//!
//! The table lists all responses. Mullion fails open: if a review fails, the pod is admitted.
//!
//! | the request | the response |
//! |---|---|
//! | no AdmissionReview v1: truncated, garbage, foreign, a member missing, a name too long, what is read nested deeper than 127 | 400, text |
//! | waits for memory or a processor until half of its time is over | 429, text |
//! | needs more memory than all reviews together may take, or is not reviewed in time | 503, text |
//! | a kind or operation that Mullion does not review; DELETE and CONNECT | allowed |
//! | CREATE of a node at /mutate | allowed, with the taint and labels that `nodes` adds |
//! | a known kind whose object is missing or no JSON object | allowed, audit annotation `unreadable` |
//! | the review panics | allowed, warning, audit annotation `panicked` |
//! | a ConfigMap with policies at /validate | the response of `policies` |
//! | a probe of the controller | the engine's response, and the marks of `probe` |
//! | lists too long to be read to their end | the engine's response to what was read, and the marks of `partial_review` |
//! | anything else | the engine's response |
//!
//! Failures before all bytes are read (too long, too slow, wrong type) are in the table of [`body`](crate::server::body).

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mullion_engine::admission::{Endpoint, ReviewResponse};
use tokio_util::sync::CancellationToken;

use crate::server::{BadRequest, ReceivedBody, RejectedRequest, RequestClass, RequestDeadline, Reservation};
use crate::webhook::caller::ReviewCaller;
use crate::webhook::envelope::{AdmissionRequest, encode};
use crate::webhook::metrics::RequestDecision;
use crate::webhook::review_memory::ReviewMemory;
use crate::webhook::review_stages::Stages;
use crate::webhook::route::Route;
use crate::webhook::state::WebhookState;
use crate::webhook::workload_review::WorkloadReview;
use crate::webhook::{config_map_review, images, nodes};

/// Returns the response to the AdmissionReview in `body`, which `caller` sent to `endpoint`, before `deadline`: the
/// body of a 200. Never panics. The bytes hold their memory in the pool until they are dropped. Takes microseconds,
/// unless a policy lets it wait for registries, or the object is large or a ConfigMap with policies.
pub async fn handle(
    state: &Arc<WebhookState>,
    endpoint: Endpoint,
    caller: ReviewCaller,
    body: ReceivedBody,
    deadline: RequestDeadline,
) -> Result<Bytes, RejectedRequest> {
    if body.class == RequestClass::Ordinary {
        return respond(state, endpoint, caller, body, deadline, &Stages::Inline).await;
    }
    // This is a task of its own: if the client disconnects, the server drops this future, but the memory stays reserved
    // until the current stage has ended.
    let abandoned = CancellationToken::new();
    let _cancel_when_dropped = abandoned.clone().drop_guard();
    let stages = Stages::Blocking { permits: state.blocking_permits.clone(), deadline, abandoned };
    let state = Arc::clone(state);
    let task = tokio::spawn(async move { respond(&state, endpoint, caller, body, deadline, &stages).await });
    task.await.unwrap_or_else(|_| Err(RejectedRequest::late()))
}

/// bytes → reservation → request → response → bytes.
async fn respond(
    state: &Arc<WebhookState>,
    endpoint: Endpoint,
    caller: ReviewCaller,
    body: ReceivedBody,
    deadline: RequestDeadline,
    stages: &Stages,
) -> Result<Bytes, RejectedRequest> {
    let started = Instant::now();
    let mut reservation = state.memory.review(body.class);
    let (bytes, all) = (body.bytes.clone(), reservation.all_bytes());
    let snapshot = state.snapshot.load_full();
    let memory =
        stages.run(move || ReviewMemory::of(&bytes, all, &snapshot)).await?.map_err(|error| malformed(&error))?;
    reservation.grow_to(memory.bytes, deadline.latest_start()).await.map_err(RejectedRequest::unreserved)?;
    let request = stages.run(move || memory.parse(&body.bytes)).await?.map_err(|error| malformed(&error))?;
    let request = Arc::new(request);
    let handled = route(state, endpoint, caller, &request, deadline, stages).await;
    let (state, over) = (Arc::clone(state), stages.is_over());
    let finish = move || {
        let (decision, response) = handled?;
        if over {
            return Err(RejectedRequest::late());
        }
        let bytes = encode(&response, &request).map_err(|error| malformed(&error))?;
        if request.dry_run != Some(true) {
            let snapshot = state.snapshot.load();
            let namespace = request.namespace.as_deref().filter(|name| snapshot.namespaces.contains_key(*name));
            state.metrics.count_outcomes(namespace, &response.outcomes, response.placement);
        }
        state.metrics.reviewed(endpoint, &request, decision, &response.rules, started.elapsed());
        Ok(bytes)
    };
    let response = stages.finish(finish).await??;
    reservation.shrink_to(response.capacity());
    Ok(Bytes::from_owner(ReservedResponse { bytes: response, _reservation: reservation }))
}

/// The response of the part of the program that handles the request.
async fn route(
    state: &Arc<WebhookState>,
    endpoint: Endpoint,
    caller: ReviewCaller,
    request: &Arc<AdmissionRequest>,
    deadline: RequestDeadline,
    stages: &Stages,
) -> Result<(RequestDecision, ReviewResponse), RejectedRequest> {
    let now = tokio::time::Instant::now();
    let left = deadline.end().saturating_duration_since(now);
    Ok(match Route::of(endpoint, request) {
        Route::Workload(kind, operation) => {
            let review = WorkloadReview::new(state, endpoint, caller, request, kind, operation);
            review.run(now + images::wait_limit(left), stages).await?
        }
        Route::NodeCreate => nodes::review(state, request),
        // Boxed, because otherwise the future of every request would contain this one, and few requests need it.
        Route::PolicyConfigMap => Box::pin(config_map_review::review(state, request, left)).await,
        Route::Skip => (RequestDecision::Skipped, ReviewResponse::default()),
    })
}

fn malformed(error: &impl ToString) -> RejectedRequest {
    RejectedRequest::new(BadRequest::Malformed, error.to_string())
}

/// The bytes of a response, and their memory.
struct ReservedResponse {
    bytes: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for ReservedResponse {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
