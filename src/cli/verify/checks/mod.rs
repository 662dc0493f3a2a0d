//! The checks: what each reads or asks, and its outcome. [`nodes`] and [`reported`] look at facts that were read once,
//! [`admission`] sends dry runs, and [`pods`] creates pods.

pub(super) mod admission;
pub(super) mod before;
mod context;
pub(super) mod nodes;
mod outcome;
pub(super) mod pods;
pub(super) mod reported;

pub(super) use context::CheckContext;
pub(super) use outcome::{CheckOutcome, audit};
