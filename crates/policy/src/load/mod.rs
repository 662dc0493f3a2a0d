//! The loader: policy files to a policy set, or to all their problems, each with its place.
//!
//! One walk along the schema checks a document; only a valid document is converted into a type.

mod check;
mod disputes;
mod hints;
mod loader;
mod overlaps;
mod rule_names;
mod values;

pub(crate) use check::Checker;
pub use loader::{BUILT_IN, MAX_POLICIES};
pub(crate) use values::{max_length, text_pattern};
