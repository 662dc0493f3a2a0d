//! Writes a report in one of the formats.

use std::io;
use std::io::Write;

use serde::Serialize;

use crate::exact_text::JsonWriter;
use crate::report::document::model::Document;
use crate::report::document::options::{RenderOptions, ReportFormat};
use crate::report::document::table::Table;
use crate::report::document::{csv, html, markdown, text};

/// Writes `report`, which is JSON as it is, and otherwise the document or the table that a caller makes of it.
pub(crate) fn write<'r>(
    report: &impl Serialize,
    document: impl FnOnce() -> Document<'r>,
    csv_table: impl FnOnce() -> Table<'r>,
    format: ReportFormat,
    options: RenderOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        ReportFormat::Text => text::write(&document(), options.for_prose(), out),
        ReportFormat::Json => {
            serde_json::to_writer_pretty(JsonWriter(&mut *out), report)?;
            writeln!(out)
        }
        ReportFormat::Markdown => markdown::write(&document(), options, out),
        ReportFormat::Csv => csv::write(&csv_table(), out),
        ReportFormat::Html => html::write(&document(), out),
    }
}
