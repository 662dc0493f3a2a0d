//! Cluster snapshots from the output of `kubectl get -o json`, and platforms of images from `ImagePlatforms` files.
//!
//! [`dump`] reads files, [`lists`] expands lists, [`objects`] turns single Kubernetes objects into facts, [`ImagePlatforms`]
//! is what registries report. Nothing here decides: the engine defines what a missing fact means. The policy crate and the
//! program import this crate.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod dump;
mod image_platforms;
pub mod lists;
pub mod objects;

pub use dump::from_text;
pub use image_platforms::ImagePlatforms;
pub use objects::{LabelMap, MANAGED_BY, NodeSpec, NodeStatus, facts_from_json, is_ours, or_default};
