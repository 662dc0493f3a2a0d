//! Detects which operating system a workload needs: evidence, the decision, and the Linux default.
//!
//! A wrong "Windows" or a wrong "Linux" costs a pod, "Undecided" costs little. Therefore uncertain evidence does not
//! decide. Imports `model`; every other top-level module may import it.

mod author_fields;
mod container_images;
mod decide;
mod earlier_placement;
mod explicitly_linux;
mod image_evidence;
pub mod image_names;
mod input;
mod linux_default;
mod node_evidence;
mod node_pool;
mod scope;
mod windows_hints;

pub(crate) use author_fields::read_os_annotation;
pub(crate) use container_images::{ContainerImage, VolumeImage, images_of, volume_images_of};
pub use container_images::{ImageFacts, image_facts};
pub(crate) use decide::decide;
pub use explicitly_linux::is_explicitly_linux;
pub(crate) use input::{DetectionInput, EarlierPlacement};
pub use linux_default::NoDefault;
pub(crate) use linux_default::{DefaultCandidate, check_linux_default};
pub(crate) use node_evidence::place_of;
pub(crate) use windows_hints::PIPES;
pub use windows_hints::{is_windows_path, is_windows_shell, windows_path_start};
