//! Tables of the page. Each has a limit of rows and of bytes, which limits the page.

use std::fmt::Write;

use mullion_engine::model::text::thousands;

use crate::report::html::escape::{breakable, escape};

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    kind: ColumnKind,
}

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Text,
    /// Whole sentences.
    Wide,
    Number,
    /// One of a few words: the script offers them as a filter.
    Choice,
}

/// A column of text.
pub(crate) const fn text(title: &'static str) -> Column {
    Column { title, kind: ColumnKind::Text }
}

/// A column of sentences.
pub(crate) const fn wide(title: &'static str) -> Column {
    Column { title, kind: ColumnKind::Wide }
}

/// A column of numbers.
pub(crate) const fn number(title: &'static str) -> Column {
    Column { title, kind: ColumnKind::Number }
}

/// A column of few different words.
pub(crate) const fn choice(title: &'static str) -> Column {
    Column { title, kind: ColumnKind::Choice }
}

/// A cell: its HTML, and the text by which it is sorted if that differs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    html: String,
    sort: Option<String>,
}

impl Cell {
    /// HTML that is escaped already.
    pub(crate) fn html(html: String) -> Self {
        Self { html, sort: None }
    }

    /// Text.
    pub(crate) fn text(text: &str) -> Self {
        Self::html(breakable(text))
    }

    /// A number.
    pub(crate) fn number(number: usize) -> Self {
        Self::html(thousands(number))
    }

    /// The same cell, sorted by that text.
    pub(crate) fn sorted_by(self, sort: &impl ToString) -> Self {
        Self { sort: Some(sort.to_string()), ..self }
    }
}

/// A table of the page: its name, which is a class and begins its identifier, and its columns. One of them is the header
/// of the row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<const N: usize> {
    pub(crate) name: &'static str,
    /// What a row is, in the plural. The script adds a filter to tables that have it.
    pub(crate) rows: Option<&'static str>,
    pub(crate) columns: [Column; N],
    /// The column that names the row.
    pub(crate) head: usize,
    pub(crate) most_rows: usize,
    pub(crate) most_bytes: usize,
    /// Where the rows are that do not fit.
    pub(crate) rest: &'static str,
}

impl<const N: usize> Table<N> {
    /// The table with as many of the rows as fit, and a sentence about the others.
    pub(crate) fn render(&self, rows: impl IntoIterator<Item = [Cell; N]>) -> String {
        let Self { name, .. } = self;
        let data = self.rows.map(|rows| format!(" data-rows=\"{rows}\"")).unwrap_or_default();
        let mut out = format!(
            "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"Table of {}\"><table id=\"{name}-table\" \
             class=\"t-{name}\"{data}>\n<thead><tr>",
            self.rows.unwrap_or(name)
        );
        for column in &self.columns {
            let class = if column.kind == ColumnKind::Number { " class=\"n\"" } else { "" };
            let choose = if column.kind == ColumnKind::Choice { " data-choose" } else { "" };
            push(&mut out, format_args!("<th scope=\"col\"{class}{choose}>{}</th>", escape(column.title)));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        let begin = out.len();
        let (mut all, mut shown) = (0, 0);
        for row in rows {
            all += 1;
            if shown >= self.most_rows || shown + 1 < all {
                continue;
            }
            let row = self.row(row);
            if out.len() - begin + row.len() <= self.most_bytes {
                out.push_str(&row);
                shown += 1;
            }
        }
        out.push_str("</tbody></table></div>\n");
        if shown < all {
            push(
                &mut out,
                format_args!(
                    "<div class=\"callout\"><p>This table has the first {} of {} rows. {}</p></div>\n",
                    thousands(shown),
                    thousands(all),
                    self.rest
                ),
            );
        }
        out
    }

    fn row(&self, row: [Cell; N]) -> String {
        let mut out = String::from("<tr>");
        for (at, (cell, column)) in row.into_iter().zip(&self.columns).enumerate() {
            let class = match column.kind {
                ColumnKind::Number => " class=\"n\"",
                ColumnKind::Wide => " class=\"wide\"",
                ColumnKind::Text | ColumnKind::Choice => "",
            };
            let sort = cell.sort.map(|sort| format!(" data-sort=\"{}\"", escape(&sort))).unwrap_or_default();
            // On a narrow page a cell is a label and a box, so several parts of a cell must be one element.
            let html = if cell.html.is_empty() { String::new() } else { format!("<div>{}</div>", cell.html) };
            if at == self.head {
                push(&mut out, format_args!("<th scope=\"row\"{sort}>{html}</th>"));
            } else {
                push(&mut out, format_args!("<td{class}{sort}>{html}</td>"));
            }
        }
        out.push_str("</tr>\n");
        out
    }

    /// Rules that show the titles of the columns before the cells on a narrow page, where rows are boxes.
    pub(crate) fn labels(&self) -> String {
        let mut out = String::new();
        for (at, column) in self.columns.iter().enumerate() {
            push(
                &mut out,
                format_args!(
                    ".t-{} tr > :nth-child({})::before {{ content: \"{}\"; }}\n",
                    self.name,
                    at + 1,
                    column.title
                ),
            );
        }
        out
    }
}

/// Appends formatted text; writing to a string does not fail.
pub(crate) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table<2> = Table {
        name: "pods",
        rows: Some("pods"),
        columns: [text("Name"), number("Count")],
        head: 0,
        most_rows: 3,
        most_bytes: 300,
        rest: "Ask for more.",
    };

    fn rows(count: usize, name: &str) -> Vec<[Cell; 2]> {
        (0..count).map(|at| [Cell::text(&format!("{name}{at}")), Cell::number(at).sorted_by(&at)]).collect()
    }

    #[test]
    fn limits_are_reported() {
        let all = TABLE.render(rows(3, "a"));
        assert!(all.contains("a2") && !all.contains("first"), "{all}");
        let some = TABLE.render(rows(4, "a"));
        assert!(some.contains("a2") && !some.contains("a3"), "{some}");
        assert!(some.contains("This table has the first 3 of 4 rows. Ask for more."), "{some}");
        // The second row does not fit, and no later one is shown in its place.
        let long = TABLE.render([rows(1, "a"), rows(1, &"b".repeat(200)), rows(1, "c")].concat());
        assert!(long.contains("the first 1 of 3 rows") && !long.contains("c0"), "{long}");
    }

    #[test]
    fn cells_have_headers() {
        let made = TABLE.render([[Cell::text("<b>"), Cell::number(1204)]]);
        assert!(
            made.contains("<th scope=\"row\"><div>&lt;b&gt;</div></th><td class=\"n\"><div>1,204</div></td>"),
            "{made}"
        );
        assert!(made.contains("<th scope=\"col\" class=\"n\">Count</th>"), "{made}");
    }
}
