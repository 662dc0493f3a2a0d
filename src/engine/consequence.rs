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
//! circumstance has is for [`review`](super::review()) to say: a template has only those without which the API server would
//! refuse it. Two circumstances have no findings: a `Rewrite` is changed and nothing is said, and a `Resize` is refused, or
//! warned under `denials: Warn`. Under `mode: Audit` it is said what would be, and nothing is changed or refused.

use super::circumstance::Circumstance;
use super::finding::{Finding, RefusedBy};
use super::request::Kind;
use super::review::Review;
use crate::policy::{Action, Mode, Workloads};

/// What a finding comes to in its circumstance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consequence {
    /// Nothing is said or done.
    Nothing,
    /// Changed; said unless it is quiet.
    Repaired,
    /// Said to whoever asks.
    Warned,
    /// Said on the pod itself, by the label [`FINDINGS_LABEL`](super::answer::FINDINGS_LABEL): whoever asks is a controller.
    Labelled,
    /// Refused.
    Refused,
}

/// The table: what a finding comes to, by its action and its circumstance.
pub fn consequence(finding: &Finding, circumstance: Circumstance, workloads: Workloads) -> Consequence {
    use Consequence::{Labelled, Nothing, Refused, Repaired, Warned};
    match (finding.action, circumstance) {
        (Action::Allow, _)
        | (_, Circumstance::NotOurs | Circumstance::OtherUpdate | Circumstance::Rewrite | Circumstance::Resize) => {
            Nothing
        }
        (Action::Deny, Circumstance::Pod | Circumstance::EphemeralContainers) => Refused,
        (Action::Deny, Circumstance::OwnedPod { by }) if refuses_pods(finding, by) => Refused,
        // Nobody is there to take it, and the author of the template had it.
        (Action::Warn, Circumstance::OwnedPod { .. }) if finding.advice => Nothing,
        (Action::Deny | Action::Warn, Circumstance::OwnedPod { .. }) => Labelled,
        (Action::Deny, Circumstance::Template { of, update }) => {
            // Of a Job only where its pods go can be written again, and that while it is suspended (`validateJobUpdate`,
            // pkg/apis/batch/validation/validation.go). Who does so is a queue, and could but try again.
            let stands = update && (finding.known_before || of == Kind::Job);
            if workloads == Workloads::Refuse && !stands { Refused } else { Warned }
        }
        (Action::Repair, _) => Repaired,
        (Action::Warn, _) => Warned,
    }
}

/// What a finding comes to, as an action: what its policy says, softened where a cluster would not go that far.
pub fn effect(review: &Review, finding: &Finding) -> Action {
    let audit = review.settings.mode == Mode::Audit;
    match consequence(finding, review.circumstance, review.settings.workloads) {
        Consequence::Nothing => Action::Allow,
        Consequence::Repaired => Action::Repair,
        Consequence::Refused if !audit => Action::Deny,
        Consequence::Refused | Consequence::Warned | Consequence::Labelled => Action::Warn,
    }
}

/// Whether a pod that an object of that kind makes is refused for what is denied: where it comes to no more without
/// Mullion.
pub fn refuses_pods(finding: &Finding, by: Kind) -> bool {
    match by {
        // A refused pod of a DaemonSet starves the others: its controller counts it as failed and backs off.
        Kind::DaemonSet => false,
        // A pod that the kubelet refuses is a failed one and counts towards `backoffLimit`, which ends the Job. One that
        // is refused here was never there: the controller tries again every minute, for ever (`manageJob` and
        // `MaxJobApiBackOff`, pkg/controller/job/job_controller.go).
        Kind::Job | Kind::CronJob => finding.refused_by == RefusedBy::ApiServer,
        // Whatever makes pods of it is no built-in controller: they are judged like bare ones.
        Kind::PodTemplate => true,
        _ => finding.refused_by != RefusedBy::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::Consequence::{Labelled, Nothing, Refused, Repaired, Warned};
    use super::*;

    /// What `Deny` comes to for findings that nobody, the kubelet and the API server would refuse, then `Repair`, `Warn`
    /// and a `Warn` that is mere advice.
    #[test]
    fn each_cell_of_the_table() {
        let owned = |by| Circumstance::OwnedPod { by };
        let made = |of| Circumstance::Template { of, update: false };
        let changed = |of| Circumstance::Template { of, update: true };
        for (circumstance, known, workloads, expected) in [
            (Circumstance::Pod, false, Workloads::Warn, [Refused, Refused, Refused, Repaired, Warned, Warned]),
            (
                Circumstance::EphemeralContainers,
                true,
                Workloads::Warn,
                [Refused, Refused, Refused, Repaired, Warned, Warned],
            ),
            (
                owned(Kind::DaemonSet),
                false,
                Workloads::Refuse,
                [Labelled, Labelled, Labelled, Repaired, Labelled, Nothing],
            ),
            (owned(Kind::Job), false, Workloads::Refuse, [Labelled, Labelled, Refused, Repaired, Labelled, Nothing]),
            (
                owned(Kind::ReplicaSet),
                false,
                Workloads::Refuse,
                [Labelled, Refused, Refused, Repaired, Labelled, Nothing],
            ),
            (
                owned(Kind::StatefulSet),
                false,
                Workloads::Warn,
                [Labelled, Refused, Refused, Repaired, Labelled, Nothing],
            ),
            (made(Kind::DaemonSet), false, Workloads::Refuse, [Refused, Refused, Refused, Repaired, Warned, Warned]),
            (made(Kind::Job), false, Workloads::Refuse, [Refused, Refused, Refused, Repaired, Warned, Warned]),
            (made(Kind::Deployment), false, Workloads::Warn, [Warned, Warned, Warned, Repaired, Warned, Warned]),
            (
                changed(Kind::Deployment),
                false,
                Workloads::Refuse,
                [Refused, Refused, Refused, Repaired, Warned, Warned],
            ),
            (changed(Kind::Deployment), true, Workloads::Refuse, [Warned, Warned, Warned, Repaired, Warned, Warned]),
            (changed(Kind::Job), false, Workloads::Refuse, [Warned, Warned, Warned, Repaired, Warned, Warned]),
            (Circumstance::Rewrite, false, Workloads::Refuse, [Nothing; 6]),
            (Circumstance::Resize, false, Workloads::Refuse, [Nothing; 6]),
            (Circumstance::OtherUpdate, false, Workloads::Refuse, [Nothing; 6]),
            (Circumstance::NotOurs, false, Workloads::Refuse, [Nothing; 6]),
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
                    known_before: known,
                };
                consequence(&finding, circumstance, workloads)
            };
            let got = [
                comes_to(Action::Deny, RefusedBy::Nobody, false),
                comes_to(Action::Deny, RefusedBy::Kubelet, false),
                comes_to(Action::Deny, RefusedBy::ApiServer, false),
                comes_to(Action::Repair, RefusedBy::Nobody, false),
                comes_to(Action::Warn, RefusedBy::Nobody, false),
                comes_to(Action::Warn, RefusedBy::Nobody, true),
            ];
            assert_eq!(got, expected, "{circumstance:?}, known {known}");
            assert_eq!(comes_to(Action::Allow, RefusedBy::ApiServer, false), Nothing);
        }
    }
}
