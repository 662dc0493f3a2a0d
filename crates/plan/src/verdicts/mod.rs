//! Whether each container of a workload runs on nodes of the target, and why.
//!
//! ```text
//! WorkloadView → ImageEvidence for each container → ImageJudge → PlannedContainer
//! ```

mod baseline;
mod containers;
mod evidence;
mod gap;
mod judge;
#[cfg(test)]
mod tests;

pub(crate) use containers::{containers, worst};
pub(crate) use gap::Gap;
