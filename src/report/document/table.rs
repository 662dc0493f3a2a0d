//! Tables: each column is declared once, with its title, its kind and its cells. The rows are made one by one when a
//! renderer asks for them.

use std::io;

use jiff::civil::Date;
use mullion_engine::model::text::thousands;

use crate::report::document::command::CommandBlock;
use crate::report::document::inline::{Inline, Text};

/// The most objects that a row names in text and Markdown without details.
pub(crate) const OBJECTS: usize = 5;

/// A table.
pub(crate) struct Table<'r> {
    /// The class of the table on the page, which also begins its anchor.
    pub(super) id: &'static str,
    /// What a row is, in the singular.
    pub(super) what: &'static str,
    /// Whether the page filters the rows.
    pub(super) is_filtered: bool,
    pub(super) columns: Vec<Column>,
    /// Text and Markdown show each row of a kind other than [`RowKind::Line`] as a block.
    pub(super) row_kind: RowKind,
    /// The most rows in text and Markdown without details, if it is not the usual number.
    pub(super) most: Option<usize>,
    /// Whether the limit of rows in text and Markdown is one for each group.
    pub(super) is_cut_by_group: bool,
    /// The most rows on the page, and their bytes.
    pub(super) page_limit: (usize, usize),
    /// Where the rows are that do not fit on the page; empty for the usual place.
    pub(super) rest: &'static str,
    /// The number of rows.
    pub(super) rows: usize,
    row: Box<dyn Fn(usize) -> Row + 'r>,
    pub(super) csv_keys: Vec<&'static str>,
    csv_row: Box<dyn Fn(usize) -> Vec<String> + 'r>,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    Line,
    /// With commands.
    Commands,
    /// About several objects.
    Objects,
}

/// Where a part of a document is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Always,
    /// On the page, and in text and Markdown with details. Markdown has all columns of a table.
    Details,
    /// On the page.
    Page,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) kind: ColumnKind,
    pub(super) shown: Shown,
    /// Whether it names the row. Exactly one does.
    pub(super) is_head: bool,
    /// Whether the heading of a group states it in text and Markdown.
    pub(super) is_in_group: bool,
    /// Whether text shows it below the name of the row, without its title.
    pub(super) is_untitled: bool,
}

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Text,
    /// Whole sentences.
    Wide,
    Number,
    /// One of a few words, which the page offers as a filter.
    Choice,
}

/// A row.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    /// The heading above the rows that share it. The page has none: its readers sort the rows.
    pub(super) group: Option<Text>,
    /// Whether text and Markdown show it only with details.
    pub(super) is_detail: bool,
}

/// A part of a table in text and Markdown.
pub(super) enum TablePart {
    /// The heading of a group.
    Heading(Text),
    Row(Row),
    /// The number of rows that are left out, or of the objects of these rows; it may be 0.
    Left(usize),
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(super) lines: Vec<Line>,
    /// What the row is about. A format shows the first as lines.
    objects: Vec<RowObject>,
    pub(super) commands: Vec<CommandBlock>,
    /// The text by which the page sorts the row, if it is not that of the cell.
    pub(super) sort: Option<String>,
}

/// An object that a row is about, or several that share a line.
#[derive(Debug, Clone)]
pub(crate) struct RowObject {
    pub(crate) name: Text,
    /// What belongs to the name, such as its place in a file.
    pub(crate) about: Text,
    /// The number of objects.
    pub(crate) count: usize,
}

/// A line of a cell.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) kind: LineKind,
    pub(super) label: &'static str,
    pub(super) text: Text,
    pub(super) shown: Shown,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Plain,
    /// The name of one of the objects that the row is about, or how many more there are.
    Object,
    /// What adds to the line before it.
    Soft,
    /// A text of the cluster, which the page folds.
    Raw,
}

impl<T: Into<Text>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::default().line(text)
    }
}

/// Each adds a line, unless its text is empty.
impl Cell {
    pub(crate) fn line(self, text: impl Into<Text>) -> Self {
        self.add(LineKind::Plain, "", text.into(), Shown::Always)
    }

    pub(crate) fn labeled(self, label: &'static str, text: impl Into<Text>) -> Self {
        self.add(LineKind::Plain, label, text.into(), Shown::Always)
    }

    /// Text and Markdown show the line only with details.
    pub(crate) fn labeled_detail(self, label: &'static str, text: impl Into<Text>) -> Self {
        self.add(LineKind::Plain, label, text.into(), Shown::Details)
    }

    pub(crate) fn soft(self, text: impl Into<Text>) -> Self {
        self.add(LineKind::Soft, "", text.into(), Shown::Always)
    }

    /// Text and Markdown show the line only with details, and text with its label.
    pub(crate) fn soft_detail(self, label: &'static str, text: impl Into<Text>) -> Self {
        self.add(LineKind::Soft, label, text.into(), Shown::Details)
    }

    pub(crate) fn source(self, at: &str, as_of: Date) -> Self {
        let source = Inline::Source { at: at.to_owned(), as_of: Some(as_of) };
        self.add(LineKind::Soft, "Source", source.into(), Shown::Always)
    }

    /// A text of the cluster, in details.
    pub(crate) fn raw(self, label: &'static str, text: impl Into<String>) -> Self {
        self.add(LineKind::Raw, label, Inline::Code(text.into()).into(), Shown::Details)
    }

    /// The cell with its first objects as lines, and the number of the others.
    fn with_objects(mut self, most: usize) -> Self {
        let mut objects = std::mem::take(&mut self.objects).into_iter();
        for RowObject { name, about, .. } in objects.by_ref().take(most) {
            self = self.add(LineKind::Object, "", name, Shown::Always).soft(about);
        }
        match objects.map(|object| object.count).sum::<usize>() {
            0 => self,
            left => {
                let more = Text::plain(format!("and {} more", thousands(left)));
                self.add(LineKind::Object, "", more, Shown::Always)
            }
        }
    }

    fn add(mut self, kind: LineKind, label: &'static str, text: Text, shown: Shown) -> Self {
        if !text.is_empty() {
            self.lines.push(Line { kind, label, text, shown });
        }
        self
    }

    pub(crate) fn commands(mut self, commands: impl IntoIterator<Item = CommandBlock>) -> Self {
        self.commands.extend(commands);
        self
    }

    pub(crate) fn sorted_by(self, sort: &impl ToString) -> Self {
        Self { sort: Some(sort.to_string()), ..self }
    }
}

impl Row {
    /// The number of objects that the row is about; 1 if it names none.
    fn count(&self) -> usize {
        self.cells.iter().flat_map(|cell| &cell.objects).map(|object| object.count).sum::<usize>().max(1)
    }

    fn with_objects(self, most: usize) -> Self {
        let cells = self.cells.into_iter().map(|cell| cell.with_objects(most)).collect();
        Self { cells, ..self }
    }
}

impl Table<'_> {
    /// The rows, each with that many of its objects.
    pub(super) fn rows(&self, objects: usize) -> impl Iterator<Item = Row> {
        (0..self.rows).map(move |at| (self.row)(at).with_objects(objects))
    }

    /// Calls `show` with what text and Markdown show of the table, in order. `most`: the limit of rows, of each group if the
    /// table is cut by group.
    pub(super) fn each_part(
        &self,
        most: usize,
        details: bool,
        show: &mut dyn FnMut(TablePart) -> io::Result<()>,
    ) -> io::Result<()> {
        let objects = if details { usize::MAX } else { OBJECTS };
        let (mut group, mut shown, mut left) = (None, 0, 0);
        for row in (0..self.rows).map(|at| (self.row)(at)) {
            let is_new = row.group != group;
            if is_new && self.is_cut_by_group {
                show(TablePart::Left(left))?;
                (shown, left) = (0, 0);
            }
            if shown >= most || row.is_detail && !details {
                left += row.count();
                continue;
            }
            if is_new {
                group.clone_from(&row.group);
                row.group.clone().map_or(Ok(()), |heading| show(TablePart::Heading(heading)))?;
            }
            shown += 1;
            show(TablePart::Row(row.with_objects(objects)))?;
        }
        show(TablePart::Left(left))
    }

    /// The values of each row, in the order of the keys.
    pub(super) fn csv_rows(&self) -> impl Iterator<Item = Vec<String>> {
        (0..self.rows).map(|at| (self.csv_row)(at))
    }
}

type CellOf<'r, R> = Box<dyn Fn(R) -> Cell + 'r>;
type ValueOf<'r, R> = Box<dyn Fn(R) -> String + 'r>;

/// Declares a table of values `R`, column after column.
pub(crate) struct TableBuilder<'r, R> {
    table: Table<'r>,
    values: Vec<R>,
    cells: Vec<CellOf<'r, R>>,
    csv: Vec<ValueOf<'r, R>>,
    group: Option<Box<dyn Fn(R) -> Text + 'r>>,
    details: Option<Box<dyn Fn(R) -> bool + 'r>>,
}

impl<'r, R: Copy + 'r> TableBuilder<'r, R> {
    pub(crate) fn new(id: &'static str, what: &'static str, values: impl IntoIterator<Item = R>) -> Self {
        let table = Table {
            id,
            what,
            is_filtered: false,
            columns: Vec::new(),
            row_kind: RowKind::Line,
            most: None,
            is_cut_by_group: false,
            page_limit: (200, 300_000),
            rest: "",
            rows: 0,
            row: Box::new(|_| Row::default()),
            csv_keys: Vec::new(),
            csv_row: Box::new(|_| Vec::new()),
        };
        let values = values.into_iter().collect();
        Self { table, values, cells: Vec::new(), csv: Vec::new(), group: None, details: None }
    }

    fn column<C: Into<Cell>>(mut self, title: &'static str, kind: ColumnKind, cell: impl Fn(R) -> C + 'r) -> Self {
        let is_head = self.table.columns.is_empty();
        self.table.columns.push(Column {
            title,
            kind,
            shown: Shown::Always,
            is_head,
            is_in_group: false,
            is_untitled: false,
        });
        self.cells.push(Box::new(move |value| cell(value).into()));
        self
    }

    /// A column of text. The first column names the row, unless another one is declared to do so.
    pub(crate) fn text<C: Into<Cell>>(self, title: &'static str, cell: impl Fn(R) -> C + 'r) -> Self {
        self.column(title, ColumnKind::Text, cell)
    }

    /// A column of sentences.
    pub(crate) fn wide<C: Into<Cell>>(self, title: &'static str, cell: impl Fn(R) -> C + 'r) -> Self {
        self.column(title, ColumnKind::Wide, cell)
    }

    /// A column of sentences that need no title in text: they tell what the row is about.
    pub(crate) fn prose<C: Into<Cell>>(self, title: &'static str, cell: impl Fn(R) -> C + 'r) -> Self {
        self.wide(title, cell).last_column(|column| column.is_untitled = true)
    }

    /// A column of the objects that the row is about. Text and Markdown show each row as a block below them.
    pub(crate) fn objects<O: IntoIterator<Item = RowObject>>(
        mut self,
        title: &'static str,
        objects: impl Fn(R) -> O + 'r,
    ) -> Self {
        self.table.row_kind = RowKind::Objects;
        let cell = move |value| Cell { objects: objects(value).into_iter().collect(), ..Cell::default() };
        self.text(title, cell).head()
    }

    /// A column of numbers.
    pub(crate) fn number<C: Into<Cell>>(self, title: &'static str, cell: impl Fn(R) -> C + 'r) -> Self {
        self.column(title, ColumnKind::Number, cell)
    }

    /// A column of few different words, by which the page filters.
    pub(crate) fn choice<C: Into<Cell>>(self, title: &'static str, cell: impl Fn(R) -> C + 'r) -> Self {
        self.column(title, ColumnKind::Choice, cell)
    }

    /// A value of the table in CSV.
    pub(crate) fn csv(mut self, key: &'static str, value: impl Fn(R) -> String + 'r) -> Self {
        self.table.csv_keys.push(key);
        self.csv.push(Box::new(value));
        self
    }

    fn last_column(mut self, change: impl FnOnce(&mut Column)) -> Self {
        if let Some(column) = self.table.columns.last_mut() {
            change(column);
        }
        self
    }

    /// The last column names the row.
    pub(crate) fn head(mut self) -> Self {
        self.table.columns.iter_mut().for_each(|column| column.is_head = false);
        self.last_column(|column| column.is_head = true)
    }

    /// Text shows the last column only with details.
    pub(crate) fn in_details(self) -> Self {
        self.last_column(|column| column.shown = Shown::Details)
    }

    /// The heading of a group states the last column.
    pub(crate) fn in_group(self) -> Self {
        self.last_column(|column| column.is_in_group = true)
    }

    /// Rows that follow each other and have the same heading are a group in text and Markdown. `is_cut`: whether each
    /// group has a limit of rows of its own.
    pub(crate) fn grouped(mut self, is_cut: bool, heading: impl Fn(R) -> Text + 'r) -> Self {
        self.table.is_cut_by_group = is_cut;
        self.group = Some(Box::new(heading));
        self
    }

    /// Text and Markdown show these rows only with details.
    pub(crate) fn details(mut self, is_detail: impl Fn(R) -> bool + 'r) -> Self {
        self.details = Some(Box::new(is_detail));
        self
    }

    /// The page filters the rows.
    pub(crate) fn filtered(mut self) -> Self {
        self.table.is_filtered = true;
        self
    }

    /// The most rows in text and Markdown without details.
    pub(crate) fn first(mut self, rows: usize) -> Self {
        self.table.most = Some(rows);
        self
    }

    /// The rows have commands.
    pub(crate) fn with_commands(mut self) -> Self {
        self.table.row_kind = RowKind::Commands;
        self
    }

    /// The most rows on the page, and their bytes.
    pub(crate) fn at_most(mut self, rows: usize, bytes: usize) -> Self {
        self.table.page_limit = (rows, bytes);
        self
    }

    /// Where the rows are that do not fit on the page.
    pub(crate) fn rest(mut self, rest: &'static str) -> Self {
        self.table.rest = rest;
        self
    }

    pub(crate) fn build(self) -> Table<'r> {
        let Self { table, values, cells, csv, group, details } = self;
        let rows = values.len();
        let csv_values = if csv.is_empty() { Vec::new() } else { values.clone() };
        let row = move |at: usize| {
            let Some(value) = values.get(at).copied() else { return Row::default() };
            Row {
                cells: cells.iter().map(|cell| cell(value)).collect(),
                group: group.as_ref().map(|heading| heading(value)),
                is_detail: details.as_ref().is_some_and(|is_detail| is_detail(value)),
            }
        };
        let csv_row = move |at: usize| {
            csv_values.get(at).map(|value| csv.iter().map(|of| of(*value)).collect()).unwrap_or_default()
        };
        Table { rows, row: Box::new(row), csv_row: Box::new(csv_row), ..table }
    }
}
