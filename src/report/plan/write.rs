//! Writes a plan in one of the formats.

use std::io;
use std::io::Write;

use mullion_plan::PlanReport;

use crate::exact_text::JsonWriter;
use crate::report::plan::options::{PlanFormat, PlanOptions};
use crate::report::plan::{csv, html, markdown, text};

/// Writes the plan.
pub fn write(report: &PlanReport, format: PlanFormat, options: &PlanOptions, out: &mut dyn Write) -> io::Result<()> {
    match format {
        PlanFormat::Text => text::write(report, options, out),
        PlanFormat::Json => {
            serde_json::to_writer_pretty(JsonWriter(&mut *out), report)?;
            writeln!(out)
        }
        PlanFormat::Markdown => markdown::write(report, options, out),
        PlanFormat::Csv => csv::write(&report.workloads, out),
        PlanFormat::Html => html::write(report, out),
    }
}
