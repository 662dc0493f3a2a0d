//! From policy files to a policy set, or to every problem they have, each with its place.
//!
//! One walk along the schema checks a document; only what is right becomes a type.

pub mod check;
pub mod disputes;
pub mod hints;
pub mod loader;
pub mod overlaps;
pub mod rule_names;
pub mod values;
