//! What a Windows node gets: labels, a taint, a record of both, and when the taint must wait.
//!
//! [`plan::plan_node`] is a pure function of the node's current state: a second plan changes nothing. Imports `model`
//! and `detect`; no other top-level module imports it.

mod draft;
pub mod facts;
mod node_create;
mod node_patch;
mod owned_record;
pub mod plan;
pub mod taint_blockers;
mod taint_decision;

pub use facts::{NodeFacts, is_windows_node, plan_reads_label};
pub use node_create::{Claimants, changes, plan_create, taint_on_create};
pub use node_patch::{NodePatch, NodePlan, TaintHold};
pub use plan::{plan_node, wanted_taint};
pub use taint_blockers::{
    BoundPod, DaemonSetFacts, TaintBlocker, belongs, blockers, is_windows_pod, needs_pods, reaches, selects_linux,
};
