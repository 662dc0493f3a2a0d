//! Writes a survey in one of the formats.

use std::io;
use std::io::Write;

use mullion_survey::{Comparison, SurveyReport};
use serde::Serialize;

use crate::report::document;
use crate::report::document::{RenderOptions, ReportFormat, write_json};
use crate::report::survey::document::{document, workload_table};

/// The report, with the comparison as one more member.
#[derive(Serialize)]
struct ComparedReport<'a> {
    #[serde(flatten)]
    report: &'a SurveyReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<&'a Comparison>,
}

/// Writes the report with the differences from an earlier one, which CSV does not contain.
pub fn write(
    report: &SurveyReport,
    comparison: Option<&Comparison>,
    format: ReportFormat,
    options: RenderOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let whole = ComparedReport { report, comparison };
    let document = || document(report, comparison);
    let table = || workload_table(report, report.workloads.iter().collect());
    document::write(|out| write_json(&whole, out), document, table, format, options, out)
}
