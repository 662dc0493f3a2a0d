//! The page of a survey.

use std::io;
use std::io::Write;

use mullion_engine::model::text::shorten;
use mullion_survey::SurveyReport;

use crate::report::html::page;
use crate::report::html::page::Page;
use crate::report::survey::html::sections;
use crate::report::survey::options::SurveyOptions;

/// Writes the page. Every list in it has a limit, so that the page has at most 10 MB, whatever the report contains.
pub(in crate::report::survey) fn write(
    report: &SurveyReport,
    options: &SurveyOptions<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = Page {
        title: &format!("Survey of {}", shorten(&report.header.cluster, 200)),
        mullion: &report.header.mullion,
        labels: sections::labels(),
        sections: sections::all(report, options),
        footer: "<code>mullion survey -o json</code> writes the whole report for programs, and <code>-o csv</code> all \
                 workloads for a spreadsheet.",
    };
    page::write(&page, out)
}
