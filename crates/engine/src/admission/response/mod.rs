//! The response to a request: a denial, or a patch with warnings, and audit annotations.
//!
//! The webhook's response is small whatever the object contains ([`response_size`]); the number of findings that are
//! counted and denied is not limited.

mod audit_annotations;
mod counted_outcome;
mod denial;
mod respond;
mod response_size;
mod review_outcomes;
#[cfg(test)]
mod tests;
mod warnings;

pub use audit_annotations::AUDIT_LIMIT;
pub use counted_outcome::CountedOutcome;
pub use denial::{Denial, DenialCause, DenialStatus};
pub use respond::{ReviewResponse, respond, respond_in_full};
pub use warnings::WARNING_LIMIT;
