//! The report of `mullion plan`.

mod document;
mod picture;
mod words;
mod write;

pub use write::write;
