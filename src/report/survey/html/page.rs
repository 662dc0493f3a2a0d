//! The page: head, table of contents, sections.

use std::io;
use std::io::Write;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mullion_engine::model::text::{shorten, thousands};
use mullion_survey::SurveyReport;

use crate::report::survey::html::escape::escape;
use crate::report::survey::html::sections::{self, Section};
use crate::report::survey::html::table::push;
use crate::report::survey::options::SurveyOptions;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

/// Writes the page. Every list of it has a limit, so that the page has at most 10 MB, whatever the report has.
pub(in crate::report::survey) fn write(
    report: &SurveyReport,
    options: &SurveyOptions<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = format!("{STYLE}\n@media screen and (max-width: 640px) {{\n{}}}\n", sections::labels());
    let cluster = shorten(&report.header.cluster, 200);
    let sections = sections::all(report, options);
    // The browser applies this style and runs this script, and no other: not even if a name were taken for markup.
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(&style),
        hash(SCRIPT)
    );
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"generator\" content=\"Mullion {}\">\n\
         <title>Survey of {}</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#summary\">Skip to the summary</a>\n<div class=\"layout\">\n{}<main>\n{}",
        escape(&report.header.mullion),
        escape(&cluster),
        contents(&sections),
        sections::head(report, &cluster),
    )?;
    for section in &sections {
        let Section { id, title, body, .. } = section;
        write!(
            out,
            "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\"><a class=\"anchor\" href=\"#{id}\">{title}</a></h2>\n{body}</section>\n"
        )?;
    }
    write!(
        out,
        "<footer><p>Written by Mullion {}. <code>mullion survey -o json</code> writes the whole report for programs, and \
         <code>-o csv</code> all workloads for a spreadsheet.</p></footer>\n</main>\n</div>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&report.header.mullion)
    )
}

fn contents(sections: &[Section]) -> String {
    let mut out = String::from("<nav aria-label=\"Contents\"><details open><summary>Contents</summary><ul>\n");
    for Section { id, title, count, .. } in sections {
        let count = count.map(|count| format!(" <span class=\"count\">{}</span>", thousands(count)));
        push(
            &mut out,
            format_args!("<li><a href=\"#{id}\"><span>{title}</span>{}</a></li>\n", count.unwrap_or_default()),
        );
    }
    out.push_str("</ul></details></nav>\n");
    out
}

/// The source expression of the Content Security Policy for that text.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}
