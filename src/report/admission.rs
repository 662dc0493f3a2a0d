//! The admission of a new object by an API server whose webhook reviews it at both endpoints.

use std::collections::BTreeSet;

use json_patch::PatchOperation;
use mullion_engine::admission::{Denial, Endpoint, Review, ReviewResponse, respond_in_full, review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::{ReviewRequest, WorkloadObject};
use mullion_policy::PolicySet;
use serde_json::Value;

/// The result of the admission of an object.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    /// The review at `/mutate`.
    pub review: Review,
    /// Why the object is not stored.
    pub denial: Option<Denial>,
    /// The webhook's patch.
    pub patch: Vec<PatchOperation>,
    /// The stored object.
    pub stored: Value,
    /// The warnings for the client.
    pub warnings: Vec<String>,
}

impl Admission {
    /// The admission of a new object: `/mutate` reviews the authored object, `/validate` the patched one.
    pub(crate) fn new(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Self {
        let object = request.workload.object;
        let review = review_of(request, snapshot, policies);
        let ReviewResponse { denial, patch, mut warnings, .. } = respond_in_full(&review, object, Endpoint::Mutate);
        if denial.is_some() {
            return Self { review, denial, patch, stored: object.clone(), warnings: unique(warnings) };
        }
        let mut stored = object.clone();
        if json_patch::patch(&mut stored, &patch).is_err() {
            // A patch that cannot be applied leaves the authored object.
            stored = object.clone();
        }
        let workload = WorkloadObject { object: &stored, ..request.workload };
        let second = ReviewRequest { workload, endpoint: Endpoint::Validate, ..*request };
        let second = respond_in_full(&review_of(&second, snapshot, policies), &stored, Endpoint::Validate);
        warnings.extend(second.warnings);
        Self { review, denial: second.denial, patch, stored, warnings: unique(warnings) }
    }
}

/// The review of a request by the policies that apply to it.
pub(crate) fn review_of(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Review {
    review(request, snapshot, &policies.resolve(request, snapshot))
}

/// Removes repeated texts, as the API server does with warnings.
pub(crate) fn unique(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    texts.into_iter().filter(|text| known.insert(text.clone())).collect()
}
