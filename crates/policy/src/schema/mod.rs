//! What a policy file may hold, and a file of test cases for policies: tables of keys, from which files are checked, and
//! the JSON Schemas ([`json`]) and `docs/policy-reference.md` are made.
//!
//! Docs are Markdown within a paragraph: whole sentences, that an editor shows beside the key. The checker's messages do
//! not use them.

pub mod json;
pub mod kinds;
pub mod node;
pub mod pod;
pub mod registry;
pub mod test;
pub mod types;
pub mod words;
