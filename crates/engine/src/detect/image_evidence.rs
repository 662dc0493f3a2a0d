//! Evidence from images: the operating system of each container's image, and of Windows images in volumes.

use crate::detect::input::DetectionInput;
use crate::model::{Evidence, EvidenceOs, OsDecision, agree_or};

/// The evidence of each container's image, and that of image volumes if no container's image has an operating system.
pub(crate) fn image_evidence(input: &DetectionInput<'_>) -> Vec<Evidence> {
    let mut evidence: Vec<Evidence> = input.images.iter().filter_map(|image| image.evidence(&input.pod)).collect();
    if !evidence.iter().any(|evidence| matches!(evidence.os, EvidenceOs::Os(_))) {
        evidence.splice(..0, input.volume_images.iter().filter_map(|image| image.evidence(&input.pod)));
    }
    evidence
}

pub(crate) fn decide_by_images(input: &DetectionInput<'_>) -> Option<OsDecision> {
    let evidence = image_evidence(input);
    agree_or(evidence, |evidence| OsDecision::undecided(evidence, false))
}
