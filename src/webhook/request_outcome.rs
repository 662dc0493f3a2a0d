//! The outcome of one request, from which its response, metrics and event are built.

use json_patch::PatchOperation;
use mullion_engine::admission::CountedOutcome;
use mullion_engine::model::Os;
use mullion_engine::model::settings::Lookup;
use mullion_engine::rules::Finding;

use crate::telemetry::RequestDecision;
use crate::webhook::envelope::AdmissionResponse;

/// The outcome of one request.
#[derive(Default)]
pub(crate) struct RequestOutcome {
    pub(crate) decision: RequestDecision,
    pub(crate) response: AdmissionResponse,
    pub(crate) findings: Vec<Finding>,
    /// What is counted, as in [`ReviewResponse`](mullion_engine::admission::ReviewResponse).
    pub(crate) outcomes: Vec<(&'static str, CountedOutcome)>,
    pub(crate) placement: Option<(Os, CountedOutcome)>,
    pub(crate) generate_name: Option<String>,
    /// Images for which a look-up could change the result, and whether to wait for it.
    pub(crate) wanted: Vec<String>,
    pub(crate) lookup: Lookup,
    /// See [`Review::namespace_unknown`](mullion_engine::admission::Review::namespace_unknown).
    pub(crate) namespace_unknown: bool,
}

impl RequestOutcome {
    /// The same outcome with `patch`, unless it is empty.
    pub(crate) fn with_patch(mut self, patch: Vec<PatchOperation>) -> Self {
        if !patch.is_empty() {
            (self.decision, self.response.patch) = (RequestDecision::Patched, patch);
        }
        self
    }
}
