//! Findings as JSON Lines, with everything that is known about them.

use std::io;
use std::io::Write;

use crate::report::failure::InputFailure;
use crate::report::findings::writer::{FileNote, FindingsWriter, ReportedFinding, ReportedWorkload};
use crate::report::json::{CheckRecord, PartRecord, RenderedFinding, UnreadRecord, write_line};
use crate::report::totals::CheckTotals;

/// A record for each finding, for each workload after its findings, and a summary.
#[derive(Debug)]
pub(super) struct JsonLines;

impl FindingsWriter for JsonLines {
    fn unread(&mut self, failure: &InputFailure, out: &mut dyn Write) -> io::Result<()> {
        self.not_read(&failure.file, &failure.message, out)
    }

    fn not_read(&mut self, input: &str, message: &str, out: &mut dyn Write) -> io::Result<()> {
        write_line(out, &CheckRecord::Unread(UnreadRecord { input, message }))
    }

    /// The summary counts it, and the message is on stderr.
    fn failure(&mut self, _: &InputFailure, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn note(&mut self, note: &FileNote<'_>, out: &mut dyn Write) -> io::Result<()> {
        write_line(out, &note.record)
    }

    fn part(&mut self, part: &PartRecord<'_>, out: &mut dyn Write) -> io::Result<()> {
        write_line(out, &CheckRecord::Part(part))
    }

    fn workload(&mut self, workload: &ReportedWorkload<'_>, out: &mut dyn Write) -> io::Result<()> {
        for ReportedFinding { record, template, .. } in &workload.findings {
            write_line(out, &CheckRecord::Finding(RenderedFinding { finding: record, template: *template }))?;
        }
        workload.record.iter().try_for_each(|record| write_line(out, &CheckRecord::Workload(record)))
    }

    fn end(self: Box<Self>, totals: &CheckTotals, out: &mut dyn Write) -> io::Result<()> {
        write_line(out, &CheckRecord::Summary(totals))
    }
}
