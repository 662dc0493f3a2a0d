//! Writes a report in one of the formats.

use std::io;
use std::io::Write;

use mullion_survey::{Comparison, SurveyReport};
use serde::Serialize;

use crate::exact_text::JsonWriter;
use crate::report::survey::options::{SurveyFormat, SurveyOptions};
use crate::report::survey::{csv, html, markdown, text};

/// Writes the report.
pub fn write(
    report: &SurveyReport,
    format: SurveyFormat,
    options: &SurveyOptions<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        SurveyFormat::Text => text::write(report, options, out),
        SurveyFormat::Json => json(report, options.comparison, out),
        SurveyFormat::Markdown => markdown::write(report, options, out),
        SurveyFormat::Csv => csv::write(report, out),
        SurveyFormat::Html => html::write(report, options, out),
    }
}

/// The report, with the comparison as one more member.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a SurveyReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<&'a Comparison>,
}

fn json(report: &SurveyReport, comparison: Option<&Comparison>, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(JsonWriter(&mut *out), &Document { report, comparison })?;
    writeln!(out)
}
