//! The explanation of a finding.

/// The page of a finding. In its texts, backticks mark code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// `SUR201`.
    pub code: String,
    /// `image-build-mismatch`.
    pub name: String,
    /// What the finding reports.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What to do.
    pub fix: String,
    /// Where the facts are published: addresses, or repositories with files.
    pub sources: Vec<String>,
}
