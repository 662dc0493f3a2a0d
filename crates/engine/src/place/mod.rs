//! Where a workload can run: node selector, tolerations, Windows builds, RuntimeClass.
//!
//! What the author wrote is never replaced, and nothing is added that the namespace would reject. Imports `model` and `detect`;
//! `rules`, `patch` and `admission` import it.

pub mod build_constraints;
pub mod builds;
pub mod context;
pub mod node_selector;
pub mod placement_changes;
pub mod runtime_class;
pub mod tolerations;
