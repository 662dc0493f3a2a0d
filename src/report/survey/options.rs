//! The formats of a report, and the options of a caller.

use clap::ValueEnum;
use mullion_survey::Comparison;

/// A format of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SurveyFormat {
    /// For a terminal, with the summary first
    Text,
    /// The whole report, by the schema docs/schema/survey-v1.json
    Json,
    /// For a ticket or a wiki
    Markdown,
    /// The workloads, for a spreadsheet
    Csv,
    /// One file for a browser and for paper, without any request to a network
    Html,
}

/// The options of a caller.
#[derive(Debug, Clone, Copy)]
pub struct SurveyOptions<'a> {
    /// Whether text and Markdown have every finding and every workload.
    pub details: bool,
    /// Whether text has colors.
    pub colour: bool,
    /// The width of text, in characters; limited to 80 to 120.
    pub width: usize,
    /// The differences from an earlier report. CSV does not contain them.
    pub comparison: Option<&'a Comparison>,
    /// The pages of findings. HTML contains those for codes in the report.
    pub explanations: &'a [Explanation],
}

impl Default for SurveyOptions<'_> {
    fn default() -> Self {
        Self { details: false, colour: false, width: 100, comparison: None, explanations: &[] }
    }
}

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
