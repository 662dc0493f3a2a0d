//! What a mixed Windows/Linux cluster holds, and what is wrong in it: the report of `mullion survey`.
//!
//! ```text
//! objects → Inventory (only what the report needs) → SurveyReport → text, Markdown, CSV, HTML, JSON
//! ```
//!
//! [`report`] is the report: every format, and every comparison of two reports, starts from it. [`redact`] replaces the names
//! in it, [`compare`] finds what differs between two of them, and [`read`] reads one that was written as JSON. Nothing here reads files or
//! clusters, and the time is an argument.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod compare;
pub mod read;
pub mod redact;
pub mod report;

pub use compare::{Comparison, compare};
pub use read::{ReportError, read_report};
pub use redact::Redaction;
pub use report::SurveyReport;
