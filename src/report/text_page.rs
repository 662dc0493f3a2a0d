//! A report for a terminal: headings, wrapped text, and the parts that the reports of a survey and of a plan share.

use std::io;
use std::io::Write;

use anstyle::Style;
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::text::counted;
use mullion_survey::report::{Coverage, Unknown};

use crate::report::inventory_text::{coverage_text, first_objects};

/// The number of objects of one thing that are shown without details.
pub(crate) const SHOWN: usize = 3;

/// The number of rows of a list that are shown without details.
pub(crate) const ROWS: usize = 8;

/// The longest cell of a table, in characters.
pub(crate) const CELL: usize = 28;

/// The output of a report, and its options.
pub(crate) struct TextPage<'o> {
    pub(crate) out: &'o mut dyn Write,
    /// The longest line of prose, in characters.
    pub(crate) width: usize,
    pub(crate) colour: bool,
    /// Whether everything is shown.
    pub(crate) details: bool,
}

impl TextPage<'_> {
    /// The text in that style, if the page has colors.
    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// A heading after an empty line.
    pub(crate) fn heading(&mut self, heading: &str) -> io::Result<()> {
        let heading = self.styled(Style::new().bold(), heading);
        writeln!(self.out, "\n{heading}")
    }

    /// Text with lines of at most the page's width. The first line begins with `first`, the others with the same number
    /// of spaces.
    pub(crate) fn paragraph(&mut self, first: &str, text: &str) -> io::Result<()> {
        self.styled_paragraph(Style::new(), first, text)
    }

    /// Does the same in a style, if the page has colors.
    pub(crate) fn styled_paragraph(&mut self, style: Style, first: &str, text: &str) -> io::Result<()> {
        self.lines(style, first, first.chars().count(), text)
    }

    /// Text after a label that is in a style, and that has `indent` characters.
    fn paragraph_after(&mut self, label: &str, indent: usize, text: &str) -> io::Result<()> {
        self.lines(Style::new(), label, indent, text)
    }

    fn lines(&mut self, style: Style, first: &str, indent: usize, text: &str) -> io::Result<()> {
        let room = self.width.saturating_sub(indent).max(20);
        let text = visible(text);
        let (mut line, mut length, mut before) = (String::new(), 0, first.to_owned());
        for word in words(&text) {
            let word_length = word.chars().count();
            if length > 0 && length + 1 + word_length > room {
                let styled = self.styled(style, &line);
                writeln!(self.out, "{before}{styled}")?;
                before = " ".repeat(indent);
                line.clear();
                length = 0;
            }
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += word_length;
        }
        let styled = self.styled(style, &line);
        writeln!(self.out, "{}", format!("{before}{styled}").trim_end())
    }

    /// How many of `all` rows are shown.
    pub(crate) fn shown(&self, all: usize) -> usize {
        if self.details { all } else { all.min(ROWS) }
    }

    /// How many of `all` rows are not shown.
    pub(crate) fn more(&mut self, all: usize, what: &str) -> io::Result<()> {
        match all - self.shown(all) {
            0 => Ok(()),
            more => writeln!(self.out, "  and {}", counted(more, &format!("more {what}"))),
        }
    }

    /// What was read, and what was not: in one paragraph, and with details also what the report lacks.
    pub(crate) fn coverage(&mut self, coverage: &Coverage) -> io::Result<()> {
        writeln!(self.out)?;
        let label = self.styled(Style::new().bold(), "Coverage: ");
        self.paragraph_after(&label, "Coverage: ".len(), &coverage_text(coverage))?;
        if !self.details {
            return Ok(());
        }
        let mut label = "  not read  ";
        for unread in &coverage.unread {
            let of =
                unread.namespace.as_ref().map(|namespace| format!(" of namespace {namespace}")).unwrap_or_default();
            self.paragraph(
                label,
                &format!("{}{of} ({}): the report lacks {}.", unread.kind, unread.reason, unread.missing),
            )?;
            label = "            ";
        }
        Ok(())
    }

    /// What is not known, and how to find out.
    pub(crate) fn unknown(&mut self, all: &[Unknown]) -> io::Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        self.heading("Not known")?;
        for unknown in all.iter().take(self.shown(all.len())) {
            self.paragraph("  - ", &unknown.what)?;
            self.paragraph("    find out  ", &unknown.resolve)?;
            if unknown.objects.is_empty() {
                continue;
            }
            let most = if self.details { unknown.objects.len() } else { SHOWN };
            self.paragraph("    objects   ", &first_objects(&unknown.objects, unknown.all, most))?;
        }
        self.more(all.len(), "unknown thing")
    }
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
