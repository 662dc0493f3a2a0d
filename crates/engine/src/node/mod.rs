//! What a Windows node gets: labels, a taint, a record of both, and when the taint must wait.
//!
//! [`plan::plan_node`] is a pure function of the node's current state: a second plan changes nothing. Imports `model`
//! and `detect`; no other room imports it.

pub mod draft;
pub mod facts;
pub mod node_create;
pub mod node_patch;
pub mod owned_record;
pub mod plan;
pub mod taint_blockers;
pub mod taint_decision;
