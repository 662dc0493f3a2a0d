//! The outcome of a finding: one pure table, by its action and its request category.
//!
//! | | Deny | Repair | Warn |
//! |---|---|---|---|
//! | bare pod; new ephemeral containers | denied | changed | warned |
//! | pod of a DaemonSet | labelled | changed | labelled |
//! | pod of a Job | denied if the API server would; else labelled | changed | labelled |
//! | pod of another built-in controller | denied if the API server or the kubelet would; else labelled | changed | labelled |
//! | template, created | denied; warned under `rules.templates: Warn` | changed | warned |
//! | Job that a user copied from a CronJob | warned | changed | warned |
//! | template, changed | as for a created one; only warned if the old template had the finding, and for a Job | changed | warned |
//! | any other request | nothing | nothing | nothing |
//!
//! `Allow` has no outcome. A hint has no outcome on a pod of a controller, because no person reads the response. The
//! changes come from [`review`](crate::admission::review::review()): a template gets only repairs that the API server
//! requires; a DaemonSet also gets its placement. Two request categories have no findings: a `Rewrite` is changed
//! without a warning, and a `Resize` is denied, or warned about under `denials: Warn`. Under `mode: Audit` the response
//! reports what would happen, and nothing is changed or denied.

use crate::admission::request_category::RequestCategory;
use crate::admission::review::Review;
use crate::model::WorkloadKind;
use crate::model::settings::{Action, Mode, TemplateDenials};
use crate::rules::{Finding, RejectedBy};

/// The outcome of a finding in its request category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingOutcome {
    /// Nothing is reported or done.
    Nothing,
    /// The object is changed; reported unless the finding is quiet.
    Repaired,
    /// Reported to the requester as a warning.
    Warned,
    /// Reported on the pod itself, by the label [`FINDINGS_LABEL`](crate::model::names::FINDINGS_LABEL), because the
    /// requester is a controller.
    Labelled,
    /// The request is denied.
    Denied,
}

/// The table: the outcome of a finding, by its action and its request category.
pub fn outcome_of(finding: &Finding, category: RequestCategory, templates: TemplateDenials) -> FindingOutcome {
    use FindingOutcome::{Denied, Labelled, Nothing, Repaired, Warned};
    match (finding.action, category) {
        (Action::Allow, _)
        | (
            _,
            RequestCategory::Skipped(_)
            | RequestCategory::OtherUpdate
            | RequestCategory::Rewrite
            | RequestCategory::Resize,
        ) => Nothing,
        (Action::Deny, RequestCategory::Pod | RequestCategory::EphemeralContainers) => Denied,
        (Action::Deny, RequestCategory::OwnedPod { by }) if denies_pods(finding, by) => Denied,
        // No person reads the response, and the author of the template got the hint.
        (Action::Warn, RequestCategory::OwnedPod { .. }) if finding.hint => Nothing,
        (Action::Deny | Action::Warn, RequestCategory::OwnedPod { .. }) => Labelled,
        (Action::Deny, RequestCategory::Template { of, update, copied }) => {
            // The template of a Job can change only in its scheduling fields, and only while the Job is suspended
            // (`validateJobUpdate`, pkg/apis/batch/validation/validation.go). A job queue makes that change, and after
            // a denial it can only retry.
            let stands = copied || update && (finding.pre_existing || of == WorkloadKind::Job);
            if templates == TemplateDenials::Deny && !stands { Denied } else { Warned }
        }
        (Action::Repair, _) => Repaired,
        (Action::Warn, _) => Warned,
    }
}

/// The outcome of a finding as an action: the action that the policy sets, reduced where a cluster would not deny.
pub fn effective_action(review: &Review, finding: &Finding) -> Action {
    let audit = review.settings.mode == Mode::Audit;
    match outcome_of(finding, review.category, review.settings.templates) {
        FindingOutcome::Nothing => Action::Allow,
        FindingOutcome::Repaired => Action::Repair,
        FindingOutcome::Denied if !audit => Action::Deny,
        FindingOutcome::Denied | FindingOutcome::Warned | FindingOutcome::Labelled => Action::Warn,
    }
}

/// Whether a finding would deny the request, and does not because of `mode: Audit`.
pub fn would_be_denied(review: &Review, finding: &Finding) -> bool {
    review.settings.mode == Mode::Audit
        && outcome_of(finding, review.category, review.settings.templates) == FindingOutcome::Denied
}

/// Whether a denied finding denies the pods that an object of that kind creates: only if the pod would not run without
/// Mullion either.
fn denies_pods(finding: &Finding, by: WorkloadKind) -> bool {
    match by {
        // A denied pod of a DaemonSet starves the others: its controller counts it as failed and backs off.
        WorkloadKind::DaemonSet => false,
        // A pod that the kubelet rejects has failed and counts towards `backoffLimit`, which ends the Job. A pod that
        // is denied here never existed: the controller retries every minute, forever (`manageJob` and
        // `MaxJobApiBackOff`, pkg/controller/job/job_controller.go).
        WorkloadKind::Job | WorkloadKind::CronJob => finding.rejected_by == RejectedBy::ApiServer,
        // No built-in controller creates pods from it, so such pods are reviewed like bare pods.
        WorkloadKind::PodTemplate => true,
        _ => finding.rejected_by != RejectedBy::None,
    }
}

/// Whether a finding that does not deny the template denies its pods.
pub fn denies_its_pods(review: &Review, finding: &Finding) -> bool {
    review.settings.mode == Mode::Enforce && is_for_its_pods(review, finding)
}

/// Whether a finding that would not deny the template would deny its pods, and does not because of `mode: Audit`.
pub fn would_deny_its_pods(review: &Review, finding: &Finding) -> bool {
    review.settings.mode == Mode::Audit && !would_be_denied(review, finding) && is_for_its_pods(review, finding)
}

fn is_for_its_pods(review: &Review, finding: &Finding) -> bool {
    match review.category {
        // An object that the API server rejects is not stored, so it creates no pods.
        RequestCategory::Template { of, .. } if finding.rejected_by != RejectedBy::ApiServer => {
            finding.action == Action::Deny && denies_pods(finding, of)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::admission::finding_outcome::FindingOutcome::{Denied, Labelled, Nothing, Repaired, Warned};
    use crate::admission::not_reviewed::NotReviewed;

    /// The outcomes of `Deny` for findings that neither the kubelet nor the API server would reject, that the kubelet
    /// would reject, and that the API server would reject; then of `Repair`, `Warn` and a `Warn` that is only a hint.
    #[test]
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn each_cell_of_the_table() {
        let owned = |by| RequestCategory::OwnedPod { by };
        let made = |of| RequestCategory::Template { of, update: false, copied: false };
        let changed = |of| RequestCategory::Template { of, update: true, copied: false };
        for (category, known, templates, expected) in [
            (RequestCategory::Pod, false, TemplateDenials::Warn, [Denied, Denied, Denied, Repaired, Warned, Warned]),
            (
                RequestCategory::EphemeralContainers,
                true,
                TemplateDenials::Warn,
                [Denied, Denied, Denied, Repaired, Warned, Warned],
            ),
            (
                owned(WorkloadKind::DaemonSet),
                false,
                TemplateDenials::Deny,
                [Labelled, Labelled, Labelled, Repaired, Labelled, Nothing],
            ),
            (
                owned(WorkloadKind::Job),
                false,
                TemplateDenials::Deny,
                [Labelled, Labelled, Denied, Repaired, Labelled, Nothing],
            ),
            (
                owned(WorkloadKind::ReplicaSet),
                false,
                TemplateDenials::Deny,
                [Labelled, Denied, Denied, Repaired, Labelled, Nothing],
            ),
            (
                owned(WorkloadKind::StatefulSet),
                false,
                TemplateDenials::Warn,
                [Labelled, Denied, Denied, Repaired, Labelled, Nothing],
            ),
            (
                made(WorkloadKind::DaemonSet),
                false,
                TemplateDenials::Deny,
                [Denied, Denied, Denied, Repaired, Warned, Warned],
            ),
            (made(WorkloadKind::Job), false, TemplateDenials::Deny, [Denied, Denied, Denied, Repaired, Warned, Warned]),
            (
                RequestCategory::Template { of: WorkloadKind::Job, update: false, copied: true },
                false,
                TemplateDenials::Deny,
                [Warned, Warned, Warned, Repaired, Warned, Warned],
            ),
            (
                made(WorkloadKind::Deployment),
                false,
                TemplateDenials::Warn,
                [Warned, Warned, Warned, Repaired, Warned, Warned],
            ),
            (
                changed(WorkloadKind::Deployment),
                false,
                TemplateDenials::Deny,
                [Denied, Denied, Denied, Repaired, Warned, Warned],
            ),
            (
                changed(WorkloadKind::Deployment),
                true,
                TemplateDenials::Deny,
                [Warned, Warned, Warned, Repaired, Warned, Warned],
            ),
            (
                changed(WorkloadKind::Job),
                false,
                TemplateDenials::Deny,
                [Warned, Warned, Warned, Repaired, Warned, Warned],
            ),
            (RequestCategory::Rewrite, false, TemplateDenials::Deny, [Nothing; 6]),
            (RequestCategory::Resize, false, TemplateDenials::Deny, [Nothing; 6]),
            (RequestCategory::OtherUpdate, false, TemplateDenials::Deny, [Nothing; 6]),
            (RequestCategory::Skipped(NotReviewed::Disabled), false, TemplateDenials::Deny, [Nothing; 6]),
        ] {
            let outcome = |action, rejected_by, hint| {
                let finding = Finding {
                    code: "MUL201",
                    rule: "run-as-user",
                    action,
                    quiet: false,
                    hint,
                    about_whole: false,
                    pointer: String::new(),
                    path: String::new(),
                    message: "".into(),
                    help: "".into(),
                    replacement: None,
                    rejected_by,
                    forbidden_by_os: false,
                    rejected_beside_os: false,
                    pre_existing: known,
                };
                outcome_of(&finding, category, templates)
            };
            let got = [
                outcome(Action::Deny, RejectedBy::None, false),
                outcome(Action::Deny, RejectedBy::Kubelet, false),
                outcome(Action::Deny, RejectedBy::ApiServer, false),
                outcome(Action::Repair, RejectedBy::None, false),
                outcome(Action::Warn, RejectedBy::None, false),
                outcome(Action::Warn, RejectedBy::None, true),
            ];
            assert_eq!(got, expected, "{category:?}, known {known}");
            assert_eq!(outcome(Action::Allow, RejectedBy::ApiServer, false), Nothing);
        }
    }
}
