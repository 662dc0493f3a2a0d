//! Writes a plan in one of the formats.

use std::io;
use std::io::Write;

use mullion_plan::PlanReport;

use crate::report::document;
use crate::report::document::{RenderOptions, ReportFormat, write_json};
use crate::report::plan::document::{container_table, document};

/// Writes the plan.
pub fn write(report: &PlanReport, format: ReportFormat, options: RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let table = || container_table(report, report.workloads.iter());
    document::write(|out| write_json(report, out), || document(report), table, format, options, out)
}
