//! The outcomes that metrics count.

use crate::admission::finding_outcome::FindingOutcome;
use crate::admission::response::review_outcomes::ReviewOutcomes;
use crate::model::Endpoint;
use crate::model::Os;
use crate::rules::Finding;

/// The outcome of a finding or a placement, for metrics. Each outcome is counted once per request, at the endpoint
/// where it takes place: changes at `/mutate`, a denial where it is made, everything else at `/validate`, which
/// receives the object once and in its final form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names explain them; those with `Would` are of `mode: Audit`")]
pub enum CountedOutcome {
    Denied,
    Repaired,
    Labelled,
    Warned,
    Placed,
    WouldDeny,
    WouldRepair,
    WouldLabel,
    WouldPlace,
}

impl CountedOutcome {
    /// `denied`, `would_deny`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Repaired => "repaired",
            Self::Labelled => "labelled",
            Self::Warned => "warned",
            Self::Placed => "placed",
            Self::WouldDeny => "would_deny",
            Self::WouldRepair => "would_repair",
            Self::WouldLabel => "would_label",
            Self::WouldPlace => "would_place",
        }
    }

    /// The outcome in audit mode, where nothing is done.
    const fn under_audit(self) -> Self {
        match self {
            Self::Denied => Self::WouldDeny,
            Self::Repaired => Self::WouldRepair,
            Self::Labelled => Self::WouldLabel,
            Self::Placed => Self::WouldPlace,
            other => other,
        }
    }

    const fn endpoint(self) -> Endpoint {
        match self {
            Self::Repaired | Self::Placed => Endpoint::Mutate,
            _ => Endpoint::Validate,
        }
    }
}

/// The outcomes to count at `endpoint` for a response that denies nothing: the code of each finding that has an outcome
/// there.
pub(crate) fn count_findings(outcomes: &ReviewOutcomes<'_>, endpoint: Endpoint) -> Vec<(&'static str, CountedOutcome)> {
    let here = |outcome| at_endpoint(outcomes, endpoint, outcome);
    let of = |finding: &Finding, outcome| match outcome {
        FindingOutcome::Nothing => None,
        // A denial is reported at the other endpoint.
        FindingOutcome::Denied if !outcomes.audit_only => None,
        FindingOutcome::Denied => here(CountedOutcome::Denied),
        FindingOutcome::Labelled => here(CountedOutcome::Labelled),
        FindingOutcome::Repaired if outcomes.is_removed(finding) => here(CountedOutcome::Repaired),
        FindingOutcome::Repaired if finding.quiet => None,
        FindingOutcome::Repaired | FindingOutcome::Warned => here(CountedOutcome::Warned),
    };
    outcomes.findings.iter().filter_map(|(finding, outcome)| Some((finding.code, of(finding, *outcome)?))).collect()
}

/// The outcome to count for the placement at `endpoint`.
pub(crate) fn count_placement(outcomes: &ReviewOutcomes<'_>, endpoint: Endpoint) -> Option<(Os, CountedOutcome)> {
    let os = outcomes.review.decision.decided().filter(|_| outcomes.is_placed())?;
    Some((os, at_endpoint(outcomes, endpoint, CountedOutcome::Placed)?))
}

fn at_endpoint(outcomes: &ReviewOutcomes<'_>, endpoint: Endpoint, outcome: CountedOutcome) -> Option<CountedOutcome> {
    let outcome = if outcomes.audit_only { outcome.under_audit() } else { outcome };
    (outcome.endpoint() == endpoint).then_some(outcome)
}
