//! A replacement of a piece of text.

use crate::span::Span;

/// New text for a range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The bytes to replace, in the file as it was.
    pub span: Span,
    /// What takes their place.
    pub text: String,
}
