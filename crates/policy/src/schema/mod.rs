//! Tables of the keys in policy files and in their test files.
//!
//! The loader checks and reads files with these tables; the JSON Schemas ([`json`]) and `docs/reference/policy.md` are
//! generated from them. A key that policies set is one row: its name, its shape, its documentation, and the
//! [field](field::SettingField) of `Settings` or `NodeSettings` that it sets. The field defines its default, and how the values of
//! several policies are merged.
//!
//! The documentation is Markdown within a paragraph: whole sentences, which editors show next to the key. The checker's
//! messages do not contain it.

mod field;
mod field_keys;
pub mod json;
mod kinds;
mod node;
pub(crate) mod pod;
mod registry;
mod test;
mod types;
mod words;

pub(crate) use field::{SettingField, to_json};
pub use field_keys::{ACTIONS, NODE_KEYS, POD_KEYS, PolicyKey};
pub use kinds::KINDS;
pub(crate) use node::NODE_SPEC;
pub(crate) use registry::REGISTRY_SPEC;
pub(crate) use test::POLICY_TEST;
pub use test::TEST_KINDS;
pub use types::{API_VERSION, KeyConstraint, SchemaKey, SchemaObject, SchemaWord, TextFormat, ValueShape};
