//! The decision annotation of one workload: the decision, its reason, and what was placed.

use std::collections::BTreeMap;

use crate::model::json_pointer::field_path;
use crate::model::names::OS_ANNOTATION;
use crate::model::text::shorten_to_bytes;
use crate::model::windows::Build;
use crate::model::{Basis, DecisionAnnotation, EvidenceSource, LINUX_DEFAULT_REASON, Os, OsDecision, ScopeOs};
use crate::place::WorkloadContext;

/// The annotation for the decision and `placed`.
pub(crate) fn annotation_of(cx: &WorkloadContext<'_>, placed: Vec<String>) -> DecisionAnnotation {
    let os = cx.decision.decided().map_or(ScopeOs::Any.name(), Os::name).to_owned();
    let pod = &cx.input.pod;
    let containers = if pod.pointer.is_empty() { DecisionAnnotation::names(pod) } else { Vec::new() };
    let placed = placed.into_iter().collect();
    DecisionAnnotation {
        os,
        basis: cx.decision.basis,
        because: decision_reason(cx.decision),
        placed,
        containers,
        left_out: left_out(cx),
    }
}

/// The number of nodes of each build that a DaemonSet leaves out.
pub(crate) fn left_out(cx: &WorkloadContext<'_>) -> BTreeMap<Build, usize> {
    cx.left_out.map(|left_out| left_out.builds.clone()).unwrap_or_default()
}

/// An annotation from the request, with this decision's basis. If something else decides now, the next review would
/// take the default in the annotation for a default again.
pub(crate) fn with_decision(cx: &WorkloadContext<'_>, annotation: DecisionAnnotation) -> DecisionAnnotation {
    if annotation.basis == cx.decision.basis {
        return annotation;
    }
    DecisionAnnotation { basis: cx.decision.basis, because: decision_reason(cx.decision), ..annotation }
}

/// The longest reason of a decision, in bytes: as long as an image reference may be; other names are shorter.
pub(crate) const REASON_LIMIT: usize = 1_024;

/// The deciding evidence, as a clause for people: `image mcr.microsoft.com/…:ltsc2022, by tag`.
pub fn decision_reason(decision: &OsDecision) -> String {
    if decision.basis == Basis::Default {
        return LINUX_DEFAULT_REASON.to_owned();
    }
    decision.evidence.first().map_or_else(|| "nothing".to_owned(), |evidence| source_reason(&evidence.source))
}

fn source_reason(source: &EvidenceSource) -> String {
    let reason = match source {
        EvidenceSource::Field(pointer) => field_path(pointer),
        EvidenceSource::Namespace(annotation) => format!("namespace annotation {annotation}"),
        EvidenceSource::Policy(place) => format!("policy {place}"),
        EvidenceSource::Node(name) => format!("node {name}"),
        EvidenceSource::Image { image, how, .. } => format!("image {image}, by {how}"),
    };
    shorten_to_bytes(&reason, REASON_LIMIT)
}

/// How the author of a workload of that kind states that it is for Linux; `None` if `reason`, which decided for
/// Windows, is not a guess. Only the name of an image is a guess; an author, an admin or a registry states everything
/// else.
pub fn linux_way_out(decision: &OsDecision, reason: &str, metadata: &str) -> Option<String> {
    let is_guess = |source: &EvidenceSource| {
        let by_name = matches!(source, EvidenceSource::Image { how: "tag" | "repository", .. });
        by_name && source_reason(source) == reason
    };
    decision.evidence.iter().any(|evidence| is_guess(&evidence.source)).then(|| {
        let place = field_path(&format!("{metadata}/annotations"));
        format!("set the annotation {OS_ANNOTATION}: {} in {place}", Os::Linux.name())
    })
}
