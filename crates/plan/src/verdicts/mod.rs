//! Whether nodes of the target run each container of a workload and mount each image volume, and why.
//!
//! ```text
//! WorkloadView → ImageEvidence for each container and image volume → ImageJudge → PlannedContainer
//! ```

mod baseline;
mod containers;
mod evidence;
mod gap;
mod judge;
#[cfg(test)]
mod tests;

pub(crate) use containers::containers;
pub(crate) use gap::Gap;
