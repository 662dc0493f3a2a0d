//! Why a workload is not reviewed, as a clause, and such workloads by reason.

use std::collections::BTreeMap;

use mullion_engine::admission::{NotReviewed, Review};
use mullion_engine::model::WorkloadObject;
use mullion_engine::model::json_pointer::{escape, field_path};
use mullion_engine::model::names::IGNORE_ANNOTATION;
use mullion_engine::model::text::list_within;

use crate::report::wording::set_by;

/// The maximum length of the names of the workloads with one reason.
const NAMES: usize = 300;

/// Why the workload is not reviewed, with what causes it; `None` if it is reviewed. `not_called`: why the API server does
/// not call Mullion for it.
pub(crate) fn not_reviewed(review: &Review, workload: &WorkloadObject<'_>, not_called: Option<&str>) -> Option<String> {
    let namespace = workload.namespace;
    Some(match review.category.not_reviewed()? {
        NotReviewed::NotCalled => not_called.unwrap_or("the API server does not call Mullion for it").to_owned(),
        NotReviewed::Disabled => format!("mode: Disabled ({})", set_by(review.settings.origins.get("mode"))),
        NotReviewed::Namespace(place) => {
            format!("namespace {namespace} has the {} {IGNORE_ANNOTATION}: \"true\"", place.name())
        }
        NotReviewed::Pod(place) => {
            let member =
                format!("{}/metadata/{}s/{}", workload.kind.pod_pointer(), place.name(), escape(IGNORE_ANNOTATION));
            let policy = set_by(review.settings.origins.get("optOut.ignore"));
            format!("{} is \"true\", and optOut.ignore: Pods ({policy}) permits that", field_path(&member))
        }
        NotReviewed::MirrorPod => "it represents a static pod, which the kubelet already runs".to_owned(),
        NotReviewed::Owner(kind) => format!("its owner, a {}, is reviewed instead", kind.name()),
        NotReviewed::OtherRequest => "it has no pod".to_owned(),
    })
}

/// Workloads that are not reviewed, by reason.
#[derive(Debug, Default)]
pub(crate) struct NotReviewedWorkloads(BTreeMap<String, Vec<String>>);

impl NotReviewedWorkloads {
    /// Adds a workload: `Pod shop/web (a.yaml:3)`.
    pub(crate) fn add(&mut self, reason: String, workload: String) {
        self.0.entry(reason).or_default().push(workload);
    }

    /// A line for each reason: `not reviewed: REASON: Pod shop/web (a.yaml:3), and 3 more`.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(reason, workloads)| {
            format!("not reviewed: {reason}: {}", list_within(workloads, workloads.len(), ", ", NAMES))
        })
    }
}
