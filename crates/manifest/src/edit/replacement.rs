//! A replacement of a piece of text.

use crate::span::Span;

/// New text for a range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The bytes to replace, in the unchanged file.
    pub span: Span,
    /// The new text.
    pub text: String,
}
