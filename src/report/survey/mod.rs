//! The report of `mullion survey` as text, JSON, Markdown, CSV and HTML.

mod csv;
mod differences;
mod groups;
mod html;
mod markdown;
mod options;
mod text;
mod write;

pub use options::{Explanation, SurveyFormat, SurveyOptions};
pub use write::write;
