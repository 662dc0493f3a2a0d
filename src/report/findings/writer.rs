//! What a format of findings gets, and the order in which it gets it.

use std::io;
use std::io::Write;

use crate::report::failure::InputFailure;
use crate::report::json::{FindingPlace, FindingRecord, WorkloadRecord};
use crate::report::text::Diagnostic;
use crate::report::totals::CheckTotals;

/// A workload with its findings.
#[derive(Debug)]
pub(crate) struct ReportedWorkload<'a> {
    /// The name of its file.
    pub(crate) file: &'a str,
    /// Its name with its place: `Pod shop/web (a.yaml:3)`.
    pub(crate) title: String,
    /// Its review.
    pub(crate) record: WorkloadRecord<'a>,
    /// Its findings, silent repairs included.
    pub(crate) findings: Vec<ReportedFinding<'a>>,
    /// The operating system and the changes as text, if they were requested.
    pub(crate) change_lines: Vec<String>,
}

/// A finding with its place and what Mullion does about it.
#[derive(Debug)]
pub(crate) struct ReportedFinding<'a> {
    pub(crate) record: FindingRecord<'a>,
    pub(crate) place: FindingPlace<'a>,
    /// What Mullion does about it, for formats without notes; may be empty.
    pub(crate) remark: &'a str,
    /// The finding as a message with its source line.
    pub(crate) diagnostic: Diagnostic<'a>,
}

impl<'a> ReportedWorkload<'a> {
    /// The findings for people: all but silent repairs.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &ReportedFinding<'a>> {
        self.findings.iter().filter(|finding| !finding.record.silent)
    }
}

/// A format of findings. The inputs that were not read come first, then the workloads and the documents that cannot be
/// reviewed in the order of the input, and then the end.
pub(crate) trait FindingsWriter {
    /// Writes an input that could not be read at all. It is also reported on stderr.
    fn unread(&mut self, failure: &InputFailure, out: &mut dyn Write) -> io::Result<()> {
        self.failure(failure, out)
    }

    /// Writes a document that cannot be reviewed. It is also reported on stderr.
    fn failure(&mut self, failure: &InputFailure, out: &mut dyn Write) -> io::Result<()>;

    /// Writes an object with pods that could not be read. It is also reported on stderr.
    fn not_read(&mut self, _input: &str, _message: &str, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes the findings of a workload.
    fn workload(&mut self, workload: &ReportedWorkload<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Writes everything that remains.
    fn end(self: Box<Self>, totals: &CheckTotals, out: &mut dyn Write) -> io::Result<()>;
}
