//! Audit annotations: the decision, the findings, and in audit mode what would happen.

use std::collections::{BTreeMap, BTreeSet};

use crate::admission::finding_outcome::FindingOutcome;
use crate::admission::response::review_outcomes::ReviewOutcomes;
use crate::model::json_pointer::field_path;
use crate::model::text::list_within;
use crate::model::{Cause, Change};
use crate::patch::decision_reason;
use crate::rules::Finding;

/// The longest value of an audit annotation, in bytes. It is stored with the audit event of every request, and an
/// object can have as many findings as fit into it.
pub const AUDIT_LIMIT: usize = 2_048;

/// The audit annotations: key without prefix, value.
pub(crate) fn audit_annotations(outcomes: &ReviewOutcomes<'_>) -> BTreeMap<&'static str, String> {
    let review = outcomes.review;
    let mut annotations = BTreeMap::new();
    if let Some(os) = review.decision.decided() {
        let decision = format!("{} by {}", os.name(), decision_reason(&review.decision));
        annotations.insert("decision", list_within([decision], 1, ", ", AUDIT_LIMIT));
    }
    let findings: Vec<&Finding> = outcomes.findings.iter().map(|(finding, _)| *finding).collect();
    annotations.extend(places(&findings).map(|value| ("findings", value)));
    if !review.unusable.is_empty() {
        let value = list_within(&review.unusable, review.unusable.len(), "; ", AUDIT_LIMIT);
        annotations.insert("unusable", value);
    }
    if outcomes.audit_only {
        let denied: Vec<&Finding> = outcomes.with(FindingOutcome::Denied).collect();
        annotations.extend(places(&denied).map(|value| ("would-deny", value)));
        annotations.extend(would_change(&review.changes).map(|value| ("would-change", value)));
    }
    annotations
}

/// Code and place of each finding; `None` if there are none.
fn places(findings: &[&Finding]) -> Option<String> {
    let items = findings.iter().map(|finding| format!("{} {}", finding.code, finding.path));
    (!findings.is_empty()).then(|| list_within(items, findings.len(), ", ", AUDIT_LIMIT))
}

/// The place of each change with its reason, each place once. The values are left out because they may be secret, and
/// because the object contains them.
fn would_change(changes: &[Change]) -> Option<String> {
    let mut known = BTreeSet::new();
    let reasons = changes.iter().map(|Change { cause, edit }| match cause {
        Cause::Placement(reason) => (edit.pointer(), *reason),
        Cause::Rule(code) => (edit.pointer(), *code),
    });
    let reasons: Vec<(&str, &str)> = reasons.filter(|reason| known.insert(*reason)).collect();
    let items = reasons.iter().map(|(pointer, reason)| format!("{} ({reason})", field_path(pointer)));
    (!reasons.is_empty()).then(|| list_within(items, reasons.len(), ", ", AUDIT_LIMIT))
}
