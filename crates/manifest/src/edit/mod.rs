//! JSON Patch on text: the operations change the values they name and no other byte.
//!
//! Every operation becomes a few splices on the text, is tried, read again and compared with what `json_patch` makes of
//! the values. Text that does not read back as it should is never returned.

pub mod flow;
pub mod plan;
pub mod render;
pub mod replacement;
pub mod text_patch;
