//! The schema of policy files: what each key is called, what it takes, what it means and how it is merged.
//!
//! A key is declared once, as a field of the type that holds its value: [`policy_settings!`](crate::policy_settings)
//! declares the settings of pods and of nodes, [`policy_object!`](crate::policy_object) any other map, and
//! [`policy_words!`](crate::policy_words) the words that a key takes. The documentation comment of a field or a variant
//! is what editors show and what `docs/reference/pod-policy.md` and its neighbors contain: Markdown within a paragraph, whole sentences. The
//! policy crate checks and reads files by these declarations.

mod declare;
mod origin;
mod policy_key;
mod policy_value;
mod types;

pub use origin::Origin;
pub use policy_key::{EntryJson, ListEntry, PolicyKey, PolicyList, ReadField, distinct, members};
pub use policy_value::{PolicyObject, PolicyValue, member, to_json};
pub use types::{
    KeyConstraint, SchemaKey, SchemaObject, SchemaSection, SchemaWord, TAINT_EFFECTS, TextFormat, ValueShape,
};
