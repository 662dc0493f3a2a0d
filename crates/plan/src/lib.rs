//! How a fleet moves to another Windows release: the report of `mullion plan`.
//!
//! ```text
//! Inventory, MoveScope → WorkloadMove for each Windows workload (verdict, uses, edits, demand) → steps, changes, calendar → PlanReport
//! ```
//!
//! [`report`] is the report, from which every format starts. What it shares with a survey stands in
//! [`mullion_survey`]: the inventory, the view of a workload, and the tables of facts. Nothing here reads files or
//! clusters, and the time is an argument.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod calendar;
mod changes;
mod commands;
mod constraints;
mod context;
mod demand;
mod edits;
mod needs;
mod planner;
pub mod report;
mod scope;
mod steps;
mod summary;
#[cfg(test)]
mod test_fleet;
#[cfg(test)]
mod test_nodes;
mod unknown;
mod uses;
mod verdicts;
mod workload_move;

pub use commands::quoted;
pub use context::PlanContext;
pub use planner::{plan, wanted_images};
pub use report::PlanReport;
