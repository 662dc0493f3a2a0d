//! What a finding comes to: one pure table, by its action and its circumstance.
//!
//! | | Deny | Repair | Warn |
//! |---|---|---|---|
//! | bare pod; new ephemeral containers | refused | changed | warned |
//! | pod of a DaemonSet | labelled | changed | labelled |
//! | pod of a Job | refused if the API server would; else labelled | changed | labelled |
//! | pod of another built-in controller | refused if the API server or the kubelet would; else labelled | changed | labelled |
//! | template, created | refused; warned under `workloads: Warn` | changed | warned |
//! | template, changed | the same, but only warned for what the old one had, and of a Job | changed | warned |
//! | any other request | nothing | nothing | nothing |
//!
//! `Allow` is nothing everywhere, and so is mere advice on a controller's pod: nobody is there to take it. Which changes a
//! circumstance has is for [`review`](crate::admission::review::review()) to say: a template has only those without which the API server would
//! refuse it. Two circumstances have no findings: a `Rewrite` is changed and nothing is said, and a `Resize` is refused, or
//! warned under `denials: Warn`. Under `mode: Audit` it is said what would be, and nothing is changed or refused.

use crate::admission::request_category::RequestCategory;
use crate::admission::review::Review;
use crate::model::settings::rule_actions::Action;
use crate::model::settings::workload_settings::{Mode, TemplateDenials};
use crate::model::workload::WorkloadKind;
use crate::rules::finding::{Finding, RejectedBy};

/// What a finding comes to in its circumstance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingOutcome {
    /// Nothing is said or done.
    Nothing,
    /// Changed; said unless it is quiet.
    Repaired,
    /// Said to whoever asks.
    Warned,
    /// Said on the pod itself, by the label [`FINDINGS_LABEL`](crate::model::names::FINDINGS_LABEL): whoever asks is a controller.
    Labelled,
    /// Refused.
    Refused,
}

/// The table: what a finding comes to, by its action and its circumstance.
pub fn outcome_of(finding: &Finding, circumstance: RequestCategory, workloads: TemplateDenials) -> FindingOutcome {
    use FindingOutcome::{Labelled, Nothing, Refused, Repaired, Warned};
    match (finding.action, circumstance) {
        (Action::Allow, _)
        | (
            _,
            RequestCategory::NotOurs
            | RequestCategory::OtherUpdate
            | RequestCategory::Rewrite
            | RequestCategory::Resize,
        ) => Nothing,
        (Action::Deny, RequestCategory::Pod | RequestCategory::EphemeralContainers) => Refused,
        (Action::Deny, RequestCategory::OwnedPod { by }) if refuses_pods(finding, by) => Refused,
        // Nobody is there to take it, and the author of the template had it.
        (Action::Warn, RequestCategory::OwnedPod { .. }) if finding.advice => Nothing,
        (Action::Deny | Action::Warn, RequestCategory::OwnedPod { .. }) => Labelled,
        (Action::Deny, RequestCategory::Template { of, update }) => {
            // Of a Job only where its pods go can be written again, and that while it is suspended (`validateJobUpdate`,
            // pkg/apis/batch/validation/validation.go). Who does so is a queue, and could but try again.
            let stands = update && (finding.known_before || of == WorkloadKind::Job);
            if workloads == TemplateDenials::Refuse && !stands { Refused } else { Warned }
        }
        (Action::Repair, _) => Repaired,
        (Action::Warn, _) => Warned,
    }
}

/// What a finding comes to, as an action: what its policy says, softened where a cluster would not go that far.
pub fn effective_action(review: &Review, finding: &Finding) -> Action {
    let audit = review.settings.mode == Mode::Audit;
    match outcome_of(finding, review.category, review.settings.workloads) {
        FindingOutcome::Nothing => Action::Allow,
        FindingOutcome::Repaired => Action::Repair,
        FindingOutcome::Refused if !audit => Action::Deny,
        FindingOutcome::Refused | FindingOutcome::Warned | FindingOutcome::Labelled => Action::Warn,
    }
}

/// Whether a pod that an object of that kind makes is refused for what is denied: where it comes to no more without
/// Mullion.
pub fn refuses_pods(finding: &Finding, by: WorkloadKind) -> bool {
    match by {
        // A refused pod of a DaemonSet starves the others: its controller counts it as failed and backs off.
        WorkloadKind::DaemonSet => false,
        // A pod that the kubelet refuses is a failed one and counts towards `backoffLimit`, which ends the Job. One that
        // is refused here was never there: the controller tries again every minute, for ever (`manageJob` and
        // `MaxJobApiBackOff`, pkg/controller/job/job_controller.go).
        WorkloadKind::Job | WorkloadKind::CronJob => finding.refused_by == RejectedBy::ApiServer,
        // Whatever makes pods of it is no built-in controller: they are judged like bare ones.
        WorkloadKind::PodTemplate => true,
        _ => finding.refused_by != RejectedBy::Nobody,
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::admission::finding_outcome::FindingOutcome::{Labelled, Nothing, Refused, Repaired, Warned};

    /// What `Deny` comes to for findings that nobody, the kubelet and the API server would refuse, then `Repair`, `Warn`
    /// and a `Warn` that is mere advice.
    #[test]
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn each_cell_of_the_table() {
        let owned = |by| RequestCategory::OwnedPod { by };
        let made = |of| RequestCategory::Template { of, update: false };
        let changed = |of| RequestCategory::Template { of, update: true };
        for (circumstance, known, workloads, expected) in [
            (RequestCategory::Pod, false, TemplateDenials::Warn, [Refused, Refused, Refused, Repaired, Warned, Warned]),
            (
                RequestCategory::EphemeralContainers,
                true,
                TemplateDenials::Warn,
                [Refused, Refused, Refused, Repaired, Warned, Warned],
            ),
            (
                owned(WorkloadKind::DaemonSet),
                false,
                TemplateDenials::Refuse,
                [Labelled, Labelled, Labelled, Repaired, Labelled, Nothing],
            ),
            (
                owned(WorkloadKind::Job),
                false,
                TemplateDenials::Refuse,
                [Labelled, Labelled, Refused, Repaired, Labelled, Nothing],
            ),
            (
                owned(WorkloadKind::ReplicaSet),
                false,
                TemplateDenials::Refuse,
                [Labelled, Refused, Refused, Repaired, Labelled, Nothing],
            ),
            (
                owned(WorkloadKind::StatefulSet),
                false,
                TemplateDenials::Warn,
                [Labelled, Refused, Refused, Repaired, Labelled, Nothing],
            ),
            (
                made(WorkloadKind::DaemonSet),
                false,
                TemplateDenials::Refuse,
                [Refused, Refused, Refused, Repaired, Warned, Warned],
            ),
            (
                made(WorkloadKind::Job),
                false,
                TemplateDenials::Refuse,
                [Refused, Refused, Refused, Repaired, Warned, Warned],
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
                TemplateDenials::Refuse,
                [Refused, Refused, Refused, Repaired, Warned, Warned],
            ),
            (
                changed(WorkloadKind::Deployment),
                true,
                TemplateDenials::Refuse,
                [Warned, Warned, Warned, Repaired, Warned, Warned],
            ),
            (
                changed(WorkloadKind::Job),
                false,
                TemplateDenials::Refuse,
                [Warned, Warned, Warned, Repaired, Warned, Warned],
            ),
            (RequestCategory::Rewrite, false, TemplateDenials::Refuse, [Nothing; 6]),
            (RequestCategory::Resize, false, TemplateDenials::Refuse, [Nothing; 6]),
            (RequestCategory::OtherUpdate, false, TemplateDenials::Refuse, [Nothing; 6]),
            (RequestCategory::NotOurs, false, TemplateDenials::Refuse, [Nothing; 6]),
        ] {
            let comes_to = |action, refused_by, advice| {
                let finding = Finding {
                    code: "MUL201",
                    rule: "run-as-user",
                    action,
                    quiet: false,
                    advice,
                    pointer: String::new(),
                    path: String::new(),
                    message: String::new(),
                    help: String::new(),
                    replacement: None,
                    refused_by,
                    forbidden_by_os: false,
                    rejected_beside_os: false,
                    known_before: known,
                };
                outcome_of(&finding, circumstance, workloads)
            };
            let got = [
                comes_to(Action::Deny, RejectedBy::Nobody, false),
                comes_to(Action::Deny, RejectedBy::Kubelet, false),
                comes_to(Action::Deny, RejectedBy::ApiServer, false),
                comes_to(Action::Repair, RejectedBy::Nobody, false),
                comes_to(Action::Warn, RejectedBy::Nobody, false),
                comes_to(Action::Warn, RejectedBy::Nobody, true),
            ];
            assert_eq!(got, expected, "{circumstance:?}, known {known}");
            assert_eq!(comes_to(Action::Allow, RejectedBy::ApiServer, false), Nothing);
        }
    }
}
