//! Findings with their source lines, for people.

use std::io;
use std::io::Write;

use mullion_engine::model::foreign_text::visible;

use crate::report::failure::InputFailure;
use crate::report::findings::writer::{FileNote, FindingsWriter, ReportedWorkload};
use crate::report::not_reviewed::NotReviewedWorkloads;
use crate::report::totals::CheckTotals;

/// Messages in the order of the input, and the workloads that are not reviewed at the end.
#[derive(Debug)]
pub(super) struct TextReport {
    colour: bool,
    not_reviewed: NotReviewedWorkloads,
}

impl TextReport {
    pub(super) fn new(colour: bool) -> Self {
        Self { colour, not_reviewed: NotReviewedWorkloads::default() }
    }
}

impl FindingsWriter for TextReport {
    /// The message on stderr is all.
    fn failure(&mut self, _: &InputFailure, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn note(&mut self, note: &FileNote<'_>, out: &mut dyn Write) -> io::Result<()> {
        note.diagnostic.iter().try_for_each(|diagnostic| out.write_all(diagnostic.render(self.colour).as_bytes()))
    }

    fn workload(&mut self, workload: &ReportedWorkload<'_>, out: &mut dyn Write) -> io::Result<()> {
        if let Some(why) = workload.not_reviewed() {
            self.not_reviewed.add(why.to_owned(), workload.title.clone());
        }
        for group in workload.groups() {
            let mut diagnostic = group.first.diagnostic.clone();
            diagnostic.notes.extend(group.others());
            out.write_all(diagnostic.render(self.colour).as_bytes())?;
        }
        workload.change_lines.iter().try_for_each(|line| writeln!(out, "{}", visible(line)))
    }

    fn end(self: Box<Self>, _: &CheckTotals, out: &mut dyn Write) -> io::Result<()> {
        self.not_reviewed.lines().try_for_each(|line| writeln!(out, "{}", visible(&line)))
    }
}
