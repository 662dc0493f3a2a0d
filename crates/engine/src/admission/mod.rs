//! From a request to a review, and from a review to the response at an endpoint.
//!
//! [`review::review`] and [`response::respond`] are total and synchronous. One table, [`finding_outcome`], decides the
//! outcome of a finding. Imports every other top-level module but `node`; no other imports it.

pub(crate) mod finding_outcome;
mod not_reviewed;
mod pod_preview;
mod pre_existing;
mod request_category;
mod resize;
mod response;
pub mod review;

pub use finding_outcome::{
    FindingOutcome, denies_its_pods, effective_action, outcome_of, would_be_denied, would_deny_its_pods,
};
pub use not_reviewed::NotReviewed;
pub use pod_preview::{NodeObstacle, PodNodes, find_nodes, review_pods};
pub use request_category::RequestCategory;
pub use response::{
    AUDIT_LIMIT, CountedOutcome, Denial, DenialCause, DenialStatus, ReviewResponse, WARNING_LIMIT, respond,
    respond_in_full,
};
pub use review::{Review, review};

pub use crate::model::Endpoint;
