//! The facts of a cluster: nodes, taints, RuntimeClasses, namespaces.
//!
//! A fact that is missing is a value, never an error.

mod admitted_toleration;
mod fact;
mod namespace;
pub(crate) mod namespace_restrictions;
mod namespace_selector;
mod node_labels;
pub mod nodes;
mod openshift_ranges;
mod runtime_class;
mod snapshot;
mod taint;

pub use admitted_toleration::AdmittedToleration;
pub use fact::{Excess, Fact, Unusable, UnusableFact};
pub use namespace::Namespace;
pub(crate) use namespace::opts_out;
pub use namespace_restrictions::TolerationsWhitelist;
pub(crate) use namespace_restrictions::{Contradiction, PodSecurity, PodSecurityLevel};
pub use namespace_selector::{NodeSelector, SELECTOR_PAIRS};
pub use node_labels::NodeParts;
pub use nodes::{DistinctTaints, Node, Nodes};
pub use runtime_class::{CLASS_TOLERATIONS, RuntimeClass};
pub use snapshot::ClusterSnapshot;
pub use taint::Taint;
