//! Sections that the pages of a survey and of a plan share: coverage, and what is not known.

use mullion_engine::model::text::upper_first;
use mullion_survey::report::{Coverage, Unknown};

use crate::report::html::cells::cut;
use crate::report::html::escape::{breakable, code, prose};
use crate::report::html::page::Section;
use crate::report::html::table::{Cell, Table, push, text, wide};
use crate::report::inventory_text::{coverage_text, first_objects};

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

/// What was read, and what was not, in one line that unfolds. `facts`: labels and texts about the source of the report.
pub(crate) fn coverage(coverage: &Coverage, facts: &[(&str, String)], rest: &'static str) -> Section {
    let mut body = String::from("<dl class=\"facts\">\n");
    for (label, text) in facts {
        push(&mut body, format_args!("<dt>{label}</dt><dd>{}</dd>\n", breakable(cut(text))));
    }
    body.push_str("</dl>\n");
    let line = breakable(cut(&upper_first(&coverage_text(coverage))));
    if coverage.unread.is_empty() {
        push(&mut body, format_args!("<p>{line}</p>\n"));
    } else {
        let rows = coverage.unread.iter().map(|unread| {
            [
                Cell::html(code(&unread.kind)),
                unread.namespace.as_deref().map_or_else(|| Cell::text("all"), |namespace| Cell::html(code(namespace))),
                Cell::text(cut(&unread.reason)),
                Cell::html(prose(cut(&unread.missing))),
            ]
        });
        push(
            &mut body,
            format_args!(
                "<details class=\"coverage\"><summary>{line}</summary>{}</details>\n",
                unread_table(rest).render(rows)
            ),
        );
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

/// The number of something, on a tile that leads to its list.
pub(crate) struct Tile<'t> {
    pub(crate) label: &'t str,
    /// The number, or that it is not known.
    pub(crate) count: String,
    /// A color: `bad`, `warn`, or none.
    pub(crate) class: &'static str,
    /// The identifier of the section that has the list.
    pub(crate) list: &'static str,
}

/// The tiles. Those whose list is not among `sections` are no links.
pub(crate) fn tiles(tiles: &[Tile<'_>], sections: &[Section]) -> String {
    let mut out = String::from("<ul class=\"tiles\">\n");
    for Tile { label, count, class, list } in tiles {
        let content = format!("<b>{count}</b> <span>{label}</span>");
        let is_there = sections.iter().any(|section| section.id == *list);
        let content = if is_there { format!("<a href=\"#{list}\">{content}</a>") } else { content };
        push(&mut out, format_args!("<li class=\"{class}\">{content}</li>\n"));
    }
    out.push_str("</ul>\n");
    out
}
