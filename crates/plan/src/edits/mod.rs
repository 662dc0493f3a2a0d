//! What to change in a workload so that its pods run in the new pool, and only there.
//!
//! [`placement`] and [`runtime_class`] edit a copy of the pod's spec ([`pod_spec`]), [`strategic_patch`] compares the copy with
//! the live spec, [`commands`] and [`words`] say how to make the change, and [`edit_workload`] puts these together.

mod cluster_needs;
mod commands;
mod edit_workload;
mod placement;
mod pod_spec;
mod runtime_class;
mod siblings;
mod strategic_patch;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use cluster_needs::{keeps_others_off, object_changes, set_step};
pub(crate) use edit_workload::edit;
pub(crate) use siblings::leave_behind;
