//! Repairs: removes fields that do not work on Windows, and adds what replaces them.

use crate::model::settings::Action;
use crate::model::{Cause, Change, Edit};
use crate::rules::{Finding, RejectedBy};

/// Removes the field of each finding with action `Repair`, and adds what replaces it.
pub(crate) fn repair<'f>(findings: impl Iterator<Item = &'f Finding>, changes: &mut Vec<Change>) {
    for finding in findings.filter(|finding| finding.action == Action::Repair) {
        let edit = Edit::Remove { pointer: finding.pointer.clone() };
        let cause = Cause::Rule(finding.code);
        changes.extend(finding.replacement.clone().map(|edit| Change { cause, edit }));
        changes.push(Change { cause, edit });
    }
}

/// The findings for which the API server would reject the object.
pub(crate) fn rejected_by_server(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.rejected_by == RejectedBy::ApiServer)
}
