//! Mullion places and checks pods by operating system in mixed Windows/Linux Kubernetes clusters.

pub mod engine;
pub mod manifest;
pub mod policy;
