//! The changes that Mullion would have made to a pod that was created without a review, and which of them can still be
//! made.
//!
//! Nearly everything in a pod's spec is immutable once the pod exists. Tolerations may be added
//! (`validateOnlyAddedTolerations`, pkg/apis/core/validation/validation.go), which is often enough for an unscheduled
//! pod. Everything else can only be reported.

use mullion_engine::admission::{Endpoint, FindingOutcome, RequestCategory, Review, outcome_of, respond};
use mullion_engine::model::cluster::{ClusterSnapshot, Node};
use mullion_engine::model::json_pointer::escape;
use mullion_engine::model::names::{OS_LABEL, WINDOWS_BUILD_LABEL};
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::settings::{Action, Mode, RuntimeClassMode};
use mullion_engine::model::windows::{Build, known_host_builds};
use mullion_engine::model::{Basis, Cause, Change, Edit, Os, WorkloadKind};
use mullion_engine::patch::compile;
use mullion_engine::rules::{Finding, RejectedBy};
use serde::Deserialize as _;
use serde_json::Value;

/// What to do about an unscheduled pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MissedPod {
    /// Tolerations are missing: append them.
    Repair {
        /// Raw, as in a pod spec.
        tolerations: Vec<Value>,
        /// What else is missing and cannot be added: with the tolerations alone, the scheduler may choose a node that
        /// cannot run the pod.
        unrepaired: Option<MissedReport>,
    },
    /// It cannot be repaired: write an Event on its owner.
    Report(MissedReport),
    /// It needs nothing, or Mullion does not change it.
    Nothing,
}

/// What Mullion would have done, for people.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MissedReport {
    /// It would have set these on a Windows pod, as text.
    Lacks(Vec<String>),
    /// It would have denied the pod: a sentence for each finding.
    Denied(Vec<String>),
}

const TOLERATIONS: &str = "/spec/tolerations";

/// What the unscheduled pod `object` needs, by a `review` as CREATE now. `reviewed`: whether Mullion reviewed it when
/// it was created. If so, everything but tolerations is missing on purpose, or because the snapshot has changed since.
///
/// Nothing if Mullion is not sure: under any mode but Enforce; for pods of DaemonSets, because their controller uses
/// the template to choose their nodes; and for Linux pods, which do not wait longer because a selector is missing.
pub(crate) fn assess(review: &Review, object: &Value, snapshot: &ClusterSnapshot, reviewed: bool) -> MissedPod {
    let in_scope = match review.category {
        RequestCategory::Pod => true,
        RequestCategory::OwnedPod { by } => by != WorkloadKind::DaemonSet,
        _ => false,
    };
    if !in_scope || review.settings.mode != Mode::Enforce || !waits_for_the_scheduler(object) {
        return MissedPod::Nothing;
    }
    if !reviewed && respond(review, object, Endpoint::Validate).denial.is_some() {
        // A pod that cannot work does not need a node.
        let denials = findings_with_outcome(review, FindingOutcome::Denied).map(Finding::sentence);
        return MissedPod::Report(MissedReport::Denied(denials.collect()));
    }
    if review.decision.decided() != Some(Os::Windows) || review.decision.basis != Basis::Intent {
        return MissedPod::Nothing;
    }
    let tolerations: Vec<Value> = review.changes.iter().filter_map(toleration).cloned().collect();
    let missing = if reviewed { Vec::new() } else { missing_fields(review, snapshot) };
    let report = Some(missing).filter(|missing| !missing.is_empty()).map(MissedReport::Lacks);
    if !tolerations.is_empty() {
        return MissedPod::Repair { tolerations, unrepaired: report };
    }
    report.map_or(MissedPod::Nothing, MissedPod::Report)
}

/// Not bound, not being deleted, and without a scheduling gate. While a pod has gates, its selectors may still change,
/// and with them its operating system (KEP-3838). The scheduler ignores it until then (KEP-3521), so a later repair is
/// not too late.
fn waits_for_the_scheduler(object: &Value) -> bool {
    let filled = |pointer| match object.pointer(pointer) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    !["/spec/nodeName", "/spec/schedulingGates", "/metadata/deletionTimestamp"].into_iter().any(filled)
}

fn toleration(change: &Change) -> Option<&Value> {
    match (&change.cause, &change.edit) {
        (Cause::Placement(_), Edit::Append { pointer, value }) if pointer == TOLERATIONS => Some(value),
        _ => None,
    }
}

/// The findings with this outcome.
pub(crate) fn findings_with_outcome(review: &Review, outcome: FindingOutcome) -> impl Iterator<Item = &Finding> {
    let outcome_of = |finding: &Finding| outcome_of(finding, review.category, review.settings.templates);
    review.findings.iter().filter(move |finding| outcome_of(finding) == outcome)
}

/// The changes that decide whether the pod can run: its OS, a build that some node has and it cannot run on, a
/// RuntimeClass that a policy sets, and what the kubelet or the API server would have rejected. The OS field, the
/// RuntimeClass of a release and harmless values alone do not cause an Event.
fn missing_fields(review: &Review, snapshot: &ClusterSnapshot) -> Vec<String> {
    let mut missing: Vec<String> = Vec::new();
    let at = |key: &str| format!("/spec/nodeSelector/{}", escape(key));
    let (os, build) = (at(OS_LABEL), at(WINDOWS_BUILD_LABEL));
    for change in &review.changes {
        let field = match (&change.cause, &change.edit) {
            (Cause::Placement(_), Edit::Set { pointer, .. }) if *pointer == os => {
                format!("nodeSelector {OS_LABEL}: windows")
            }
            (Cause::Placement(_), Edit::Set { pointer, value }) if *pointer == build => {
                format!("nodeSelector {WINDOWS_BUILD_LABEL}: {}", value.as_str().unwrap_or_default())
            }
            (Cause::Placement(_), Edit::Set { pointer, value } | Edit::Append { pointer, value })
                if pointer.starts_with("/spec/affinity/")
                    && snapshot.windows_builds().iter().any(|one| names(value, *one)) =>
            {
                "the node affinity away from builds that cannot run its images".to_owned()
            }
            (Cause::Placement(_), Edit::Set { pointer, value })
                if pointer == "/spec/runtimeClassName" && review.settings.runtime_class == RuntimeClassMode::Named =>
            {
                format!("runtimeClassName: {}", value.as_str().unwrap_or_default())
            }
            (Cause::Rule(code), Edit::Remove { pointer }) => {
                let repaired = |one: &&Finding| one.action == Action::Repair && one.rejected_by > RejectedBy::None;
                let finding = review.findings.iter().find(|one| one.code == *code && one.pointer == *pointer);
                let Some(finding) = finding.filter(repaired) else { continue };
                format!("the repair of {} ({} {})", finding.path, finding.code, finding.rule)
            }
            _ => continue,
        };
        if !missing.contains(&field) {
            missing.push(field);
        }
    }
    missing
}

/// Whether a requirement, or the terms around it, contain the build.
fn names(requirement: &Value, build: Build) -> bool {
    match requirement {
        Value::Array(items) => items.iter().any(|item| names(item, build)),
        Value::Object(members) => members.values().any(|member| names(member, build)),
        Value::String(text) => Build::from_label(text) == Some(build),
        _ => false,
    }
}

/// The intended OS of a bound pod if its node has another OS, decided by its author, its namespace, a policy or its
/// images. `review` is of the pod without its node.
pub(crate) fn intended_os(review: &Review, node: Os) -> Option<Os> {
    let in_scope = matches!(review.category, RequestCategory::Pod | RequestCategory::OwnedPod { .. });
    let decision = &review.decision;
    let sure = decision.basis == Basis::Intent && decision.placement && review.settings.mode == Mode::Enforce;
    decision.decided().filter(|intended| in_scope && sure && *intended != node)
}

/// Whether its Windows build is what keeps the node from fitting a bound pod, with the constraints that the pod has and those that it
/// would get if it were created now. `object` and its `review` are without the node. A pod that was placed before has
/// constraints, and the build of its node may have changed since.
pub(crate) fn excludes_build(review: &Review, object: &Value, node: &Node, build: Build) -> bool {
    let in_scope = matches!(review.category, RequestCategory::Pod | RequestCategory::OwnedPod { .. });
    if !in_scope || review.settings.mode != Mode::Enforce {
        return false;
    }
    let mut placed = object.clone();
    let is_patched = json_patch::patch(&mut placed, &compile(object, &review.changes)).is_ok();
    let constraints = placed.get("spec").and_then(|spec| SchedulingConstraints::deserialize(spec).ok());
    let Some(constraints) = constraints.filter(|_| is_patched) else { return false };
    let fits_with = |build: Build| {
        let build = build.to_string();
        constraints.fits(&node.name, |key| match key {
            WINDOWS_BUILD_LABEL => Some(build.as_str()),
            _ => node.labels.get(key),
        })
    };
    !fits_with(build) && known_host_builds().any(fits_with)
}

#[cfg(test)]
mod tests;
