//! Decides which operating system a pod needs, where it can run, what Windows cannot do, and what a node gets.
//!
//! The two entry points are [`admission::review::review`] for a workload and [`node::plan_node`] for a node. Both
//! are total and synchronous: no I/O, no clock, no environment. A fact that is missing is a value, never an error.
//!
//! ```text
//! ReviewRequest, ClusterSnapshot, ReviewSettings → detect → place → rules → patch → Review → respond → ReviewResponse
//! NodeFacts, NodeSettings → node → NodePatch
//! ```
//!
//! Each top-level module imports only those on its left: `model` ← `detect` ← `place` ← `rules` ← `patch` ←
//! `admission`; `node` imports `model` and `detect`, and `pod_templates` imports `model`.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod admission;
pub mod detect;
pub mod model;
pub mod node;
pub mod patch;
pub mod place;
pub mod pod_templates;
pub mod rules;
