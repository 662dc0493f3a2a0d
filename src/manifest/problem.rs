//! What is wrong with a document, and where.

use std::fmt;

use super::span::{LineIndex, Span};

/// Why a document could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file as the user named it.
    pub source: String,
    /// What is wrong, without the place.
    pub message: String,
    /// Where, in bytes of the whole file.
    pub span: Span,
    /// Where: the line, from 1.
    pub line: usize,
    /// Where: the column in characters, from 1.
    pub column: usize,
    /// A second place that explains the first, with what it is: the earlier of two equal keys.
    pub related: Option<(Span, String)>,
    /// What to do about it, where that can be guessed.
    pub hint: Option<String>,
}

/// A problem before its place is known in lines: what the parsers return.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) span: Span,
    pub(super) related: Option<(Span, &'static str)>,
    pub(super) hint: Option<String>,
}

impl Fault {
    pub(super) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { message: message.into(), span, related: None, hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn related(mut self, span: Span, what: &'static str) -> Self {
        self.related = Some((span, what));
        self
    }

    pub(super) fn shifted(mut self, offset: usize) -> Self {
        self.span = self.span.shifted(offset);
        self.related = self.related.map(|(span, what)| (span.shifted(offset), what));
        self
    }

    pub(super) fn located(self, source: &str, lines: &LineIndex<'_>) -> Problem {
        let place = lines.line_column(self.span.start);
        Problem {
            source: source.to_owned(),
            message: self.message,
            span: self.span,
            line: place.line,
            column: place.column,
            related: self
                .related
                .map(|(span, what)| (span, format!("{what} on line {}", lines.line_column(span.start).line))),
            hint: self.hint,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.source, self.line, self.column, self.message)?;
        if let Some((_, what)) = &self.related {
            write!(f, "; {what}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
