//! Findings of `mullion check` in each output format: one module for each format, and [`FindingsFormat`], which lists
//! them.

mod azure;
mod codequality;
mod fingerprint;
mod format;
pub(crate) mod github;
mod json_lines;
mod junit;
mod sarif;
mod text;
mod writer;

pub use format::FindingsFormat;
pub(crate) use format::FormatOptions;
pub(crate) use writer::{FileNote, FindingsWriter, ReportedFinding, ReportedWorkload};
