//! Sections that the pages of a survey and of a plan share: coverage, and what is not known.

use mullion_survey::report::{Coverage, Unknown};

use crate::report::html::cells::cut;
use crate::report::html::escape::{code, escape, prose};
use crate::report::html::page::Section;
use crate::report::html::table::{Cell, Table, push, text, wide};
use crate::report::inventory_text::{first_objects, read_text};

/// The table of what was not read. `rest` is where the rows are that do not fit.
pub(crate) const fn unread_table(rest: &'static str) -> Table<4> {
    Table {
        name: "unread",
        rows: None,
        columns: [text("Kind"), text("Namespace"), text("Reason"), wide("What the report lacks")],
        head: 0,
        most_rows: 200,
        most_bytes: 100_000,
        rest,
    }
}

/// The table of what is not known.
pub(crate) const fn unknown_table(rest: &'static str) -> Table<3> {
    Table {
        name: "unknown",
        rows: None,
        columns: [wide("What is not known"), wide("How to find out"), text("Objects")],
        head: 0,
        most_rows: 100,
        most_bytes: 300_000,
        rest,
    }
}

/// What was read, and what was not.
pub(crate) fn coverage(coverage: &Coverage, rest: &'static str) -> Section {
    let read = read_text(coverage);
    let unread = &coverage.unread;
    let mut body = if read.is_empty() {
        "<p>Mullion read no objects.</p>\n".to_owned()
    } else {
        format!("<p>Mullion read {}.</p>\n", escape(cut(&read)))
    };
    if unread.is_empty() {
        body.push_str("<p>It read everything that the report needs.</p>\n");
    } else {
        let lists = if unread.len() == 1 { "One list was" } else { "Some lists were" };
        push(
            &mut body,
            format_args!(
                "<div class=\"callout\"><p>{lists} not read. The report lacks what depends on them.</p></div>\n"
            ),
        );
        body.push_str(&unread_table(rest).render(unread.iter().map(|unread| {
            [
                Cell::html(code(&unread.kind)),
                unread.namespace.as_deref().map_or_else(|| Cell::text("all"), |namespace| Cell::html(code(namespace))),
                Cell::text(cut(&unread.reason)),
                Cell::html(prose(cut(&unread.missing))),
            ]
        })));
    }
    Section::new("coverage", "Coverage", None, body)
}

/// What is not known, and how to find out. `None` if there is nothing.
pub(crate) fn unknown(all: &[Unknown], rest: &'static str) -> Option<Section> {
    if all.is_empty() {
        return None;
    }
    let rows = all.iter().map(|unknown| {
        [
            Cell::text(cut(&unknown.what)),
            Cell::html(prose(cut(&unknown.resolve))),
            Cell::text(cut(&first_objects(&unknown.objects, unknown.all, unknown.objects.len()))),
        ]
    });
    Some(Section::new("unknown", "Not known", Some(all.len()), unknown_table(rest).render(rows)))
}
