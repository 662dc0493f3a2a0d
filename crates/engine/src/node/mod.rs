//! What a Windows node gets ([`MANAGED_LABELS`], a taint, a record of both), and when the taint must wait.
//!
//! [`plan_node`] is a pure function of the node's current state: a second plan changes nothing. Imports `model`
//! and `detect`; no other top-level module imports it.

pub mod facts;
mod managed;
mod node_create;
mod node_patch;
mod owned_record;
mod plan;
pub mod taint_blockers;
mod taint_decision;

pub use facts::{NodeFacts, is_windows_node, plan_reads_label};
pub use managed::{MANAGED_LABELS, ManagedLabel};
pub use node_create::{Claimants, changes, plan_create, taint_on_create};
pub use node_patch::{NodePatch, NodePlan, TaintHold};
pub use plan::{own_labels, plan_node, recorded_taint, withdraw_node};
pub use taint_blockers::{
    BoundPod, DaemonSetFacts, TaintBlocker, belongs, blockers, is_windows_pod, needs_pods, reaches, selects_linux,
};
