//! YAML and JSON text as documents with spans, and edits back into the text.
//!
//! Bytes and text in, values and text out: nothing here opens a file. `documents` splits a file into `Document`s,
//! `objects` finds the Kubernetes objects in one, `Node::at_pointer` and `Node::nearest` turn a JSON pointer into a
//! `Span`, and `apply` writes a JSON patch back into the text, leaving every other byte as it was.
//!
//! Values are those `kubectl` would send: YAML 1.1 scalars (`yes` is true, `0644` is octal), merge keys, keys of any
//! scalar type turned into strings. Unlike in `kubectl`, a duplicate key in a map is an error.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod deserialize;
pub mod document;
pub mod edit;
pub mod format;
pub mod json;
pub mod limits;
pub mod node;
pub mod object;
pub mod problem;
pub mod scalar;
pub mod span;
pub mod syntax;
pub mod syntax_tree;
