//! Warnings: findings that do not deny, and hints, for the sender of the request.

use crate::admission::finding_outcome::{FindingOutcome, denies_its_pods};
use crate::admission::request_category::RequestCategory;
use crate::admission::response::response_size::{ResponseSize, line_for_more};
use crate::admission::response::review_outcomes::ReviewOutcomes;
use crate::model::text::{shorten, thousands};
use crate::rules::Finding;

/// The length that the Kubernetes documentation recommends for one warning
/// (extensible-admission-controllers.md), in characters.
pub const WARNING_LIMIT: usize = 120;

/// The warnings, most important first, at most [`WARNING_LIMIT`] characters each.
pub(crate) fn warnings(outcomes: &ReviewOutcomes<'_>, size: ResponseSize) -> Vec<String> {
    let ReviewOutcomes { review, audit_only, .. } = *outcomes;
    let mut reported: Vec<(&Finding, FindingOutcome)> = outcomes
        .findings
        .iter()
        .filter(|(finding, outcome)| is_reported(outcomes, finding, *outcome))
        .copied()
        .collect();
    reported.sort_by_key(|(_, outcome)| std::cmp::Reverse(*outcome));
    let (reported, more) = size.select(reported, |(finding, _)| finding.code);
    let texts = reported.into_iter().map(|(finding, outcome)| text(outcomes, finding, outcome));
    let mut warnings: Vec<String> =
        texts.chain(line_for_more(more)).map(|text| shorten(&text, WARNING_LIMIT)).collect();
    if !audit_only {
        warnings.extend(review.hint.as_deref().map(|hint| shorten(hint, WARNING_LIMIT)));
    } else if let Some(os) = review.decision.decided().filter(|_| outcomes.is_placed()) {
        warnings.push(format!("Mullion (audit) would place this on {} nodes", os.title()));
    }
    warnings
}

/// The only warning about an object that is neither denied nor changed, because its patch is too large to send.
pub(crate) fn unsent_patch_warning(operations: usize) -> String {
    let text =
        format!("Mullion changes nothing: {} changes are more than one response may contain", thousands(operations));
    shorten(&text, WARNING_LIMIT)
}

fn is_reported(outcomes: &ReviewOutcomes<'_>, finding: &Finding, outcome: FindingOutcome) -> bool {
    match outcome {
        FindingOutcome::Denied => outcomes.audit_only,
        FindingOutcome::Nothing | FindingOutcome::Labelled => false,
        FindingOutcome::Repaired => {
            !finding.quiet && !matches!(outcomes.review.category, RequestCategory::OwnedPod { .. })
        }
        FindingOutcome::Warned => true,
    }
}

/// The text about a reported finding.
fn text(outcomes: &ReviewOutcomes<'_>, finding: &Finding, outcome: FindingOutcome) -> String {
    let (before, done) = match outcome {
        FindingOutcome::Denied => ("would deny: ", ""),
        FindingOutcome::Repaired if outcomes.is_removed(finding) => {
            match (outcomes.audit_only, finding.replacement.is_some()) {
                (true, false) => ("would remove: ", ""),
                (true, true) => ("would replace: ", ""),
                (false, false) => ("", " removed"),
                (false, true) => ("", " replaced"),
            }
        }
        // The template is stored, but its pods are denied.
        FindingOutcome::Warned if denies_its_pods(outcomes.review, finding) => ("pods denied: ", ""),
        _ => ("", ""),
    };
    finding.line(before, done, WARNING_LIMIT)
}
