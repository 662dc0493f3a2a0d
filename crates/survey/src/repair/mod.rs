//! Pods that can never start where they are: what shows it, what their owners make in their place, and what can be done.
//!
//! ```text
//! Inventory → find_stuck (evidence → owner → successor → job_attempts) → StuckPod with its action
//! ```
//!
//! [`find_stuck()`] reads an inventory. [`restrict_to_volumes`] and [`check_again()`] compare what it found with objects
//! that are read later, right before a pod is evicted.

mod check_again;
mod evidence;
mod find_stuck;
mod job_attempts;
mod owner;
mod started_images;
mod stuck_pod;
mod successor;
mod volumes;

#[cfg(test)]
mod tests;

pub use check_again::{FreshPod, check_again, read_again};
pub use find_stuck::{RepairContext, StuckReport, find_stuck};
pub use stuck_pod::{LeaveReason, PodOwner, RepairAction, StuckEvidence, StuckPod};
pub use successor::ReviewCall;
pub use volumes::{claim_names, restrict_to_volumes};
