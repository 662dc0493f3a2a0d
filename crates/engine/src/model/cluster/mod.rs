//! The facts of a cluster: nodes, taints, RuntimeClasses, namespaces.
//!
//! A fact that is missing is a value, never an error.

mod namespace;
pub(crate) mod namespace_restrictions;
mod node_labels;
pub mod nodes;
mod runtime_class;
mod snapshot;
mod taint;

pub use namespace::Namespace;
pub(crate) use namespace::opts_out;
pub use namespace_restrictions::TolerationsWhitelist;
pub(crate) use namespace_restrictions::{PodSecurity, PodSecurityLevel};
pub use node_labels::NodeParts;
pub use nodes::{Node, Nodes};
pub use runtime_class::RuntimeClass;
pub use snapshot::ClusterSnapshot;
pub use taint::Taint;
