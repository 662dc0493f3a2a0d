//! What Mullion would have done to a pod that it did not see in time, and what of it can still be done.
//!
//! Nearly everything in a pod's spec is fixed once the pod exists. Tolerations may be added
//! (`validateOnlyAddedTolerations`, pkg/apis/core/validation/validation.go), and for a pod that waits for a node that is
//! often all it takes; the rest can only be told.

use mullion_engine::admission::finding_outcome::{FindingOutcome, outcome_of};
use mullion_engine::admission::request_category::RequestCategory;
use mullion_engine::admission::response::{Endpoint, respond};
use mullion_engine::admission::review::Review;
use mullion_engine::model::change::{Cause, Change, Edit};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::json_pointer::escape;
use mullion_engine::model::names::{OS_LABEL, WINDOWS_BUILD_LABEL};
use mullion_engine::model::operating_system::Os;
use mullion_engine::model::os_decision::Basis;
use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::model::settings::workload_settings::{Mode, RuntimeClassMode};
use mullion_engine::model::windows::build::Build;
use mullion_engine::model::workload::WorkloadKind;
use mullion_engine::rules::finding::{Finding, RejectedBy};
use serde_json::Value;

/// What is to be done about an unscheduled pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Missed {
    /// It lacks tolerations: append them.
    Repair {
        /// Raw, as in a pod spec.
        tolerations: Vec<Value>,
        /// What else it lacks and cannot be given: with the tolerations alone it may land where it cannot run.
        undone: Option<Report>,
    },
    /// It cannot be helped any more: tell its owner.
    Report(Report),
    /// It needs nothing, or is not Mullion's business.
    Nothing,
}

/// What Mullion would have done, for people.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Report {
    /// It would have given a Windows pod these, in words.
    Lacks(Vec<String>),
    /// It would have refused the pod; why, one sentence for each finding.
    Refused(Vec<String>),
}

const TOLERATIONS: &str = "/spec/tolerations";

/// What a review of the unscheduled pod `object` as CREATE says about it now. `reviewed`: whether Mullion saw it when it was
/// created; then whatever it lacks but tolerations it lacks on purpose, or because the snapshot has changed since.
///
/// Silent wherever in doubt: under any mode but Enforce; of pods of DaemonSets, whose controller chooses their nodes by
/// the template; and of Linux pods, which wait for a node no longer for want of a selector.
pub(crate) fn missed(review: &Review, object: &Value, snapshot: &ClusterSnapshot, reviewed: bool) -> Missed {
    let ours = match review.category {
        RequestCategory::Pod => true,
        RequestCategory::OwnedPod { by } => by != WorkloadKind::DaemonSet,
        _ => false,
    };
    if !ours || review.settings.mode != Mode::Enforce || !waits_for_the_scheduler(object) {
        return Missed::Nothing;
    }
    if !reviewed && respond(review, object, Endpoint::Validate).denial.is_some() {
        // A pod that could not work is not helped onto a node.
        return Missed::Report(Report::Refused(refused(review)));
    }
    if review.decision.decided() != Some(Os::Windows) || review.decision.basis != Basis::Intent {
        return Missed::Nothing;
    }
    let tolerations: Vec<Value> = review.changes.iter().filter_map(toleration).cloned().collect();
    let lacks = if reviewed { Vec::new() } else { lacks(review, snapshot) };
    let report = Some(lacks).filter(|lacks| !lacks.is_empty()).map(Report::Lacks);
    if !tolerations.is_empty() {
        return Missed::Repair { tolerations, undone: report };
    }
    report.map_or(Missed::Nothing, Missed::Report)
}

/// Not bound, not going, and not held back by a gate. Until its gates are gone a pod's selectors may still change, and with
/// them what it is (KEP-3838); the scheduler does not look at it before (KEP-3521), so nothing is late.
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

/// The findings that come to this.
pub(crate) fn findings(review: &Review, wanted: FindingOutcome) -> impl Iterator<Item = &Finding> {
    let comes_to = |finding: &Finding| outcome_of(finding, review.category, review.settings.templates);
    review.findings.iter().filter(move |finding| comes_to(finding) == wanted)
}

fn refused(review: &Review) -> Vec<String> {
    findings(review, FindingOutcome::Denied).map(Finding::sentence).collect()
}

/// What of the changes decides whether the pod can run: its OS, a build that some node has and it cannot run on, a
/// RuntimeClass somebody chose, and what the kubelet or the API server would have refused. The seal, the RuntimeClass of a
/// release and harmless values are no reason to trouble anybody.
fn lacks(review: &Review, snapshot: &ClusterSnapshot) -> Vec<String> {
    let mut lacks: Vec<String> = Vec::new();
    let at = |key: &str| format!("/spec/nodeSelector/{}", escape(key));
    let (os, build) = (at(OS_LABEL), at(WINDOWS_BUILD_LABEL));
    for change in &review.changes {
        let lack = match (&change.cause, &change.edit) {
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
                let found = review.findings.iter().find(|one| one.code == *code && one.pointer == *pointer);
                let Some(finding) =
                    found.filter(|one| one.action == Action::Repair && one.rejected_by > RejectedBy::None)
                else {
                    continue;
                };
                format!("the repair of {} ({} {})", finding.path, finding.code, finding.rule)
            }
            _ => continue,
        };
        if !lacks.contains(&lack) {
            lacks.push(lack);
        }
    }
    lacks
}

/// Whether a requirement, or the terms around one, name the build.
fn names(requirement: &Value, build: Build) -> bool {
    match requirement {
        Value::Array(items) => items.iter().any(|item| names(item, build)),
        Value::Object(members) => members.values().any(|member| names(member, build)),
        Value::String(text) => Build::from_label(text) == Some(build),
        _ => false,
    }
}

/// Whether a bound pod is on the wrong side: its author, its namespace, a policy or its images say one OS, and its node has
/// another. `review` is of the pod without its node, and says which OS it should be.
pub(crate) fn misplaced(review: &Review, node: Os) -> Option<Os> {
    let ours = matches!(review.category, RequestCategory::Pod | RequestCategory::OwnedPod { .. });
    let decision = &review.decision;
    let sure = decision.basis == Basis::Intent && decision.placement && review.settings.mode == Mode::Enforce;
    decision.decided().filter(|meant| ours && sure && *meant != node)
}

#[cfg(test)]
mod tests;
