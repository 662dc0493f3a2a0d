//! Decides about the operating system of a workload, from all evidence but the Linux default.
//!
//! Five sources are read in this order, and the first with evidence decides: the workload itself, its namespace or
//! policy, its images, the node it is bound to, and what Mullion placed earlier. The Linux default comes after them. A
//! wrong "Windows" or a wrong "Linux" costs a pod, "Undecided" costs little. Therefore uncertain evidence does not
//! decide.

use crate::detect::author_fields::decide_by_author;
use crate::detect::earlier_placement::decide_by_earlier_placement;
use crate::detect::image_evidence::{decide_by_images, image_evidence};
use crate::detect::input::DetectionInput;
use crate::detect::node_evidence::decide_by_node;
use crate::detect::scope::decide_by_scope;
use crate::detect::windows_hints::looks_windows;
use crate::model::{Evidence, EvidenceSource, OsDecision};

/// Decides from everything but the Linux default. The default depends on the request category: see
/// [`linux_default`](crate::detect::linux_default).
pub(crate) fn decide(input: &DetectionInput<'_>) -> OsDecision {
    let mut decision = decide_by_author(input)
        .or_else(|| decide_by_scope(input))
        .or_else(|| decide_by_images(input))
        .or_else(|| decide_by_node(input))
        .or_else(|| decide_by_earlier_placement(input))
        .unwrap_or_else(|| OsDecision::undecided(Vec::new(), true));
    // Evidence that did not decide. If images decided, the decision contains all evidence of images.
    let by_images = matches!(decision.evidence.first(), Some(Evidence { source: EvidenceSource::Image { .. }, .. }));
    if !by_images {
        decision.evidence.extend(image_evidence(input));
    }
    decision.evidence.extend(looks_windows(&input.pod));
    decision
}
