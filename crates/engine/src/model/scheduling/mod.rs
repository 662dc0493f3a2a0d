//! Scheduling constraints of pods, and whether a node satisfies them, by the rules of the Kubernetes scheduler.

pub mod node_constraints;
pub mod node_fit;
pub mod tolerations;
