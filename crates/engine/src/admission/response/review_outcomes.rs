//! The findings of a review with their outcomes, and the fields that its changes remove.

use std::collections::BTreeSet;

use crate::admission::finding_outcome::{FindingOutcome, outcome_of};
use crate::admission::review::Review;
use crate::model::Endpoint;
use crate::model::settings::Mode;
use crate::model::{Cause, Edit};
use crate::rules::Finding;
use crate::rules::os_intent::UNDONE;

/// The outcomes of a review at one endpoint.
pub(crate) struct ReviewOutcomes<'a> {
    /// The review.
    pub(crate) review: &'a Review,
    /// Each finding that counts at the endpoint, in the review's order.
    pub(crate) findings: Vec<(&'a Finding, FindingOutcome)>,
    /// Whether nothing is changed or denied: `mode: Audit`.
    pub(crate) audit_only: bool,
    /// The pointers that the changes remove.
    removed: BTreeSet<&'a str>,
}

impl<'a> ReviewOutcomes<'a> {
    pub(crate) fn new(review: &'a Review, endpoint: Endpoint) -> Self {
        let findings = review
            .findings
            .iter()
            // At /mutate Mullion restores the placement.
            .filter(|finding| endpoint == Endpoint::Validate || finding.code != UNDONE.code)
            .map(|finding| (finding, outcome_of(finding, review.category, review.settings.templates)))
            .collect();
        let removed = review.changes.iter().filter_map(|change| match &change.edit {
            Edit::Remove { pointer } => Some(pointer.as_str()),
            Edit::Set { .. } | Edit::Append { .. } => None,
        });
        Self { review, findings, audit_only: review.settings.mode == Mode::Audit, removed: removed.collect() }
    }

    /// The findings with the outcome `wanted`.
    pub(crate) fn with(&self, wanted: FindingOutcome) -> impl Iterator<Item = &'a Finding> {
        self.findings.iter().filter(move |(_, outcome)| *outcome == wanted).map(|(finding, _)| *finding)
    }

    /// Whether the review's changes remove the finding's field.
    pub(crate) fn is_removed(&self, finding: &Finding) -> bool {
        self.removed.contains(finding.pointer.as_str())
    }

    /// Whether the review's changes place the workload.
    pub(crate) fn is_placed(&self) -> bool {
        self.review.changes.iter().any(|change| matches!(change.cause, Cause::Placement(_)))
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::admission::RequestCategory;
    use crate::model::settings::Action;
    use crate::model::{Change, OsDecision};
    use crate::rules::find;

    /// Pointers that begin with each other, and some that are removed, set or both.
    fn pointer() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!["spec", "containers", "0", "1", "10"]), 1..4)
            .prop_map(|tokens| format!("/{}", tokens.join("/")))
    }

    fn edit() -> impl Strategy<Value = Edit> {
        (pointer(), 0..3).prop_map(|(pointer, what)| match what {
            0 => Edit::Set { pointer, value: json!(1) },
            1 => Edit::Append { pointer, value: json!(1) },
            _ => Edit::Remove { pointer },
        })
    }

    proptest! {
        #[test]
        fn a_field_is_removed_if_a_change_removes_it(
            edits in prop::collection::vec(edit(), 0..300),
            fields in prop::collection::vec(pointer(), 1..20),
        ) {
            let changes = edits.iter().map(|edit| Change { cause: Cause::Rule("MUL202"), edit: edit.clone() });
            let finding = |field: &String| Finding::new(find("MUL202").unwrap(), Action::Repair, field.clone(), "");
            let review = Review {
                settings: Arc::default(),
                category: RequestCategory::Pod,
                decision: OsDecision::undecided(Vec::new(), false),
                no_default: None,
                findings: fields.iter().map(finding).collect(),
                changes: changes.collect(),
                wanted: Vec::new(),
                hint: None,
                left_out: None,
                namespace_unknown: false,
                unusable: Vec::new(),
            };
            let outcomes = ReviewOutcomes::new(&review, Endpoint::Mutate);
            for finding in &review.findings {
                let expected = edits.contains(&Edit::Remove { pointer: finding.pointer.clone() });
                prop_assert_eq!(outcomes.is_removed(finding), expected, "{}", finding.pointer);
            }
        }
    }
}
