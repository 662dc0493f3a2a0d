//! The steps of the move, in order: `steps()` puts them together.
//!
//! ```text
//! control plane → new pool, closed → gate → waves of workloads → old pools removed → new pool open → control plane
//! ```
//!
//! `in_place()` is the other way, which some providers offer: old pools change their release in place.

mod capacity;
mod commands;
mod control_plane;
mod disruptions;
mod gate;
mod in_place;
mod pools;
mod step_input;
mod step_list;
#[cfg(test)]
mod tests;
mod waves;

pub(crate) use disruptions::budgets_that_allow;
pub(crate) use in_place::in_place;
pub(crate) use step_input::StepInput;
pub(crate) use step_list::steps;
