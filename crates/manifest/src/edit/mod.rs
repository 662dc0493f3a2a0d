//! JSON Patch on text: operations change the values that they address and no other byte.
//!
//! Every operation becomes a few splices on the text; the result is parsed again and compared with the result of
//! `json_patch` on the values. Text that does not parse to the expected values is never returned.

mod flow;
mod plan;
mod render;
mod replacement;
pub mod text_patch;

pub use render::{document, string};
pub use replacement::Replacement;
pub use text_patch::ObjectPatch;
