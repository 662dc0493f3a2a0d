//! The engine as the webhook calls it: one review, one response.

use mullion_engine::admission::response::{Endpoint, ReviewResponse, respond};
use mullion_engine::admission::review::{Review, review as engine_review};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_policy::policy_set::PolicySet;

/// The engine as the webhook asks it: one review, one answer. A seam, so that tests can see what becomes of answers
/// and panics without a workload that provokes them.
pub type Judge = fn(&ReviewRequest<'_>, &ClusterSnapshot, &PolicySet, Endpoint) -> (Review, ReviewResponse);

/// The engine itself.
pub fn engine(
    request: &ReviewRequest<'_>,
    snapshot: &ClusterSnapshot,
    policies: &PolicySet,
    endpoint: Endpoint,
) -> (Review, ReviewResponse) {
    let review = engine_review(request, snapshot, &policies.resolve(request, snapshot));
    let answer = respond(&review, request.workload.object, endpoint);
    (review, answer)
}
