//! The page of a plan.

use std::io;
use std::io::Write;

use mullion_engine::model::text::shorten;
use mullion_plan::PlanReport;

use crate::report::html::page;
use crate::report::html::page::Page;
use crate::report::plan::html::sections;

/// Writes the page. Every list of it has a limit, so that the page has at most 10 MB, whatever the plan has.
pub(in crate::report::plan) fn write(report: &PlanReport, out: &mut dyn Write) -> io::Result<()> {
    let (cluster, release) = (&report.header.cluster, &report.target.release);
    let page = Page {
        title: &format!("Plan to move {} to {}", shorten(cluster, 200), shorten(release, 40)),
        mullion: &report.header.mullion,
        labels: sections::labels(),
        sections: sections::all(report),
        footer: "<code>mullion plan -o json</code> writes the whole plan for programs, and <code>-o csv</code> all \
                 containers for a spreadsheet.",
    };
    page::write(&page, out)
}
