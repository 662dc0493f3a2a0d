//! Tables of the page. Each has a limit of rows and of bytes, which limits the page.

use maud::{Markup, PreEscaped, Render, html};
use mullion_engine::model::text::{counted, plural, prefix, thousands};

use crate::report::document::html::commands::commands;
use crate::report::document::html::inline::{Exact, LINES, TEXT, line};
use crate::report::document::inline::{Inline, Text};
use crate::report::document::table::{Cell, Column, ColumnKind, Line, LineKind, Row, RowKind, Table};

/// The bytes of the commands of one cell.
const CELL_COMMANDS: usize = 20_000;

/// The most objects of a cell: each has two lines, and one has the number of the others.
const CELL_OBJECTS: usize = (LINES - 1) / 2;

/// The table with as many of the rows as fit, and a sentence about the others. `command`: prints the report.
pub(super) fn table(table: &Table<'_>, command: &str) -> Markup {
    let Table { id, columns, .. } = table;
    // A row about several objects is not one of what the table lists.
    let what = if table.row_kind == RowKind::Objects { "group" } else { table.what };
    let named = if table.is_filtered { plural(what) } else { (*id).to_owned() };
    let rest =
        if table.rest.is_empty() { format!("`{command} -o json` writes all of them.") } else { table.rest.to_owned() };
    let (rows, shown) = rows(table, command);
    html! {
        div.table tabindex="0" role="region" aria-label=(format!("Table of {named}")) {
            table id=(format!("{id}-table")) class=(format!("t-{id}")) data-rows=[table.is_filtered.then_some(&named)] {
                thead { tr { @for column in columns { (title(*column)) } } } "\n"
                tbody { (rows) }
            }
        }
        "\n"
        @if shown < table.rows {
            div.callout { p {
                "This table has the first " (thousands(shown)) " of " (thousands(table.rows)) " rows. " (line(&rest.into()))
            } }
            "\n"
        }
    }
}

fn title(Column { title, kind, .. }: Column) -> Markup {
    html! { th scope="col" class=[(kind == ColumnKind::Number).then_some("n")] data-choose[kind == ColumnKind::Choice] { (title) } }
}

/// The first rows that fit, and their number.
fn rows(table: &Table<'_>, command: &str) -> (Markup, usize) {
    let (most_rows, most_bytes) = table.page_limit;
    let (mut out, mut shown) = (String::new(), 0);
    for cells in table.rows(CELL_OBJECTS).take(most_rows) {
        let row = row(&cells, &table.columns, command).0;
        if out.len() + row.len() > most_bytes {
            break;
        }
        out.push_str(&row);
        shown += 1;
    }
    (PreEscaped(out), shown)
}

fn row(row: &Row, columns: &[Column], command: &str) -> Markup {
    html! {
        tr { @for (cell, column) in row.cells.iter().zip(columns) {
            @let sort = sort_key(cell).map(Exact);
            @if column.is_head {
                th scope="row" data-sort=[sort] { (content(cell, command)) }
            } @else {
                td class=[cell_class(column.kind)] data-sort=[sort] { (content(cell, command)) }
            }
        } }
        "\n"
    }
}

fn cell_class(kind: ColumnKind) -> Option<&'static str> {
    match kind {
        ColumnKind::Number => Some("n"),
        ColumnKind::Wide => Some("wide"),
        ColumnKind::Text | ColumnKind::Choice => None,
    }
}

/// An object is sorted by its name, other cells by their text or what they declare.
fn sort_key(cell: &Cell) -> Option<&str> {
    match cell.lines.first().and_then(|line| line.text.0.first()) {
        _ if cell.sort.is_some() => cell.sort.as_deref().map(|key| prefix(key, TEXT)),
        Some(Inline::Object { name, .. }) => Some(prefix(name, TEXT)),
        _ => None,
    }
}

/// On a narrow page a cell is a label and a box, so several parts of a cell must be one element.
fn content(cell: &Cell, command: &str) -> Markup {
    if cell.lines.is_empty() && cell.commands.is_empty() {
        return Markup::default();
    }
    let lines = cell.lines.get(..cell.lines.len().min(LINES)).unwrap_or_default();
    let left = cell.lines.len() - lines.len();
    let paragraphs: Vec<&[Line]> = lines.chunk_by(|_, next| next.kind == LineKind::Soft).collect();
    let is_one = cell.commands.is_empty()
        && left == 0
        && paragraphs.len() == 1
        && lines.iter().all(|line| line.label.is_empty() || line.kind == LineKind::Soft);
    html! {
        div {
            @for lines in paragraphs {
                @if is_one { (paragraph(lines)) } @else if let [Line { kind: LineKind::Raw, label, text, .. }] = lines {
                    details.raw { summary { (label) } pre { (raw(text)) } }
                } @else {
                    p { (paragraph(lines)) }
                }
            }
            @if left > 0 { p.soft { "and " (counted(left, "more line")) } }
            (commands(&cell.commands, &mut CELL_COMMANDS.clone(), command))
        }
    }
}

/// A line, and the soft lines below it.
fn paragraph(lines: &[Line]) -> Markup {
    html! { @for (at, Line { kind, label, text, .. }) in lines.iter().enumerate() {
        @if at > 0 { br; }
        @if *kind == LineKind::Soft {
            span.soft { (line(text)) }
        } @else {
            @if !label.is_empty() { b { (label) ":" } " " }
            (line(text))
        }
    } }
}

fn raw(text: &Text) -> Markup {
    let mut out = String::new();
    for part in &text.0 {
        if let Inline::Code(text) = part {
            Exact(prefix(text, TEXT)).render_to(&mut out);
        }
    }
    PreEscaped(out)
}

/// Rules that show the titles of the columns before the cells on a narrow page, where rows are boxes.
pub(super) fn labels(table: &Table<'_>) -> String {
    let rule = |(at, column): (usize, &Column)| {
        format!(".t-{} tr > :nth-child({})::before {{ content: \"{}\"; }}\n", table.id, at + 1, column.title)
    };
    table.columns.iter().enumerate().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::table::TableBuilder;

    fn made(names: &[&str]) -> String {
        let rows = names.iter().copied().enumerate();
        let builder = TableBuilder::new("pods", "pod", rows).text("Name", |(_, name)| name);
        let all = builder.number("Count", |(at, _)| Cell::from(at + 1203).sorted_by(&at)).filtered().at_most(3, 300);
        table(&all.rest("Ask for more.").build(), "mullion").0
    }

    #[test]
    fn limits_are_reported() {
        let all = made(&["a0", "a1", "a2"]);
        assert!(all.contains("a2") && !all.contains("first"), "{all}");
        let some = made(&["a0", "a1", "a2", "a3"]);
        assert!(some.contains("a2") && !some.contains("a3"), "{some}");
        assert!(some.contains("This table has the first 3 of 4 rows. Ask for more."), "{some}");
        // The second row does not fit, and no later one is shown in its place.
        let long = made(&["a0", &"b".repeat(200), "c0"]);
        assert!(long.contains("the first 1 of 3 rows") && !long.contains("c0"), "{long}");
    }

    #[test]
    fn cells_have_headers() {
        let made = made(&["a0", "<b>"]);
        assert!(
            made.contains(
                "<th scope=\"row\"><div>&lt;b&gt;</div></th><td class=\"n\" data-sort=\"1\"><div>1,204</div></td>"
            ),
            "{made}"
        );
        assert!(made.contains("<th scope=\"col\" class=\"n\">Count</th>"), "{made}");
    }
}
