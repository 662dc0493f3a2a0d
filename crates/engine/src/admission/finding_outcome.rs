//! The outcome of a finding: one pure table, by its action and its request category.
//!
//! | | Deny | Repair | Warn |
//! |---|---|---|---|
//! | bare pod; new ephemeral containers | denied | changed | warned |
//! | pod of a DaemonSet | labelled | changed | labelled |
//! | pod of a Job | denied if the API server would; else labelled | changed | labelled |
//! | pod of another built-in controller | denied if the API server or the kubelet would; else labelled | changed | labelled |
//! | template, created | denied; warned under `workloads: Warn` | changed | warned |
//! | template, changed | the same, but only warned for what the old one had, and of a Job | changed | warned |
//! | any other request | nothing | nothing | nothing |
//!
//! `Allow` is nothing everywhere, and so is mere advice on a controller's pod: nobody is there to take it. Which changes a
//! request category has is for [`review`](crate::admission::review::review()) to say: a template has only those without which the API server would
//! refuse it. Two request categories have no findings: a `Rewrite` is changed and nothing is said, and a `Resize` is denied, or
//! warned under `denials: Warn`. Under `mode: Audit` it is said what would be, and nothing is changed or denied.

use crate::admission::request_category::RequestCategory;
use crate::admission::review::Review;
use crate::model::settings::rule_actions::Action;
use crate::model::settings::workload_settings::{Mode, TemplateDenials};
use crate::model::workload::WorkloadKind;
use crate::rules::finding::{Finding, RejectedBy};

/// What a finding comes to in its request category.
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
    /// Denied.
    Denied,
}

/// The table: what a finding comes to, by its action and its request category.
pub fn outcome_of(finding: &Finding, category: RequestCategory, workloads: TemplateDenials) -> FindingOutcome {
    use FindingOutcome::{Denied, Labelled, Nothing, Repaired, Warned};
    match (finding.action, category) {
        (Action::Allow, _)
        | (
            _,
            RequestCategory::NotOurs
            | RequestCategory::OtherUpdate
            | RequestCategory::Rewrite
            | RequestCategory::Resize,
        ) => Nothing,
        (Action::Deny, RequestCategory::Pod | RequestCategory::EphemeralContainers) => Denied,
        (Action::Deny, RequestCategory::OwnedPod { by }) if denies_pods(finding, by) => Denied,
        // Nobody is there to take it, and the author of the template had it.
        (Action::Warn, RequestCategory::OwnedPod { .. }) if finding.advice => Nothing,
        (Action::Deny | Action::Warn, RequestCategory::OwnedPod { .. }) => Labelled,
        (Action::Deny, RequestCategory::Template { of, update }) => {
            // Of a Job only where its pods go can be written again, and that while it is suspended (`validateJobUpdate`,
            // pkg/apis/batch/validation/validation.go). Who does so is a queue, and could but try again.
            let stands = update && (finding.pre_existing || of == WorkloadKind::Job);
            if workloads == TemplateDenials::Refuse && !stands { Denied } else { Warned }
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
        FindingOutcome::Denied if !audit => Action::Deny,
        FindingOutcome::Denied | FindingOutcome::Warned | FindingOutcome::Labelled => Action::Warn,
    }
}

/// Whether a pod that an object of that kind makes is denied for what is denied: where it comes to no more without
/// Mullion.
pub fn denies_pods(finding: &Finding, by: WorkloadKind) -> bool {
    match by {
        // A denied pod of a DaemonSet starves the others: its controller counts it as failed and backs off.
        WorkloadKind::DaemonSet => false,
        // A pod that the kubelet refuses is a failed one and counts towards `backoffLimit`, which ends the Job. One that
        // is denied here was never there: the controller tries again every minute, for ever (`manageJob` and
        // `MaxJobApiBackOff`, pkg/controller/job/job_controller.go).
        WorkloadKind::Job | WorkloadKind::CronJob => finding.rejected_by == RejectedBy::ApiServer,
        // Whatever makes pods of it is no built-in controller: they are judged like bare ones.
        WorkloadKind::PodTemplate => true,
        _ => finding.rejected_by != RejectedBy::Nobody,
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::admission::finding_outcome::FindingOutcome::{Denied, Labelled, Nothing, Repaired, Warned};

    /// What `Deny` comes to for findings that nobody, the kubelet and the API server would refuse, then `Repair`, `Warn`
    /// and a `Warn` that is mere advice.
    #[test]
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn each_cell_of_the_table() {
        let owned = |by| RequestCategory::OwnedPod { by };
        let made = |of| RequestCategory::Template { of, update: false };
        let changed = |of| RequestCategory::Template { of, update: true };
        for (category, known, workloads, expected) in [
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
                TemplateDenials::Refuse,
                [Labelled, Labelled, Labelled, Repaired, Labelled, Nothing],
            ),
            (
                owned(WorkloadKind::Job),
                false,
                TemplateDenials::Refuse,
                [Labelled, Labelled, Denied, Repaired, Labelled, Nothing],
            ),
            (
                owned(WorkloadKind::ReplicaSet),
                false,
                TemplateDenials::Refuse,
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
                TemplateDenials::Refuse,
                [Denied, Denied, Denied, Repaired, Warned, Warned],
            ),
            (
                made(WorkloadKind::Job),
                false,
                TemplateDenials::Refuse,
                [Denied, Denied, Denied, Repaired, Warned, Warned],
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
                [Denied, Denied, Denied, Repaired, Warned, Warned],
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
            let comes_to = |action, rejected_by, advice| {
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
                    rejected_by,
                    forbidden_by_os: false,
                    rejected_beside_os: false,
                    pre_existing: known,
                };
                outcome_of(&finding, category, workloads)
            };
            let got = [
                comes_to(Action::Deny, RejectedBy::Nobody, false),
                comes_to(Action::Deny, RejectedBy::Kubelet, false),
                comes_to(Action::Deny, RejectedBy::ApiServer, false),
                comes_to(Action::Repair, RejectedBy::Nobody, false),
                comes_to(Action::Warn, RejectedBy::Nobody, false),
                comes_to(Action::Warn, RejectedBy::Nobody, true),
            ];
            assert_eq!(got, expected, "{category:?}, known {known}");
            assert_eq!(comes_to(Action::Allow, RejectedBy::ApiServer, false), Nothing);
        }
    }
}
