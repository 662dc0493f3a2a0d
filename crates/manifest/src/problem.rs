//! Problems: what is wrong with a document, and where.

use std::fmt;

use crate::span::{LineColumn, LineIndex, Span};

/// Why a document could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the file as the user passed it.
    pub source: String,
    /// What is wrong, without the place.
    pub message: String,
    /// Where, in bytes of the whole file.
    pub span: Span,
    /// Where: the line, from 1; 0 for a file or a directory as a whole.
    pub line: usize,
    /// Where: the column in characters, from 1; 0 if the line is 0.
    pub column: usize,
    /// A second place that explains the first: the earlier of two equal keys.
    pub related: Option<Related>,
    /// What to do about it, if a cause is likely.
    pub hint: Option<String>,
}

/// A second place, possibly in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// The name of the file as the user passed it.
    pub source: String,
    /// What is at that place, as the beginning of a sentence that ends with the place: `it occurs first`.
    pub what: String,
    /// Where, in bytes of the whole file.
    pub span: Span,
    /// Where: the line, from 1.
    pub line: usize,
    /// Where: the column in characters, from 1.
    pub column: usize,
}

impl Related {
    /// A second place at `span` of the file `source`.
    pub fn at(source: impl Into<String>, lines: &LineIndex<'_>, span: Span, what: impl Into<String>) -> Self {
        let LineColumn { line, column } = lines.line_column(span.start);
        Self { source: source.into(), what: what.into(), span, line, column }
    }
}

impl Problem {
    /// A problem of the file or directory `source` as a whole.
    pub fn of_file(source: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            message: message.into(),
            span: Span::empty(0),
            line: 0,
            column: 0,
            related: None,
            hint: Some(hint.into()),
        }
    }

    /// A problem at `span` of the file `source`.
    pub fn at(source: impl Into<String>, lines: &LineIndex<'_>, span: Span, message: impl Into<String>) -> Self {
        let LineColumn { line, column } = lines.line_column(span.start);
        let (source, message) = (source.into(), message.into());
        Self { source, message, span, line, column, related: None, hint: None }
    }

    /// Line and column; `None` for a file or a directory as a whole.
    pub fn place(&self) -> Option<(usize, usize)> {
        (self.line > 0).then_some((self.line, self.column))
    }

    /// What is wrong, what the second place is and what to do, without the place itself: `the key occurs twice; it
    /// occurs first on line 5 (remove one of them)`.
    pub fn explanation(&self) -> String {
        let related = self.related_text().map(|related| format!("; {related}")).unwrap_or_default();
        let hint = self.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{}{related}{hint}", self.message)
    }

    /// The second place as a sentence: `it occurs first on line 5`.
    pub fn related_text(&self) -> Option<String> {
        let Related { source, what, line, .. } = self.related.as_ref()?;
        Some(if *source == self.source {
            format!("{what} on line {line}")
        } else {
            format!("{what} at {source}:{line}")
        })
    }
}

/// A problem before its lines are known: the error of the parsers.
#[derive(Clone, Debug)]
pub(crate) struct SpanProblem {
    pub(crate) message: String,
    pub(crate) span: Span,
    pub(crate) related: Option<(Span, &'static str)>,
    pub(crate) hint: Option<String>,
}

impl SpanProblem {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { message: message.into(), span, related: None, hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn related(mut self, span: Span, what: &'static str) -> Self {
        self.related = Some((span, what));
        self
    }

    pub(crate) fn shifted(mut self, offset: usize) -> Self {
        self.span = self.span.shifted(offset);
        self.related = self.related.map(|(span, what)| (span.shifted(offset), what));
        self
    }

    pub(crate) fn located(self, source: &str, lines: &LineIndex<'_>) -> Problem {
        let related = self.related.map(|(span, what)| Related::at(source, lines, span, what));
        Problem { related, hint: self.hint, ..Problem::at(source, lines, self.span, self.message) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explanation = self.explanation();
        match self.place() {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {explanation}", self.source),
            None => write!(f, "{}: {explanation}", self.source),
        }
    }
}

impl std::error::Error for Problem {}
