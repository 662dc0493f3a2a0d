//! Cluster snapshots from what `kubectl get -o json` prints, and platforms of images from `ImagePlatforms` files.
//!
//! [`dump`] reads files, [`objects`] turns single Kubernetes objects into facts, [`image_platforms`] reads what
//! registries report. Nothing here decides: the engine defines what a missing fact means. The policy crate and the
//! program import this crate.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod dump;
pub mod image_platforms;
pub mod objects;
