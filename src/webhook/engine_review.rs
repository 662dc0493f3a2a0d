//! The engine as the webhook calls it: one review, one response.

use mullion_engine::admission::{Endpoint, Review, ReviewResponse, respond, review as engine_review};
use mullion_engine::model::ReviewRequest;
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_policy::PolicySet;

/// A review and its response. A type, so that tests can replace the engine by one that panics, without a workload that
/// causes a panic.
pub type ReviewFunction = fn(&ReviewRequest<'_>, &ClusterSnapshot, &PolicySet, Endpoint) -> (Review, ReviewResponse);

/// Reviews a request with the engine.
pub fn review_and_respond(
    request: &ReviewRequest<'_>,
    snapshot: &ClusterSnapshot,
    policies: &PolicySet,
    endpoint: Endpoint,
) -> (Review, ReviewResponse) {
    let review = engine_review(request, snapshot, &policies.resolve(request, snapshot));
    let response = respond(&review, request.workload.object, endpoint);
    (review, response)
}
