//! The formats of a plan, and what a caller may choose.

use clap::ValueEnum;

/// A format of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// For a terminal, with the summary first
    Text,
    /// The whole plan, by the schema docs/schema/plan-v1.json
    Json,
    /// For a ticket or a wiki
    Markdown,
    /// The containers with their verdicts, for a spreadsheet
    Csv,
    /// One file for a browser and for paper, without any request to a network
    Html,
}

/// What a caller may choose.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions {
    /// Whether text and Markdown have every workload, edit and source.
    pub details: bool,
    /// Whether text has colours.
    pub colour: bool,
    /// The width of text, in characters; 80 to 120 are used.
    pub width: usize,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { details: false, colour: false, width: 100 }
    }
}
