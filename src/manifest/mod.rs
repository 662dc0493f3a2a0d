//! Text to documents with spans, and edits back to text.
//!
//! Bytes and text in, values and text out: nothing here opens a file. The way through:
//! [`documents`] cuts a file into [`Document`]s, [`objects`] finds the Kubernetes objects in one, [`Node::at_pointer`]
//! and [`Node::nearest`] turn a JSON pointer into a [`Span`], and [`apply`] writes a JSON patch back into the text,
//! leaving every other byte as it was.
//!
//! Values are those `kubectl` would send: YAML 1.1 scalars (`yes` is true, `0644` is octal), merge keys, keys of any
//! scalar type turned into strings. Unlike `kubectl`, a key that stands twice in one map is an error.

mod deserialize;
mod document;
mod edit;
mod json;
mod node;
mod object;
mod problem;
mod scalar;
mod span;
mod syntax;

pub use document::{Document, Documents, Format, documents, documents_from_bytes, text_from_bytes};
pub(crate) use edit::yaml_string;
pub use edit::{EditError, ObjectPatch, Replacement, apply, edit, splice};
pub use node::{Entry, Node, NodeValue};
pub use object::{NotAnObject, Object, objects};
pub use problem::{Problem, Related};
pub use span::{LineColumn, LineIndex, Span};

/// The largest file that is read, in bytes: a dump of some 3,000 nodes.
pub const MAX_BYTES: usize = 50 << 20;
/// How deep maps and lists may nest. The deepest CRD schemas in use nest about 70 levels.
pub const MAX_DEPTH: usize = 200;
/// How many values one document may hold, aliases counted as often as they are used.
pub const MAX_NODES: usize = 4_000_000;
/// How many of those may come from aliases and merge keys; an alias bomb ends here.
pub const MAX_ALIASED_NODES: usize = 250_000;
/// How many bytes of text may: an object in a cluster has no more than some 3 MiB.
pub const MAX_ALIASED_BYTES: usize = 16 << 20;
