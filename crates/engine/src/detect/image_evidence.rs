//! Evidence from images: the operating system of each container's image, and of Windows images in volumes.

use crate::detect::input::DetectionInput;
use crate::model::{Basis, Evidence, EvidenceOs, OsDecision};

/// The evidence of each container's image.
pub(crate) fn image_evidence(input: &DetectionInput<'_>) -> Vec<Evidence> {
    input.images.iter().filter_map(|image| image.evidence(&input.pod)).collect()
}

pub(crate) fn decide_by_images(input: &DetectionInput<'_>) -> Option<OsDecision> {
    let mut evidence = image_evidence(input);
    // The containers decide. If they do not, an image volume for Windows does.
    if !evidence.iter().any(|evidence| matches!(evidence.os, EvidenceOs::Os(_))) {
        evidence.splice(..0, input.volume_images.iter().filter_map(|image| image.evidence(&input.pod)));
    }
    let mut systems = evidence.iter().filter_map(|evidence| match evidence.os {
        EvidenceOs::Os(os) => Some(os),
        _ => None,
    });
    let os = systems.next()?;
    if systems.all(|other| other == os) {
        Some(OsDecision::os(os, Basis::Intent, evidence))
    } else {
        Some(OsDecision::undecided(evidence, false))
    }
}
