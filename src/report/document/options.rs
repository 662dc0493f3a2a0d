//! The formats of a report, and the options of a caller.

use clap::ValueEnum;
use mullion_engine::model::text::{list, thousands};

use crate::report::document::inline::{exact_size, size};
use crate::report::document::table::Shown;

/// A format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For a terminal, with the summary first
    Text,
    /// For programs: the whole survey or plan, by docs/schema/survey-v1.json or docs/schema/plan-v1.json; a policy diff as JSON Lines
    Json,
    /// For a ticket, a wiki or a pull request
    Markdown,
    /// For a spreadsheet: the workloads of a survey or of a policy diff, the containers of a plan with their verdicts
    Csv,
    /// One file for a browser and for paper, without any request to a network
    Html,
}

/// The options of a caller.
#[derive(Debug, Clone, Copy)]
pub struct RenderOptions {
    /// Whether text and Markdown have everything.
    pub details: bool,
    /// Whether text has colors.
    pub colour: bool,
    /// The longest line of prose in text, in characters.
    pub width: usize,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { details: false, colour: false, width: 100 }
    }
}

impl RenderOptions {
    /// Whether text and Markdown show a part.
    pub(super) fn shows(self, shown: Shown) -> bool {
        shown == Shown::Always || shown == Shown::Details && self.details
    }

    /// The limit of a list: none with details.
    pub(super) fn most(self, without_details: usize) -> usize {
        if self.details { usize::MAX } else { without_details }
    }

    /// The first names of a list, and how many more objects there are of `all`: `a, b and 3 more`.
    pub(super) fn first_of(self, names: &[String], all: usize, without_details: usize) -> String {
        let shown = names.len().min(self.most(without_details));
        let first = list(names.iter().take(shown));
        match all.max(names.len()) - shown {
            0 => first,
            more => format!("{first} and {} more", thousands(more)),
        }
    }

    /// `4.1 GiB`, and all digits with details.
    pub(super) fn size(self, bytes: u64) -> String {
        if self.details { exact_size(bytes) } else { size(bytes) }
    }

    /// The same options for a report that people read as prose: in lines of 80 to 120 characters.
    #[must_use]
    pub(crate) fn for_prose(self) -> Self {
        Self { width: self.width.clamp(80, 120), ..self }
    }
}
