//! The report of `mullion plan` as text, JSON, Markdown, CSV and HTML.

mod csv;
mod html;
mod markdown;
mod options;
mod text;
mod words;
mod write;

pub use options::{PlanFormat, PlanOptions};
pub use write::write;
