//! What a format of findings gets, and the order in which it gets it.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use mullion_engine::model::text::list_within;

use crate::report::failure::InputFailure;
use crate::report::json::{CheckRecord, FindingPlace, FindingRecord, PartRecord, ReviewRecord};
use crate::report::text::{Diagnostic, DiagnosticSeverity};
use crate::report::totals::CheckTotals;

/// The maximum length of the fields of one group.
const FIELDS: usize = 600;

/// A workload with its findings.
#[derive(Debug)]
pub(crate) struct ReportedWorkload<'a> {
    /// The name of its file.
    pub(crate) file: &'a str,
    /// Its name with its place: `Pod shop/web (a.yaml:3)`.
    pub(crate) title: String,
    /// Its review; `None` for a part of an object.
    pub(crate) record: Option<ReviewRecord<'a>>,
    /// Its findings, silent repairs included.
    pub(crate) findings: Vec<ReportedFinding<'a>>,
    /// The operating system and the changes as text, if they were requested.
    pub(crate) change_lines: Vec<String>,
}

/// A finding with its place and what Mullion does about it.
#[derive(Debug)]
pub(crate) struct ReportedFinding<'a> {
    pub(crate) record: FindingRecord<'a>,
    /// The template that Helm names above the document.
    pub(crate) template: Option<&'a str>,
    pub(crate) place: FindingPlace<'a>,
    /// What Mullion does about it, for formats without notes; may be empty.
    pub(crate) remark: String,
    /// The finding as a message with its source line.
    pub(crate) diagnostic: Diagnostic<'a>,
}

impl<'a> ReportedWorkload<'a> {
    /// Why Mullion does not review it.
    pub(crate) fn not_reviewed(&self) -> Option<&str> {
        self.record.as_ref()?.notes.not_reviewed.as_deref()
    }

    /// The findings that are reported: all but silent repairs.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &ReportedFinding<'a>> {
        self.findings.iter().filter(|finding| !finding.record.silent)
    }

    /// The same for people: what a rule finds in several fields in the same way, such as in each container, is one.
    pub(crate) fn groups(&self) -> Vec<RepeatedFinding<'_, 'a>> {
        let mut groups: Vec<RepeatedFinding<'_, 'a>> = Vec::new();
        let mut known = BTreeMap::new();
        for finding in self.shown() {
            let FindingRecord { code, action, message, help, audit, .. } = &finding.record;
            let at = *known.entry((code, action, message, help, audit, &finding.remark)).or_insert(groups.len());
            match groups.get_mut(at) {
                Some(group) => group.others.push(finding),
                None => groups.push(RepeatedFinding { first: finding, others: Vec::new() }),
            }
        }
        groups
    }
}

/// What a rule finds in one or several fields of a workload in the same way.
#[derive(Debug)]
pub(crate) struct RepeatedFinding<'r, 'a> {
    pub(crate) first: &'r ReportedFinding<'a>,
    others: Vec<&'r ReportedFinding<'a>>,
}

impl RepeatedFinding<'_, '_> {
    /// The other fields as a clause: `the same in spec.containers[1].securityContext.privileged (line 24)`; `None` if there is
    /// only one.
    pub(crate) fn others(&self) -> Option<String> {
        let fields = self.others.iter().map(|one| format!("{} (line {})", one.record.path, one.place.line));
        let count = self.others.len();
        (count > 0).then(|| format!("the same in {}", list_within(fields, count, ", ", FIELDS)))
    }

    /// What Mullion does about it, and the other fields; may be empty.
    pub(crate) fn remark(&self) -> String {
        let parts = [Some(self.first.remark.clone()).filter(|remark| !remark.is_empty()), self.others()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// What is to know about a file and is no finding of a rule.
#[derive(Debug)]
pub(crate) struct FileNote<'a> {
    pub(crate) severity: DiagnosticSeverity,
    /// A word or two: `text`, `not judged`.
    pub(crate) title: &'static str,
    /// The file, the place in it, and the message.
    pub(crate) about: InputFailure,
    /// The message with its source line; `None` if stderr has it.
    pub(crate) diagnostic: Option<Diagnostic<'a>>,
    /// The same as JSON.
    pub(crate) record: CheckRecord<'a>,
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

    /// Writes what is to know about a file.
    fn note(&mut self, note: &FileNote<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Writes a part of an object, after the findings about what it sets. It is also reported on stderr.
    fn part(&mut self, _part: &PartRecord<'_>, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes the findings of a workload.
    fn workload(&mut self, workload: &ReportedWorkload<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Writes everything that remains.
    fn end(self: Box<Self>, totals: &CheckTotals, out: &mut dyn Write) -> io::Result<()>;
}
