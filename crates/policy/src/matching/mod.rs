//! `spec.match` of a policy: name patterns, label selectors, and how they read as a sentence.

mod describe;
mod matches;
mod selector;

pub(crate) use matches::PolicyMatch;
pub use selector::{LabelOperator, LabelRequirement, LabelSelector};
