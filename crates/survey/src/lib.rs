//! What a mixed Windows/Linux cluster holds, and what is wrong in it: the report of `mullion survey`.
//!
//! ```text
//! objects → Inventory (only what the report needs) → SurveyReport → text, Markdown, CSV, HTML, JSON
//! ```
//!
//! [`report`] is the report: every format, and every comparison of two reports, starts from it. Nothing here reads files or
//! clusters, and the time is an argument.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod report;

pub use report::SurveyReport;
