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
mod runtime_class;
mod tolerations;

pub(crate) use build_constraints::{add_build_exclusion, build_exclusion, can_exclude, is_build_exclusion};
pub(crate) use builds::{pod_builds, runs_on};
pub(crate) use context::{CheckScope, WorkloadContext};
pub use left_out_nodes::LeftOutNodes;
pub(crate) use new_containers::new_ephemeral_containers;
pub(crate) use placement_changes::PlacementChanges;
pub use runtime_class::{BuildRuntimeClass, runtime_class_of_build};
pub use tolerations::{LEARNED_TAINTS, find_marker_taints, find_unlearned_taints, learned_size};
pub(crate) use tolerations::{MissingToleration, has_many_taints};
