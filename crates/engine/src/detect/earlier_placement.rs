//! Evidence from Mullion's own earlier placement: it decides only if nothing else does.

use crate::detect::input::{DetectionInput, EarlierPlacement};
use crate::detect::node_evidence::place_of;
use crate::model::names::OS_LABEL;
use crate::model::scheduling::{OsWanted, node_constraints};
use crate::model::{Basis, DecisionAnnotation, Evidence, Os, OsDecision, json_pointer};

/// Whether Mullion set the OS selector and the author did not: a bound pod got it for its node, a DaemonSet got it
/// because nothing else decided, or for reasons that a changed template may no longer have. It decides no more the
/// second time than it did the first time.
pub(crate) fn placed_by_mullion(input: &DetectionInput<'_>) -> bool {
    let stands = node_constraints::selector_os(&input.pod).0;
    let its_own = |annotation: &DecisionAnnotation| {
        annotation.placed_selector() && Os::from_name(&annotation.os).map(OsWanted::Only) == Some(stands)
    };
    let is_update = input.earlier_placement.is_some();
    if input.earlier_placement.is_some_and(|earlier| its_own(earlier.annotation)) {
        return true;
    }
    // The first call of this request wrote the annotation.
    let Some(annotation) = DecisionAnnotation::of(input.object()).filter(its_own) else { return false };
    // The basis does not matter: an annotation that an update keeps has the basis of the earlier decision.
    let is_bound = !DecisionAnnotation::came_with_request(input.object())
        && place_of(&input.pod, input.snapshot).map(Os::name) == Some(&annotation.os);
    let is_default = annotation.basis == Basis::Default && (!input.pod.pointer.is_empty() || input.ignores_default);
    is_bound || is_default && !is_update
}

/// The earlier decision for a DaemonSet, if nothing else gives evidence; a default does not decide again.
pub(crate) fn decide_by_earlier_placement(input: &DetectionInput<'_>) -> Option<OsDecision> {
    let EarlierPlacement { annotation, selector_returns } = input.earlier_placement?;
    let stands = selector_returns || placed_by_mullion(input);
    let os = Os::from_name(&annotation.os).filter(|_| stands && annotation.basis != Basis::Default)?;
    let (_, pointer) = node_constraints::selector_os(&input.pod);
    let pointer = pointer.unwrap_or_else(|| format!("/spec/nodeSelector/{}", json_pointer::escape(OS_LABEL)));
    Some(OsDecision::os(os, Basis::Intent, vec![Evidence::field(&input.pod, os, &pointer)]))
}
