//! The report of `mullion survey`.

mod differences;
mod document;
mod explanation;
mod groups;
mod picture;
mod write;

pub use explanation::Explanation;
pub use write::write;
