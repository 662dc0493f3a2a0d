//! A file or a document that cannot be reviewed, with the reason.

use std::fmt;

use mullion_manifest::Problem;

/// The name of standard input in place of a path.
pub(crate) const STDIN: &str = "<stdin>";

/// A file or a document that cannot be reviewed: one line with its name, what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFailure {
    /// The name as the user passed it; [`STDIN`] for standard input.
    pub file: String,
    /// Line and column, from 1, the column in characters; `None` if it is about the whole file.
    pub place: Option<(usize, usize)>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl InputFailure {
    /// A failure that is about a whole file.
    pub(crate) fn of_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), place: None, message: message.into() }
    }
}

impl fmt::Display for InputFailure {
    /// `web.yaml:3:1: the key `kind` occurs twice in this map; …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl From<InputFailure> for Problem {
    fn from(InputFailure { file, place, message }: InputFailure) -> Self {
        let (line, column) = place.unwrap_or_default();
        Self { line, column, hint: None, ..Self::of_file(file, message, "") }
    }
}

impl From<Problem> for InputFailure {
    fn from(problem: Problem) -> Self {
        let (place, related) = (problem.place(), problem.related_text());
        let parts = [Some(problem.message), related, problem.hint];
        let message = parts.into_iter().flatten().collect::<Vec<String>>().join("; ");
        Self { file: problem.source, place, message }
    }
}
