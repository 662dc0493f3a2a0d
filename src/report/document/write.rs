//! Writes a report in one of the formats.

use std::io;
use std::io::Write;

use serde::Serialize;

use crate::exact_text::JsonWriter;
use crate::report::document::model::Document;
use crate::report::document::options::{RenderOptions, ReportFormat};
use crate::report::document::table::Table;
use crate::report::document::{csv, html, markdown, text};

/// Writes a report in the form that a caller makes of it for the format: JSON, a table for CSV, otherwise a document.
pub(crate) fn write<'r>(
    json: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    document: impl FnOnce() -> Document<'r>,
    csv_table: impl FnOnce() -> Table<'r>,
    format: ReportFormat,
    options: RenderOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        ReportFormat::Text => text::write(&document(), options.for_prose(), out),
        ReportFormat::Json => json(out),
        ReportFormat::Markdown => markdown::write(&document(), options, out),
        ReportFormat::Csv => csv::write(&csv_table(), out),
        ReportFormat::Html => html::write(&document(), out),
    }
}

/// Writes `report` as one JSON document.
pub(crate) fn write_json(report: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(JsonWriter(&mut *out), report)?;
    writeln!(out)
}
