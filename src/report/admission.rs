//! What an API server makes of a new object that the webhook reviews at both of its endpoints.

use json_patch::PatchOperation;
use mullion_engine::admission::response::{Denial, Endpoint, ReviewResponse, respond};
use mullion_engine::admission::review::{Review, review};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::workload::WorkloadObject;
use mullion_policy::policy_set::PolicySet;
use serde_json::Value;

use crate::report::unique;

/// What the admission of an object comes to.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Why it is not stored.
    pub denial: Option<Denial>,
    /// The webhook's patch.
    pub patch: Vec<PatchOperation>,
    /// The object as it is stored.
    pub stored: Value,
    /// What whoever creates it reads.
    pub warnings: Vec<String>,
}

impl Admission {
    /// The admission of a new object: `/mutate` sees it as it is written, `/validate` as it is patched.
    pub fn new(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Self {
        let object = request.workload.object;
        let respond_to = |request: &ReviewRequest<'_>, endpoint| {
            respond(&review_of(request, snapshot, policies), request.workload.object, endpoint)
        };
        let ReviewResponse { denial, patch, mut warnings, .. } = respond_to(request, Endpoint::Mutate);
        if denial.is_some() {
            return Self { denial, patch, stored: object.clone(), warnings: unique(warnings) };
        }
        let mut stored = object.clone();
        if json_patch::patch(&mut stored, &patch).is_err() {
            // What cannot be applied leaves the object as its author wrote it.
            stored = object.clone();
        }
        let workload = WorkloadObject { object: &stored, ..request.workload };
        let second = respond_to(&ReviewRequest { workload, at_validate: true, ..*request }, Endpoint::Validate);
        warnings.extend(second.warnings);
        Self { denial: second.denial, patch, stored, warnings: unique(warnings) }
    }
}

/// The review of a request by the policies that apply to it.
pub fn review_of(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Review {
    review(request, snapshot, &policies.resolve(request, snapshot))
}
