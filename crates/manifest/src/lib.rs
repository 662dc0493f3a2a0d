//! YAML and JSON text as documents with spans, and edits back into the text.
//!
//! The input is bytes and text, and the output values and text: nothing here opens a file. `documents` splits a file
//! into `ManifestDocument`s, `objects` finds the Kubernetes objects in one, `ManifestNode::at_pointer` and
//! `ManifestNode::nearest` turn a JSON pointer into a `Span`, and `apply` writes a JSON patch back into the text,
//! leaving every other byte unchanged.
//!
//! Values are those that `kubectl` would send: YAML 1.1 scalars (`yes` is true, `0644` is octal), merge keys, keys of
//! any scalar type turned into strings. Unlike in `kubectl`, which uses the last one, a duplicate key in a map is an error,
//! or a warning if both values are equal.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod deserialize;
pub mod document;
pub mod edit;
mod encoding;
mod format;
mod json;
mod limits;
mod node;
pub mod object;
mod problem;
mod scalar;
mod span;
mod syntax;
mod syntax_tree;

pub use document::{ManifestDocument, ManifestDocuments, documents, documents_from_bytes, text_from_bytes};
pub use encoding::TextEncoding;
pub use limits::MAX_BYTES;
pub use node::{ManifestEntry, ManifestNode, NodeValue, RepeatedKey};
pub use object::{ManifestObject, NotAnObject, objects};
pub use problem::{Problem, Related};
pub use span::{LineColumn, LineIndex, Span};
