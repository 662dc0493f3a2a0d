//! A document as GitHub Flavored Markdown, for a ticket or a wiki. Names and messages of a cluster cannot become markup.

use std::io;
use std::io::Write;

use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::text::{counted, thousands, upper_first};

use crate::report::document::command::CommandBlock;
use crate::report::document::inline::{Inline, Text};
use crate::report::document::model::{Block, Document, ReportSection, Subsection};
use crate::report::document::options::RenderOptions;
use crate::report::document::table::{Cell, Column, Line, LineKind, Row, RowKind, Shown, Table, TablePart};

/// What is shown without details: rows of a table or group, items, parts, lines of a row; commands, and rows with commands.
const ROWS: usize = 20;
const COMMANDS: usize = 3;

/// The most bytes without details. GitHub accepts 65,536 characters in an issue or a comment; the rest is for what says
/// that the report is cut.
const BYTES: usize = 60_000;

/// Writes the document.
pub(super) fn write(document: &Document<'_>, options: RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page { out, written: 0, is_full: false, all: document.all, options };
    page.add(&format!("# {}\n", plain(&document.title)))?;
    document.sections.iter().try_for_each(|section| page.section(section))?;
    if page.is_full {
        page.always(&format!("\nThis is the beginning of the report. `{}` writes all of it.\n", document.all))?;
    }
    let footer = page.line(&document.footer.as_str().into());
    page.always(&format!("\n{footer}\n"))
}

struct Page<'o> {
    out: &'o mut dyn Write,
    /// The bytes so far.
    written: usize,
    /// Whether something did not fit. Nothing is shown after it.
    is_full: bool,
    /// The option that writes everything.
    all: &'static str,
    options: RenderOptions,
}

impl Page<'_> {
    /// Writes a text if it fits as a whole, and everything before it did.
    fn add(&mut self, text: &str) -> io::Result<()> {
        self.is_full |= self.written + text.len() > self.options.most(BYTES);
        if self.is_full { Ok(()) } else { self.always(text) }
    }

    fn always(&mut self, text: &str) -> io::Result<()> {
        self.written += text.len();
        self.out.write_all(text.as_bytes())
    }

    fn line(&self, text: &Text) -> String {
        text.0.iter().map(|part| self.inline(part)).collect()
    }

    fn inline(&self, part: &Inline) -> String {
        match part {
            Inline::Plain(text) | Inline::Tag(_, text) | Inline::Link { text, .. } => plain(text),
            Inline::Code(text) | Inline::Name(text) => code(text),
            Inline::Object { kind, name } => code(&format!("{kind} {name}")),
            Inline::Objects { names, all } => plain(&self.options.first_of(names, *all, ROWS)),
            Inline::Alert(text) => format!("**{}**", plain(text)),
            Inline::Day { date, .. } => date.to_string(),
            Inline::Source { at, as_of } => {
                let as_of = as_of.map(|as_of| format!(", {as_of}")).unwrap_or_default();
                format!("{}{as_of}", plain(at))
            }
            Inline::Rows { count, .. } => thousands(*count),
            Inline::Bytes(bytes) => self.options.size(*bytes),
            Inline::Break => ", ".to_owned(),
        }
    }

    /// How many of something are not shown, and how to get them.
    fn more(&mut self, left: usize, what: &str) -> io::Result<()> {
        if left == 0 {
            return Ok(());
        }
        let left = counted(left, &format!("more {what}"));
        self.add(&format!("\nand {left}; `{}` writes all.\n", self.all))
    }

    fn section(&mut self, section: &ReportSection<'_>) -> io::Result<()> {
        if !self.options.shows(section.shown) {
            return Ok(());
        }
        self.add(&format!("\n## {}\n", section.title))?;
        section.blocks.iter().try_for_each(|block| self.block(block, 3))
    }

    /// Writes a block below a heading. `level`: that of headings in the block.
    fn block(&mut self, block: &Block<'_>, level: usize) -> io::Result<()> {
        if self.is_full {
            return Ok(());
        }
        match block {
            Block::Paragraph(text) => {
                let text = self.line(text);
                self.add(&format!("\n{text}\n"))
            }
            Block::Note(text) => self.bullets(std::slice::from_ref(text), 1),
            Block::Summary(sentences) => self.bullets(sentences, usize::MAX),
            Block::Bullets(items) => self.bullets(items, self.options.most(ROWS)),
            Block::Facts(facts) => {
                let fact = |(label, text): &(&str, Text)| Text::plain(format!("{label}: ")).and(text.clone());
                self.bullets(&facts.iter().map(fact).collect::<Vec<_>>(), usize::MAX)
            }
            Block::Subsections(what, parts) => {
                let most = self.options.most(ROWS);
                parts.iter().take(most).try_for_each(|part| self.part(part, level))?;
                self.more(parts.len().saturating_sub(most), what)
            }
            Block::Table(table) => self.table(table, level),
            Block::Folded(text, title, table) => {
                let text = self.line(text);
                self.add(&format!("\n{text}\n\n<details><summary>{title}</summary>\n"))?;
                if self.is_full {
                    return Ok(());
                }
                self.table(table, level)?;
                self.always("\n</details>\n")
            }
            Block::Commands(commands) => self.commands(commands),
            Block::Tiles(_) | Block::Picture(_) => Ok(()),
        }
    }

    fn bullets(&mut self, items: &[Text], most: usize) -> io::Result<()> {
        self.add("\n")?;
        for item in items.iter().take(most) {
            let item = self.line(item);
            self.add(&format!("- {item}\n"))?;
        }
        self.more(items.len().saturating_sub(most), "line")
    }

    fn heading(&mut self, level: usize, heading: &Text) -> io::Result<()> {
        let heading = self.line(heading);
        self.add(&format!("\n{} {heading}\n", "#".repeat(level)))
    }

    fn part(&mut self, part: &Subsection<'_>, level: usize) -> io::Result<()> {
        self.heading(level, &part.heading)?;
        part.blocks.iter().try_for_each(|block| self.block(block, level + 1))
    }

    fn table(&mut self, table: &Table<'_>, level: usize) -> io::Result<()> {
        let most = table.most.unwrap_or(if table.row_kind == RowKind::Commands { COMMANDS } else { ROWS });
        let columns = table.columns.iter().copied().enumerate();
        let columns: Vec<(usize, Column)> =
            columns.filter(|(_, column)| column.shown != Shown::Page && !column.is_in_group).collect();
        let mut has_titles = false;
        table.each_part(self.options.most(most), self.options.details, &mut |part| match part {
            TablePart::Heading(heading) => {
                has_titles = false;
                self.heading(level, &heading)
            }
            TablePart::Row(row) if table.row_kind != RowKind::Line => {
                self.add(&self.record(&row, &columns, level))?;
                row.cells.iter().try_for_each(|cell| self.commands(&cell.commands))
            }
            TablePart::Row(row) => {
                if !std::mem::replace(&mut has_titles, true) {
                    let titles: Vec<&str> = columns.iter().map(|(_, column)| column.title).collect();
                    self.add(&format!("\n| {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len())))?;
                }
                let cells: Vec<String> = columns.iter().map(|(at, _)| self.cell(row.cells.get(*at))).collect();
                self.add(&format!("| {} |\n", cells.join(" | ")))
            }
            TablePart::Left(left) => self.more(left, table.what),
        })
    }

    fn cell(&self, cell: Option<&Cell>) -> String {
        let lines = cell.map(|cell| cell.lines.as_slice()).unwrap_or_default();
        let lines = lines.iter().filter(|line| self.options.shows(line.shown));
        lines.map(|line| self.cell_line(line)).collect::<Vec<_>>().join(" ")
    }

    fn cell_line(&self, Line { kind, label, text, .. }: &Line) -> String {
        let text = self.line(text);
        match kind {
            LineKind::Soft => format!("({text})"),
            _ if label.is_empty() => text,
            _ => format!("**{label}:** {text}"),
        }
    }

    /// A row as a block: its name, its cells as items. The names of several objects are lines.
    fn record(&self, row: &Row, columns: &[(usize, Column)], level: usize) -> String {
        let (head, rest): (Vec<_>, Vec<_>) = columns.iter().copied().partition(|(_, column)| column.is_head);
        let head = head.iter().filter_map(|(at, _)| row.cells.get(*at));
        let name = |cell: &Cell| match cell.lines.first() {
            Some(Line { kind: LineKind::Object, .. }) => {
                let objects = cell.lines.chunk_by(|_, next| next.kind == LineKind::Soft);
                let object =
                    |lines: &[Line]| lines.iter().map(|line| self.cell_line(line)).collect::<Vec<_>>().join(" ");
                objects.map(object).collect::<Vec<_>>().join("\\\n")
            }
            _ => format!("{} {}", "#".repeat(level), self.cell(Some(cell))),
        };
        let mut out = format!("\n{}\n\n", head.map(name).collect::<String>());
        for (at, column) in rest {
            let cell = row.cells.get(at);
            let lines = cell.map(|cell| cell.lines.as_slice()).unwrap_or_default();
            let most = self.options.most(ROWS);
            for line in lines.iter().take(most) {
                let text = self.cell_line(line);
                let bullet = if line.kind == LineKind::Soft { "  " } else { "- " };
                let title = match lines {
                    [_] if line.label.is_empty() => format!("**{}:** ", column.title),
                    _ => String::new(),
                };
                out.extend([bullet, &title, &text, "\n"]);
            }
            if lines.len() > most {
                out.extend(["- and ", &counted(lines.len() - most, "more line"), "\n"]);
            }
        }
        out
    }

    /// Commands with their notes. Those of a provider are folded, because Mullion's tests do not run them.
    fn commands(&mut self, commands: &[CommandBlock]) -> io::Result<()> {
        // Whole blocks of a large plan would not fit into an issue.
        let mut first = Vec::new();
        for of_label in commands.chunk_by(|one, next| one.label == next.label) {
            first.extend(of_label.iter().take(self.options.most(COMMANDS)).cloned());
        }
        let (blocks, _) = CommandBlock::first_blocks(&first, usize::MAX);
        for CommandBlock { label, run, note, source } in &blocks {
            let note = if note.is_empty() { String::new() } else { format!("{}\n\n", self.line(&note.into())) };
            let lines = fenced("sh", run);
            let block = match source {
                Some(source) => {
                    let source = plain(&upper_first(source));
                    let open = format!("<details><summary>{label} (not run here)</summary>");
                    format!("\n{open}\n\n{source}.\n\n{note}{lines}\n\n</details>\n")
                }
                None => format!("\n{label}:\n\n{note}{lines}\n"),
            };
            self.add(&block)?;
        }
        self.more(commands.len() - first.len(), "command")
    }
}

/// A name or value as code, also in a table. Nothing in it is markup, a mention or a link.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    // In a table, the cell separator ends a cell even inside code. With a backslash it does not. Outside of tables, a
    // backslash in code is shown, but names contain none.
    let text = visible(text).replace('|', "\\|");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Lines of a program as they are, without characters that control a terminal.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: Vec<_> = text.split('\n').map(visible).collect();
    format!("{fence}{language}\n{}\n{fence}", lines.join("\n"))
}

/// Words that a wiki converts into a link or a mention become code; all other markup is escaped.
fn plain(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + 16);
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            out.push(' ');
        }
        let lower = word.to_ascii_lowercase();
        if word.contains(['@', '#']) || lower.contains("://") || lower.contains("www.") {
            let end = word.trim_end_matches(['.', ',', ';', ':']).len();
            let (word, sign) = word.split_at(end);
            out.push_str(&code(word));
            out.push_str(sign);
            continue;
        }
        for c in word.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '+' | '!' | '|' | '~' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                // A list or a heading line begins like this.
                '-' | '=' if out.is_empty() => {
                    out.push('\\');
                    out.push(c);
                }
                _ => out.push(c),
            }
        }
    }
    // A number and a period begin a list.
    let digits = out.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && out.as_bytes().get(digits).is_some_and(|sign| *sign == b'.') {
        out.insert(digits, '\\');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_no_markup() {
        let cases = [
            ("Pool win19 has 3 nodes.", "Pool win19 has 3 nodes."),
            ("<script>alert(1)</script>", "&lt;script&gt;alert\\(1\\)&lt;/script&gt;"),
            ("a|b", "a\\|b"),
            ("*a* _b_ [x](y) ![z](w)", "\\*a\\* \\_b\\_ \\[x\\]\\(y\\) \\!\\[z\\]\\(w\\)"),
            ("two\nlines", "two\\\\nlines"),
            ("ask @team, now", "ask `@team`, now"),
            ("see https://x.example/<b>.", "see `https://x.example/<b>`."),
            ("see #12", "see `#12`"),
            ("set `a: b` in *c*", "set `a: b` in \\*c\\*"),
            ("one ` alone", "one \\` alone"),
            ("a@sha256:00|`b", "``a@sha256:00\\|`b``"),
            ("- item", "\\- item"),
            ("1. item", "1\\. item"),
            ("10.0.20348 is a build", "10\\.0.20348 is a build"),
            ("&lt;", "&amp;lt;"),
        ];
        for (text, expected) in cases {
            let options = RenderOptions::default();
            let page = Page { out: &mut io::sink(), written: 0, is_full: false, all: "--details", options };
            assert_eq!(page.line(&text.into()), expected, "{text:?}");
        }
    }

    #[test]
    fn code_holds_any_text() {
        let cases = [
            ("shop/web", "`shop/web`"),
            ("", ""),
            ("a`b", "``a`b``"),
            ("`", "`` ` ``"),
            ("a|b", "`a\\|b`"),
            ("a\nb", "`a\\nb`"),
            ("</td><script>", "`</td><script>`"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        let cases = [
            ("kubectl get pods", "```sh\nkubectl get pods\n```"),
            ("a\nb", "```sh\na\nb\n```"),
            ("```\n# x\u{1b}", "````sh\n```\n# x\\u{1b}\n````"),
        ];
        for (text, expected) in cases {
            assert_eq!(fenced("sh", text), expected, "{text:?}");
        }
    }
}
