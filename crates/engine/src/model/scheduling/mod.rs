//! Scheduling constraints of pods, and whether a node satisfies them, by the rules of the Kubernetes scheduler.

pub(crate) mod node_constraints;
mod node_fit;
mod pod_requests;
mod tolerations;

pub(crate) use node_constraints::{
    MAX_COMPARISONS, NodeConstraints, OsWanted, REQUIRED_TERMS, admits, affinity_node_name, constrains,
    is_build_exclusion, is_build_presence, is_empty_term, labels_hold, requires_known_build, selector_os,
};
pub use node_constraints::{SETS, expressions, names_deciding_label, requirement_holds};
pub(crate) use node_fit::Term;
pub use node_fit::{Expression, SchedulingConstraints, TolerationTerm};
pub use pod_requests::{PodRequests, pod_requests};
pub(crate) use tolerations::{includes, tolerated, toleration_value};
pub use tolerations::{marks, toleration_of, toleration_word};
