//! The report of `mullion survey`.

mod differences;
mod document;
mod groups;
mod picture;
mod write;

pub use write::write;
