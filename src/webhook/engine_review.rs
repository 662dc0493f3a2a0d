//! The engine as the webhook calls it: one review, one response.

use mullion_engine::admission::response::{Endpoint, ReviewResponse, respond};
use mullion_engine::admission::review::{Review, review as engine_review};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_policy::policy_set::PolicySet;

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
