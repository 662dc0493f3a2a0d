//! The formats of a plan, on whole plans: the schema of the JSON, sizes, malicious names, and that no number is
//! missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(unreachable_pub, reason = "modules of one test program")]

#[path = "../../crates/plan/tests/support/clusters.rs"]
mod clusters;
mod counts;
mod fixtures;
mod fleets;
mod formats;
#[path = "../rules/golden.rs"]
#[allow(dead_code, reason = "the rules use all of it")]
mod golden;
#[path = "../reports/hostile.rs"]
mod hostile;
#[path = "../reports/json_schema.rs"]
mod json_schema;
mod schema;
#[path = "../../crates/plan/tests/support/mod.rs"]
mod support;
mod threads;

use mullion::report::plan::write;
use mullion::report::{RenderOptions, ReportFormat};
use mullion_plan::PlanReport;

const FORMATS: [ReportFormat; 5] =
    [ReportFormat::Text, ReportFormat::Json, ReportFormat::Markdown, ReportFormat::Csv, ReportFormat::Html];

/// The result of a check: its complaints, one line each.
type Checked = Result<(), String>;

/// All complaints as one, or none.
fn all(complaints: &[String]) -> Checked {
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn written_with(report: &PlanReport, format: ReportFormat, options: RenderOptions) -> String {
    let mut out = Vec::new();
    write(report, format, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The plan in one format, with all details.
fn written(report: &PlanReport, format: ReportFormat) -> String {
    written_with(report, format, RenderOptions { details: true, ..RenderOptions::default() })
}
