//! Where a workload can run: node selector, tolerations, Windows builds, RuntimeClass.
//!
//! The author's values are never replaced, and nothing is added that the namespace would reject. Imports `model` and
//! `detect`; `rules`, `patch` and `admission` import it.

mod build_constraints;
mod builds;
mod context;
mod left_out;
mod left_out_nodes;
mod new_containers;
mod node_selector;
mod placement_changes;
mod pool_terms;
mod runtime_class;
mod tolerations;

pub(crate) use build_constraints::{
    add_build_exclusion, add_build_label, build_exclusion, can_exclude, constrain_build, exclude_builds_in_template,
    impossible_builds, takes_build_exclusion, wants_build,
};
pub(crate) use builds::{pod_builds, runs_on};
pub(crate) use context::{CheckScope, WorkloadContext};
pub(crate) use left_out::find_left_out_nodes;
pub use left_out_nodes::LeftOutNodes;
pub(crate) use new_containers::new_ephemeral_containers;
pub(crate) use node_selector::{add_node_selector, lacks_node_selector, runs_only_on_windows};
pub(crate) use placement_changes::PlacementChanges;
pub(crate) use runtime_class::assign_runtime_class;
pub use runtime_class::{BuildRuntimeClass, runtime_class_of_build};
pub use tolerations::{LEARNED_TAINTS, find_marker_taints, find_unlearned_taints, learned_size};
pub(crate) use tolerations::{
    MissingToleration, add_tolerations, has_many_taints, missing_tolerations, tolerations_whitelist, wanted_tolerations,
};
