//! The outcome of a check, before it has a name.

use crate::cli::verify::requests::{Refused, RefusedBy};
use crate::report::verify::VerifyStatus;

/// What a check found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::verify) struct CheckOutcome {
    pub(in crate::cli::verify) status: VerifyStatus,
    /// What was seen, or why the check did not run, as a clause.
    pub(in crate::cli::verify) seen: String,
    pub(in crate::cli::verify) items: Vec<String>,
}

impl CheckOutcome {
    fn new(status: VerifyStatus, seen: impl Into<String>) -> Self {
        Self { status, seen: seen.into(), items: Vec::new() }
    }

    pub(in crate::cli::verify) fn ok(seen: impl Into<String>) -> Self {
        Self::new(VerifyStatus::Ok, seen)
    }

    pub(in crate::cli::verify) fn failed(seen: impl Into<String>) -> Self {
        Self::new(VerifyStatus::Failed, seen)
    }

    pub(in crate::cli::verify) fn skipped(why: impl Into<String>) -> Self {
        Self::new(VerifyStatus::Skipped, why)
    }

    pub(in crate::cli::verify) fn not_tried(why: impl Into<String>) -> Self {
        Self::new(VerifyStatus::NotTried, why)
    }

    /// Good if there are no faults; otherwise failed, with the faults.
    pub(in crate::cli::verify) fn of_faults(
        good: impl Into<String>,
        bad: impl Into<String>,
        faults: Vec<String>,
    ) -> Self {
        if faults.is_empty() { Self::ok(good) } else { Self::failed(bad).with_items(faults) }
    }

    #[must_use]
    pub(in crate::cli::verify) fn with_items(self, items: Vec<String>) -> Self {
        Self { items, ..self }
    }

    /// The outcome for an object that should have been accepted.
    pub(in crate::cli::verify) fn refused(refused: &Refused) -> Self {
        let message = refused.message();
        match refused.by {
            RefusedBy::Mullion => Self::failed(format!("Mullion denied the object: {message}")),
            RefusedBy::CallOfMullion => Self::failed(format!("the API server could not call Mullion: {message}")),
            RefusedBy::PodSecurity => Self::skipped(format!("Pod Security is in the way: {message}")),
            RefusedBy::NotReadyYet | RefusedBy::Others => Self::skipped(format!("the object was refused: {message}")),
        }
    }
}

/// The outcome where Mullion does not act.
pub(in crate::cli::verify) fn audit(why: &str) -> CheckOutcome {
    CheckOutcome::skipped(format!("audit: {why}"))
}
