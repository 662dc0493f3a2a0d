//! `spec.match` of a policy: name patterns, label selectors, and how they read as a sentence.

pub mod describe;
pub mod glob;
pub mod matches;
pub mod selector;
