//! Evidence from the scope: the annotation `mullion.dev/os` of the namespace, and `detect.os` of policies.

use crate::detect::input::DetectionInput;
use crate::model::cluster::Namespace;
use crate::model::names::OS_ANNOTATION;
use crate::model::{Basis, Evidence, EvidenceSource, Os, OsDecision, ScopeOs};

/// The decision by the namespace's annotation, else by `detect.os` of a policy.
pub(crate) fn decide_by_scope(input: &DetectionInput<'_>) -> Option<OsDecision> {
    let by_namespace =
        input.namespace.and_then(Namespace::os).map(|os| (os, EvidenceSource::Namespace(OS_ANNOTATION.to_owned())));
    let (os, source) = by_namespace.or_else(|| {
        let origin = input.settings.origins.get("detect.os");
        let place = origin.map_or_else(|| "detect.os".to_owned(), |at| format!("{}:{}", at.file, at.line));
        Some((input.settings.os?, EvidenceSource::Policy(place)))
    })?;
    let evidence = vec![Evidence { os: os.into(), source }];
    Some(match os {
        ScopeOs::Windows => OsDecision::os(Os::Windows, Basis::Intent, evidence),
        ScopeOs::Linux => OsDecision::os(Os::Linux, Basis::Intent, evidence),
        ScopeOs::Any => OsDecision::undecided(evidence, false),
    })
}
