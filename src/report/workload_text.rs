//! A workload as lines of text: its operating system with the reason, the evidence and the changes. `check --show-changes`
//! and `explain` print the same.

use std::collections::HashMap;

use mullion_engine::admission::{RequestCategory, Review, review_pods};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::json_pointer::escape;
use mullion_engine::model::names::DECISION_ANNOTATION;
use mullion_engine::model::settings::Mode;
use mullion_engine::model::{
    Basis, Cause, Change, DetectedOs, Edit, Evidence, EvidenceOs, EvidenceSource, OsDecision, ReviewRequest,
};
use mullion_engine::patch::decision_reason;
use mullion_engine::rules::find;
use mullion_policy::PolicySet;

use crate::report::json::EvidenceRecord;
use crate::report::workload_result::line;

/// The changes of a workload.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkloadChanges {
    /// Changes to the object itself.
    pub(crate) own: Vec<Change>,
    /// Changes that the pods of a template get when they are created, without those to the template itself.
    pub(crate) pods: Vec<Change>,
}

impl WorkloadChanges {
    /// The changes of the object that `review` is about.
    pub(crate) fn new(
        request: &ReviewRequest<'_>,
        review: &Review,
        snapshot: &ClusterSnapshot,
        policies: &PolicySet,
    ) -> Self {
        let own = review.changes.clone();
        let mut pods = Vec::new();
        if matches!(review.category, RequestCategory::Template { .. }) {
            let of_pods = review_pods(request, snapshot, &policies.resolve(request, snapshot));
            // An annotation of the object around a template applies to changes of the template, not to its pods.
            if of_pods.decision.os == review.decision.os {
                // Indexed by pointer, because a template can have thousands of changes.
                let mut of_template: HashMap<&str, Vec<&Edit>> = HashMap::new();
                for Change { edit, .. } in &own {
                    of_template.entry(edit.pointer()).or_default().push(edit);
                }
                let is_own = |edit: &Edit| of_template.get(edit.pointer()).is_some_and(|edits| edits.contains(&edit));
                pods = of_pods.changes;
                pods.retain(|change| !is_own(&change.edit));
            }
        }
        Self { own, pods }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.pods.is_empty()
    }

    /// The changes as lines below their headings. `denied`: whether the workload is denied.
    pub(crate) fn lines(&self, review: &Review, denied: bool) -> Vec<String> {
        if denied {
            return vec!["  changes: none, because it is denied".to_owned()];
        }
        if self.is_empty() {
            return vec!["  changes: none".to_owned()];
        }
        let audit = if review.settings.mode == Mode::Audit { " that mode: Audit leaves out" } else { "" };
        let mut lines = Vec::new();
        for (changes, of) in [(&self.own, "changes"), (&self.pods, "changes to its pods")] {
            if !changes.is_empty() {
                lines.push(format!("  {of}{audit}:"));
                lines.extend(changes.iter().map(|change| format!("    {}", change_text(change))));
            }
        }
        lines
    }
}

/// `spec.nodeSelector[kubernetes.io/os]: windows (only nodes of that operating system can run it)`.
fn change_text(change: &Change) -> String {
    let reason = match change.cause {
        Cause::Placement(reason) => reason.to_owned(),
        Cause::Rule(code) => find(code).map_or_else(|| code.to_owned(), |rule| format!("{code} {}", rule.name)),
    };
    let text = line(&change.edit);
    let pointer = format!("/metadata/annotations/{}", escape(DECISION_ANNOTATION));
    // Its value repeats in JSON what the lines around it contain.
    let text = match text.split_once(": ") {
        Some((path, _)) if change.edit.pointer().ends_with(&pointer) => format!("{path}: the decision and its reason"),
        _ => text,
    };
    format!("{text} ({reason})")
}

/// The operating system and its reason: `windows, because of image …:ltsc2022, by tag`.
pub(crate) fn os_text(decision: &OsDecision) -> String {
    let OsDecision { os, basis, evidence, .. } = decision;
    let (name, reason) = (os.name(), decision_reason(decision));
    match (os, evidence.as_slice()) {
        (DetectedOs::Windows | DetectedOs::Linux, _) if *basis == Basis::Default => format!("{name}, because {reason}"),
        (_, []) if *os == DetectedOs::Conflict => format!("{name}: its node constraints require Linux and Windows"),
        (_, []) => format!("{name}: there is no evidence"),
        (DetectedOs::Windows | DetectedOs::Linux, _) => format!("{name}, because of {reason}"),
        (DetectedOs::Conflict, _) => format!("{name}: two placements exclude each other"),
        (DetectedOs::Undecided, [first, ..]) => format!("{name}: {}", undecided_text(first, evidence, &reason)),
    }
}

/// Why the evidence decides nothing; `first` is the first piece of evidence, and `reason` contains its source.
fn undecided_text(first: &Evidence, evidence: &[Evidence], reason: &str) -> String {
    match (first.os, &first.source) {
        (EvidenceOs::Any, _) => format!("{reason} allows any operating system"),
        (EvidenceOs::Multi, EvidenceSource::Image { image, .. }) => {
            format!("image {image} exists for Windows and Linux")
        }
        (EvidenceOs::Multi, _) => format!("{reason} is for Windows and Linux"),
        (EvidenceOs::LooksWindows, _) => format!("{reason} looks like Windows, which is not enough to decide"),
        (EvidenceOs::Os(os), _) => {
            let differs = |other: &Evidence| matches!(other.os, EvidenceOs::Os(other) if other != os);
            if evidence.iter().any(differs) {
                "its images are for different operating systems".to_owned()
            } else {
                "its own fields leave the operating system open".to_owned()
            }
        }
    }
}

/// `image indicates windows: spec.containers[0].image shop/web:win, by policy pattern shop/* (policies/a.yaml:7)`.
pub(crate) fn evidence_text(evidence: &Evidence, review: &Review) -> String {
    let EvidenceRecord { source, name, image, how, path, .. } = EvidenceRecord::new(evidence);
    let place: Vec<&str> = [path.as_deref(), image, name].into_iter().flatten().collect();
    let pattern = image.filter(|_| how == Some("policy")).and_then(|image| review.settings.images.find(image));
    let how = match (pattern, how) {
        (Some(pattern), _) => {
            let place = pattern.origin.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
            format!(", by policy pattern {}{place}", pattern.pattern)
        }
        (None, Some(how)) => format!(", by {how}"),
        (None, None) => String::new(),
    };
    let verb = match evidence.os {
        EvidenceOs::Os(os) => format!("indicates {}", os.name()),
        EvidenceOs::Any => "allows any operating system".to_owned(),
        EvidenceOs::Multi => "exists for windows and linux".to_owned(),
        EvidenceOs::LooksWindows => "looks like windows, which alone decides nothing".to_owned(),
    };
    format!("{source} {verb}: {}{how}", place.join(" "))
}

#[cfg(test)]
mod tests {

    use mullion_engine::model::Os;

    use super::*;

    /// Each kind of evidence alone and with others: no identifier of the code is printed.
    #[test]
    fn every_decision_is_a_clause() {
        let field = |pointer: &str| EvidenceSource::Field(pointer.to_owned());
        let image = |name: &str| EvidenceSource::Image {
            pointer: "/spec/containers/0/image".to_owned(),
            image: name.to_owned(),
            how: "tag",
        };
        let decision = |os, evidence: Vec<(EvidenceOs, EvidenceSource)>| OsDecision {
            os,
            basis: Basis::Intent,
            placement: true,
            evidence: evidence.into_iter().map(|(os, source)| Evidence { os, source }).collect(),
        };
        let (windows, linux) = (EvidenceOs::Os(Os::Windows), EvidenceOs::Os(Os::Linux));
        let table = [
            (decision(DetectedOs::Windows, vec![(windows, image("a:win"))]), "windows, because of image a:win, by tag"),
            (decision(DetectedOs::Linux, vec![(linux, field("/spec/os/name"))]), "linux, because of spec.os.name"),
            (decision(DetectedOs::Undecided, vec![]), "undecided: there is no evidence"),
            (
                decision(DetectedOs::Undecided, vec![(EvidenceOs::LooksWindows, field("/spec/containers/0/command"))]),
                "undecided: spec.containers[0].command looks like Windows, which is not enough to decide",
            ),
            (
                decision(DetectedOs::Undecided, vec![(EvidenceOs::Multi, image("a:1"))]),
                "undecided: image a:1 exists for Windows and Linux",
            ),
            (
                decision(DetectedOs::Undecided, vec![(EvidenceOs::Any, EvidenceSource::Policy("a.yaml:3".to_owned()))]),
                "undecided: policy a.yaml:3 allows any operating system",
            ),
            (
                decision(DetectedOs::Undecided, vec![(windows, image("a:win")), (linux, image("b:linux"))]),
                "undecided: its images are for different operating systems",
            ),
            (
                decision(DetectedOs::Undecided, vec![(windows, image("a:win"))]),
                "undecided: its own fields leave the operating system open",
            ),
            (
                decision(DetectedOs::Conflict, vec![(windows, field("/spec/os/name"))]),
                "conflict: two placements exclude each other",
            ),
            (decision(DetectedOs::Conflict, vec![]), "conflict: its node constraints require Linux and Windows"),
        ];
        for (decision, expected) in table {
            assert_eq!(os_text(&decision), expected);
        }
        let default = OsDecision { basis: Basis::Default, ..decision(DetectedOs::Linux, vec![]) };
        assert_eq!(os_text(&default), "linux, because nothing specifies the operating system (Linux default)");
    }
}
