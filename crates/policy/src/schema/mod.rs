//! What a policy file may hold, and a file of test cases for policies: tables of keys, from which files are checked and
//! read, and the JSON Schemas ([`json`]) and `docs/policy-reference.md` are made.
//!
//! A key that policies set is one row: its name, its shape, its doc, and the [field](field::Field) of `Settings` or
//! `NodeSettings` that it sets. The field gives its default, and how the values of several policies are merged.
//!
//! Docs are Markdown within a paragraph: whole sentences, that an editor shows beside the key. The checker's messages do
//! not use them.

pub mod field;
pub mod json;
pub mod kinds;
pub mod node;
pub mod pod;
pub mod registry;
pub mod test;
pub mod types;
pub mod words;
