//! The report of `mullion verify`, as lines of text, as one JSON object, and as JUnit XML.

mod junit;
mod model;
mod text;

pub(crate) use junit::write_junit;
pub(crate) use model::{FleetGroup, VerifyReport, VerifyResult, VerifyStatus};
pub(crate) use text::{result_lines, summary};
