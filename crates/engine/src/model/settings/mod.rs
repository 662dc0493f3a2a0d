//! Settings that policies set, as plain values: the engine knows no policy files.
//!
//! Each value has its default here. The policy crate fills them in.

pub mod image_patterns;
pub mod labels;
pub mod node_settings;
pub mod origin;
pub mod review_settings;
pub mod rule_actions;
pub mod wildcard;
pub mod workload_settings;
