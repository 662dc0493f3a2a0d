//! A document for a terminal: headings, wrapped text, and tables as columns, or as a block for each row if they have
//! sentences. Commands are at the beginning of their lines, in lines of any length, so that they can be copied.

use std::io;
use std::io::Write;

use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::text::{counted, lower_first, shorten, thousands};

use crate::report::document::command::CommandBlock;
use crate::report::document::inline::{Inline, Text, Tone};
use crate::report::document::model::{Block, Document, ReportSection, Subsection};
use crate::report::document::options::RenderOptions;
use crate::report::document::table::{
    Cell, Column, ColumnKind, Line, LineKind, OBJECTS, Row, RowKind, Shown, Table, TablePart,
};
use crate::report::table;

/// What is shown without details: objects of one thing and rows of a group, rows of a table, parts and commands.
const FEW: usize = 3;
const ROWS: usize = 8;
/// A plan has at most 11 steps.
const PARTS: usize = 11;

/// The longest cell of a table, and the longest name of a row, in characters.
const CELL: usize = 28;
const HEAD: usize = 56;

/// Writes the document.
pub(crate) fn write(document: &Document<'_>, options: RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page { out, options };
    let title = page.styled(Style::new().bold(), &visible(&document.title));
    page.lines("", &title)?;
    document.sections.iter().try_for_each(|section| page.section(section))?;
    writeln!(page.out)?;
    page.paragraph("", &document.footer.as_str().into())?;
    let is_cut = document.is_cut && !options.details;
    if is_cut { page.paragraph("", &format!("Print everything with {}.", document.all).into()) } else { Ok(()) }
}

struct Page<'o> {
    out: &'o mut dyn Write,
    options: RenderOptions,
}

impl Page<'_> {
    fn styled(&self, style: Style, text: &str) -> String {
        if self.options.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// The text on one line. Foreign text in it has no effect on a terminal.
    fn line(&self, text: &Text) -> String {
        match text.0.as_slice() {
            // A single word needs no marks if nothing else is there.
            [Inline::Code(word)] if !word.contains(char::is_whitespace) => visible(word).into_owned(),
            parts => parts.iter().map(|part| self.inline(part)).collect(),
        }
    }

    fn inline(&self, part: &Inline) -> String {
        match part {
            Inline::Plain(text) | Inline::Name(text) | Inline::Link { text, .. } => visible(text).into_owned(),
            Inline::Code(text) => format!("`{}`", visible(text)),
            Inline::Object { kind, name } => visible(&format!("{kind} {name}")).into_owned(),
            Inline::Objects { names, all } => visible(&self.options.first_of(names, *all, FEW)).into_owned(),
            Inline::Tag(tone, text) => self.styled(style(*tone), &visible(text)),
            Inline::Alert(text) => self.styled(style(Tone::Bad), &visible(text)),
            Inline::Day { date, .. } => date.to_string(),
            Inline::Source { at, as_of } => {
                let as_of = as_of.map(|as_of| format!(", as of {as_of}")).unwrap_or_default();
                format!("{}{as_of}", visible(at))
            }
            Inline::Rows { count, .. } => thousands(*count),
            Inline::Bytes(bytes) => self.options.size(*bytes),
            Inline::Break => ", ".to_owned(),
        }
    }

    fn paragraph(&mut self, first: &str, text: &Text) -> io::Result<()> {
        let text = self.line(text);
        self.lines(first, &text)
    }

    /// Lines of at most the page's width. The first one begins with `first`, the others with as many spaces.
    fn lines(&mut self, first: &str, text: &str) -> io::Result<()> {
        self.hanging(first, width(first), text)
    }

    /// The same with other lines that begin with `indent` spaces.
    fn hanging(&mut self, first: &str, indent: usize, text: &str) -> io::Result<()> {
        let room = self.options.width.saturating_sub(indent.max(width(first))).max(20);
        let (mut line, mut length) = (first.to_owned(), 0);
        for word in words(text) {
            let word_length = width(word);
            if length > 0 && length + 1 + word_length > room {
                writeln!(self.out, "{}", line.trim_end())?;
                line = " ".repeat(indent);
                length = 0;
            }
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += word_length;
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    /// Lines with labels before them, which line up.
    fn labeled(&mut self, indent: &str, lines: &[(String, String)]) -> io::Result<()> {
        let longest = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or_default();
        let room = self.options.width.saturating_sub(indent.len() + longest + 2);
        // The indentation of what follows in each shows where one of several lines without labels ends.
        let are_several = lines.iter().filter(|(label, _)| label.is_empty()).count() > 1;
        let hang = indent.len() + if are_several { 2 } else { 0 };
        for (label, text) in lines {
            if label.is_empty() {
                self.hanging(indent, hang, text)?;
            } else if words(text).into_iter().all(|word| width(word) <= room) {
                self.lines(&format!("{indent}{label:longest$}  "), text)?;
            } else {
                // A word that does not fit beside the label has a line of its own.
                self.lines(indent, label)?;
                self.lines(indent, text)?;
            }
        }
        Ok(())
    }

    /// How many of something are not shown.
    fn more(&mut self, indent: &str, left: usize, what: &str) -> io::Result<()> {
        if left == 0 { Ok(()) } else { writeln!(self.out, "{indent}and {}", counted(left, &format!("more {what}"))) }
    }

    fn section(&mut self, section: &ReportSection<'_>) -> io::Result<()> {
        if !self.options.shows(section.shown) {
            return Ok(());
        }
        let heading = match (section.count, section.what) {
            (None, _) => section.title.to_owned(),
            (Some(count), "") => format!("{}: {}", section.title, thousands(count)),
            (Some(count), what) => format!("{}: {}", section.title, counted(count, what)),
        };
        let heading = self.styled(Style::new().bold(), &heading);
        writeln!(self.out, "\n{heading}")?;
        section.blocks.iter().try_for_each(|block| self.block(block))
    }

    fn block(&mut self, block: &Block<'_>) -> io::Result<()> {
        match block {
            Block::Paragraph(text) => self.paragraph("  ", text),
            Block::Note(text) => self.paragraph("  note  ", text),
            Block::Summary(sentences) => sentences.iter().try_for_each(|sentence| self.paragraph("  - ", sentence)),
            Block::Bullets(items) => {
                let most = self.options.most(ROWS);
                items.iter().take(most).try_for_each(|item| self.paragraph("  - ", item))?;
                self.more("  ", items.len().saturating_sub(most), "line")
            }
            Block::Facts(facts) => {
                let lines: Vec<_> = facts.iter().map(|(label, text)| (lower_first(label), self.line(text))).collect();
                self.labeled("  ", &lines)
            }
            Block::Subsections(what, parts) => {
                let most = self.options.most(PARTS);
                parts.iter().take(most).try_for_each(|part| self.part(part))?;
                self.more("\n  ", parts.len().saturating_sub(most), what)
            }
            Block::Table(table) => self.table(table),
            Block::Folded(text, _, table) => {
                self.paragraph("  ", text)?;
                if self.options.details { self.table(table) } else { Ok(()) }
            }
            Block::Commands(commands) => self.commands(commands, PARTS),
            Block::Tiles(_) | Block::Picture(_) => Ok(()),
        }
    }

    fn part(&mut self, part: &Subsection<'_>) -> io::Result<()> {
        writeln!(self.out)?;
        self.heading("  ", &part.heading)?;
        part.blocks.iter().try_for_each(|block| self.block(block))
    }

    fn heading(&mut self, indent: &str, heading: &Text) -> io::Result<()> {
        let heading = self.line(heading);
        let heading = self.styled(Style::new().bold(), &heading);
        self.lines(indent, &heading)
    }

    fn table(&mut self, table: &Table<'_>) -> io::Result<()> {
        let columns: Vec<(usize, Column)> = table.columns.iter().copied().enumerate().collect();
        let is_record =
            |(_, column): &(usize, Column)| column.kind == ColumnKind::Wide && self.options.shows(column.shown);
        if table.row_kind == RowKind::Commands || columns.iter().any(is_record) {
            self.records(table, &columns)
        } else {
            self.aligned(table, &columns)
        }
    }

    /// A line for each row, and below the table what does not fit into it.
    fn aligned(&mut self, table: &Table<'_>, columns: &[(usize, Column)]) -> io::Result<()> {
        let most = self.options.most(ROWS);
        let rows: Vec<Row> = table.rows(self.options.most(OBJECTS)).take(most).collect();
        let short: Vec<&(usize, Column)> = columns.iter().filter(|(_, column)| column.shown == Shown::Always).collect();
        let header = short.iter().map(|(_, column)| column.title.to_uppercase()).collect();
        let cells = rows.iter().map(|row| {
            let cell = |(at, column): &&(usize, Column)| {
                let text = strip_str(&self.name(row.cells.get(*at))).to_string();
                shorten(&text, if column.is_head { HEAD } else { CELL })
            };
            short.iter().map(cell).collect()
        });
        let lines = table::lines(std::iter::once(header).chain(cells).collect());
        lines.iter().try_for_each(|line| writeln!(self.out, "  {line}"))?;
        self.more("  ", table.rows.saturating_sub(most), table.what)?;
        if !self.options.details {
            return Ok(());
        }
        for row in &rows {
            let of_column = |(at, column): &(usize, Column)| {
                let is_rest = |line: &&Line| column.shown == Shown::Details || line.shown == Shown::Details;
                let lines = row.cells.get(*at).map(|cell| cell.lines.as_slice()).unwrap_or_default();
                self.lines_of(&lower_first(column.title), lines.iter().filter(is_rest))
            };
            let lines: Vec<_> = columns.iter().flat_map(of_column).collect();
            if !lines.is_empty() {
                let name = self.row_name(row, columns);
                self.lines("  ", &format!("{name}:"))?;
                self.labeled("    ", &lines)?;
            }
        }
        Ok(())
    }

    /// A block for each row: its name, then its cells with their titles.
    fn records(&mut self, table: &Table<'_>, columns: &[(usize, Column)]) -> io::Result<()> {
        let usual = if table.row_kind == RowKind::Commands || table.is_cut_by_group { FEW } else { ROWS };
        let most = self.options.most(table.most.unwrap_or(usual));
        let more_indent = if table.is_cut_by_group { "    " } else { "  " };
        table.each_part(most, self.options.details, &mut |part| match part {
            TablePart::Heading(heading) => {
                writeln!(self.out)?;
                self.heading("  ", &heading)
            }
            TablePart::Row(row) => {
                if table.row_kind != RowKind::Line {
                    writeln!(self.out)?;
                }
                self.record(&row, columns, if row.group.is_some() { "    " } else { "  " })
            }
            TablePart::Left(0) => Ok(()),
            TablePart::Left(left) => {
                if table.row_kind == RowKind::Objects {
                    writeln!(self.out)?;
                }
                self.more(more_indent, left, table.what)
            }
        })
    }

    fn record(&mut self, row: &Row, columns: &[(usize, Column)], indent: &str) -> io::Result<()> {
        let head = columns.iter().find(|(_, column)| column.is_head);
        let names = self.names(head.and_then(|(at, _)| row.cells.get(*at)));
        names.iter().try_for_each(|name| self.lines(indent, name))?;
        let (mut untitled, mut titled) = (Vec::new(), Vec::new());
        for (at, column) in columns.iter().filter(|(_, column)| self.options.shows(column.shown) && !column.is_in_group)
        {
            let of_cell = row.cells.get(*at).map(|cell| cell.lines.as_slice()).unwrap_or_default();
            // The name of the row has what belongs to its first line.
            let skipped =
                if column.is_head { 1 + of_cell.iter().skip(1).take_while(|line| is_of_name(line)).count() } else { 0 };
            let title = if column.is_untitled || column.is_head { String::new() } else { lower_first(column.title) };
            let lines = if column.is_untitled { &mut untitled } else { &mut titled };
            lines.extend(self.lines_of(&title, of_cell.iter().skip(skipped)));
        }
        untitled.append(&mut titled);
        self.labeled(&format!("{indent}  "), &untitled)?;
        row.cells.iter().try_for_each(|cell| self.commands(&cell.commands, PARTS))
    }

    fn row_name(&self, row: &Row, columns: &[(usize, Column)]) -> String {
        let head = columns.iter().find(|(_, column)| column.is_head);
        self.name(head.and_then(|(at, _)| row.cells.get(*at)))
    }

    /// The first line of a cell, with what belongs to it in parentheses.
    fn name(&self, cell: Option<&Cell>) -> String {
        self.names(cell).into_iter().next().unwrap_or_default()
    }

    /// The same for each object that the row is about.
    fn names(&self, cell: Option<&Cell>) -> Vec<String> {
        let lines = cell.map(|cell| cell.lines.as_slice()).unwrap_or_default();
        let lines = lines.iter().take(1).chain(lines.iter().skip(1).take_while(|line| is_of_name(line)));
        self.lines_of("", lines).into_iter().map(|(_, text)| text).collect()
    }

    /// The lines of a cell with their labels. The first one has the title of the column if it has no label. A soft line
    /// follows the one before it in parentheses.
    fn lines_of<'l>(&self, title: &str, lines: impl Iterator<Item = &'l Line>) -> Vec<(String, String)> {
        let mut out: Vec<(String, String)> = Vec::new();
        for line in lines.filter(|line| self.options.shows(line.shown)) {
            let text = match line.text.0.as_slice() {
                // It is long, so it wraps, which code does not.
                [Inline::Code(raw)] if line.kind == LineKind::Raw => visible(raw).into_owned(),
                _ => self.line(&line.text),
            };
            match out.last_mut() {
                Some((_, before)) if is_soft(line) => *before = format!("{before} ({text})"),
                last => {
                    let title = if last.is_none() { title } else { "" };
                    let label = if line.label.is_empty() { title.to_owned() } else { lower_first(line.label) };
                    out.push((label, text));
                }
            }
        }
        out
    }

    /// Commands with their notes.
    fn commands(&mut self, commands: &[CommandBlock], most: usize) -> io::Result<()> {
        let (blocks, left) = CommandBlock::first_blocks(commands, self.options.most(most));
        for CommandBlock { label, run, note, source } in &blocks {
            let source = source.as_ref().map(|source| format!(" (not run here; {source})")).unwrap_or_default();
            writeln!(self.out)?;
            self.paragraph("  ", &Text::plain(format!("{label}{source}:")))?;
            if !note.is_empty() {
                self.paragraph("  ", &note.into())?;
            }
            writeln!(self.out)?;
            run.split('\n').try_for_each(|line| writeln!(self.out, "{}", visible(line)))?;
        }
        self.more("\n  ", left, "command")
    }
}

fn is_soft(line: &Line) -> bool {
    line.kind == LineKind::Soft && line.label.is_empty()
}

/// Whether a line belongs to the name before it, or is another name.
fn is_of_name(line: &Line) -> bool {
    line.kind == LineKind::Object || is_soft(line) && line.shown == Shown::Always
}

fn style(tone: Tone) -> Style {
    let colour = match tone {
        Tone::Bad => AnsiColor::Red,
        Tone::Warn => AnsiColor::Yellow,
        Tone::Note => AnsiColor::Cyan,
        Tone::Good => AnsiColor::Green,
    };
    colour.on_default().bold()
}

/// The number of characters that a terminal shows.
fn width(text: &str) -> usize {
    strip_str(text).map(|part| part.chars().count()).sum()
}

/// The words of a text. Code in backticks is one word, because a command that is wrapped cannot be copied.
fn words(text: &str) -> Vec<&str> {
    let is_marked = text.matches('`').count().is_multiple_of(2);
    let mut in_code = false;
    let is_end = |c: char| {
        in_code ^= c == '`' && is_marked;
        c.is_whitespace() && !in_code
    };
    text.split(is_end).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_one_word() {
        assert_eq!(words("Run `kubectl get nodes`,  then\twait."), ["Run", "`kubectl get nodes`,", "then", "wait."]);
        assert_eq!(words("One ` alone"), ["One", "`", "alone"]);
        assert_eq!(words(" "), [""; 0]);
    }
}
