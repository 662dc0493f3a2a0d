//! What pods ask of nodes, and whether a node satisfies it, as the Kubernetes scheduler has it.

pub mod node_constraints;
pub mod node_fit;
pub mod tolerations;
