//! Which operating system a workload needs: evidence, the decision, and the Linux default.
//!
//! A wrong "Windows" or a wrong "Linux" costs a pod, "Undecided" costs little: in doubt nothing decides. Imports
//! `model`; every other room may import it.

pub mod author_fields;
pub mod container_images;
pub mod decide;
pub mod earlier_placement;
pub mod image_evidence;
pub mod image_names;
pub mod input;
pub mod linux_default;
pub mod node_evidence;
pub mod node_pool;
pub mod scope;
pub mod windows_hints;
