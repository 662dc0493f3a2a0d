//! The counts of a run of `mullion check`.

use std::fmt;

use mullion_engine::model::settings::Action;
use mullion_engine::model::text::counted;
use serde::Serialize;

/// The counts of a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckTotals {
    /// Pods and objects with a pod template; for an object of a kind that is not one of Kubernetes, each of its pods.
    pub workloads: usize,
    /// Those of them that Mullion does not review.
    pub not_reviewed: usize,
    /// All findings but silent repairs: the sum of the next four.
    pub findings: usize,
    /// Findings that deny.
    pub denied: usize,
    /// Findings that would deny without `mode: Audit`.
    pub would_deny: usize,
    /// Findings that warn.
    pub warned: usize,
    /// Findings that Mullion repairs.
    pub repaired: usize,
    /// Repairs of values that have no effect on Linux either. Only JSON has a record of each.
    pub silent_repairs: usize,
    /// Parts of objects: patches, and workloads without a field that every workload has.
    pub parts: usize,
    /// Kubernetes objects that are not a pod and have no pod template that was read.
    pub other_objects: usize,
    /// Objects with pods that could not be read, wholly or in part.
    pub not_read: usize,
    /// Documents without `apiVersion` or `kind`.
    pub skipped_documents: usize,
    /// Documents that are not YAML or JSON.
    pub broken_documents: usize,
    /// Files, kinds and objects that cannot be read.
    pub unreadable_files: usize,
    /// Empty inputs, and directories without manifests.
    pub empty_inputs: usize,
    /// Kustomizations whose result was not judged.
    pub unrendered: usize,
}

impl CheckTotals {
    /// Counts one finding that would deny without `mode: Audit`.
    pub(crate) fn count_would_deny(&mut self) {
        self.would_deny += 1;
        self.findings += 1;
    }

    /// Counts one finding; an allowed one is not counted. `silent`: whether it is a silent repair.
    pub(crate) fn count(&mut self, action: Action, silent: bool) {
        let counter = match action {
            _ if silent => {
                self.silent_repairs += 1;
                return;
            }
            Action::Allow => return,
            Action::Warn => &mut self.warned,
            Action::Repair => &mut self.repaired,
            Action::Deny => &mut self.denied,
        };
        *counter += 1;
        self.findings += 1;
    }
}

impl fmt::Display for CheckTotals {
    /// `3 workloads, 2 findings (1 denied, 1 warned), 1 skipped document`: without zero counts, except the first two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", counted(self.workloads, "workload"), counted(self.findings, "finding"))?;
        let by_action = [
            (self.denied, "denied"),
            (self.would_deny, "would be denied"),
            (self.warned, "warned"),
            (self.repaired, "repaired"),
        ];
        let by_action: Vec<String> =
            by_action.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if !by_action.is_empty() {
            write!(f, " ({})", by_action.join(", "))?;
        }
        if self.not_reviewed > 0 {
            write!(f, ", {} not reviewed", self.not_reviewed)?;
        }
        let parts = match self.parts {
            0 => String::new(),
            1 => ", 1 part of an object".to_owned(),
            parts => format!(", {parts} parts of objects"),
        };
        if self.silent_repairs > 0 {
            write!(f, ", {}", counted(self.silent_repairs, "silent repair"))?;
        }
        f.write_str(&parts)?;
        if self.not_read > 0 {
            write!(f, ", {} not read", self.not_read)?;
        }
        for (count, what) in [
            (self.other_objects, "other object"),
            (self.skipped_documents, "skipped document"),
            (self.broken_documents, "broken document"),
            (self.unreadable_files, "unreadable input"),
            (self.empty_inputs, "empty input"),
            (self.unrendered, "kustomization"),
        ] {
            if count > 0 {
                write!(f, ", {}", counted(count, what))?;
            }
        }
        if self.unrendered > 0 {
            f.write_str(" not rendered")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn totals_are_one_line() {
        let table = [
            (CheckTotals::default(), "0 workloads, 0 findings"),
            (
                CheckTotals {
                    workloads: 3,
                    findings: 2,
                    denied: 1,
                    warned: 1,
                    skipped_documents: 1,
                    ..CheckTotals::default()
                },
                "3 workloads, 2 findings (1 denied, 1 warned), 1 skipped document",
            ),
            (
                CheckTotals { workloads: 4, not_reviewed: 3, findings: 1, would_deny: 1, ..CheckTotals::default() },
                "4 workloads, 1 finding (1 would be denied), 3 not reviewed",
            ),
            (
                CheckTotals {
                    workloads: 1,
                    findings: 1,
                    repaired: 1,
                    silent_repairs: 2,
                    other_objects: 2,
                    parts: 1,
                    broken_documents: 1,
                    empty_inputs: 1,
                    unrendered: 2,
                    ..CheckTotals::default()
                },
                "1 workload, 1 finding (1 repaired), 2 silent repairs, 1 part of an object, 2 other objects, 1 broken document, \
                 1 empty input, 2 kustomizations not rendered",
            ),
        ];
        for (totals, expected) in table {
            assert_eq!(totals.to_string(), expected);
        }
    }

    #[test]
    fn allowed_findings_and_silent_repairs_are_not_among_the_findings() {
        let mut totals = CheckTotals::default();
        for action in [Action::Allow, Action::Warn, Action::Repair, Action::Deny, Action::Deny] {
            totals.count(action, false);
        }
        totals.count(Action::Repair, true);
        assert_eq!((totals.findings, totals.denied, totals.warned, totals.repaired), (4, 2, 1, 1));
        assert_eq!(totals.silent_repairs, 1);
    }
}
