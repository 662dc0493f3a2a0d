//! Entries of catalogues: rules, and the findings of a survey.

use std::ops::Deref;

/// One entry of a catalogue, with what its catalogue adds to each entry. The additions are read through the entry:
/// `rule.default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogueEntry<T> {
    /// `MUL201`; never reused.
    pub code: &'static str,
    /// `run-as-user`.
    pub name: &'static str,
    /// What it finds: one line, lower case, no period.
    pub summary: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// What to write or do instead.
    pub instead: &'static str,
    /// What the catalogue adds.
    pub details: T,
}

impl<T> Deref for CatalogueEntry<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.details
    }
}
