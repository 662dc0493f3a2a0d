//! The formats of the report of a survey, on whole reports: the schema of the JSON, sizes, malicious names, and that no
//! name survives redaction in any format.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(unreachable_pub, reason = "modules of one test program")]

#[path = "../../crates/plan/tests/support/clusters.rs"]
mod clusters;
mod counts;
mod example_cluster;
mod fixtures;
mod formats;
#[path = "../generator/mod.rs"]
#[allow(dead_code, unused_imports, reason = "other suites use the rest")]
mod generator;
#[path = "../rules/golden.rs"]
#[allow(dead_code, reason = "the rules use all of it")]
mod golden;
#[path = "../reports/hostile.rs"]
mod hostile;
#[path = "../reports/json_schema.rs"]
mod json_schema;
mod planted;
mod redaction;
mod saved;
mod saved_reads;
mod schema;
#[path = "../../crates/plan/tests/support/mod.rs"]
mod support;

use mullion::report::survey::write;
use mullion::report::{RenderOptions, ReportFormat};
use mullion_survey::{SurveyReport, compare};

const FORMATS: [ReportFormat; 5] =
    [ReportFormat::Text, ReportFormat::Json, ReportFormat::Markdown, ReportFormat::Csv, ReportFormat::Html];

/// The result of a check: its complaints, one line each.
type Checked = Result<(), String>;

/// All complaints as one, or none.
fn all(complaints: &[String]) -> Checked {
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// The report in one format, with everything that it can have.
fn written(report: &SurveyReport, earlier: Option<&SurveyReport>, format: ReportFormat) -> String {
    let comparison = earlier.map(|earlier| compare(earlier, report));
    let options = RenderOptions { details: true, ..RenderOptions::default() };
    let mut out = Vec::new();
    write(report, comparison.as_ref(), format, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}
