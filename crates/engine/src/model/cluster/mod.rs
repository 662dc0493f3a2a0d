//! The facts of a cluster: nodes, taints, RuntimeClasses, namespaces.
//!
//! A fact that is missing is a value, never an error.

pub mod namespace;
pub mod namespace_restrictions;
pub mod node_labels;
pub mod nodes;
pub mod runtime_class;
pub mod snapshot;
pub mod taint;
