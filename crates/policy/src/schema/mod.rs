//! Tables of the keys in policy files and in their test files.
//!
//! A key is declared where its value is: the settings of pods and nodes in
//! [`mullion_engine::model::settings`], the RegistryPolicy, `match` and test files in this crate. [`KINDS`] puts them
//! together into one table for each kind of document. The loader checks and reads files with these tables; the JSON
//! Schemas ([`json`]) and the pages `docs/reference/*-policy.md` are generated from them.

pub mod json;
mod kinds;

pub use kinds::{API_VERSION, KINDS, PolicyKind, PolicyMetadata, TEST_KINDS, TestKind};
pub(crate) use kinds::{Kinds, NODE_SPEC, POD_SPEC, POLICY_TEST};
pub use mullion_engine::model::schema::{
    KeyConstraint, PolicyKey, SchemaKey, SchemaObject, SchemaWord, TextFormat, ValueShape,
};
