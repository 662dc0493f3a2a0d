//! `spec.match` of a policy: name patterns, label selectors, and how they read as a sentence.

mod describe;
mod glob;
mod matches;
mod selector;

pub(crate) use glob::Glob;
pub(crate) use matches::{NamespaceMatch, PolicyMatch};
pub use selector::{LabelOperator, LabelRequirement, LabelSelector};
