//! The list of the output formats of findings.

use std::io;
use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::report::findings::azure::AzureCommands;
use crate::report::findings::codequality::CodeQualityReport;
use crate::report::findings::github::GithubCommands;
use crate::report::findings::json_lines::JsonLines;
use crate::report::findings::junit::JunitReport;
use crate::report::findings::sarif::SarifLog;
use crate::report::findings::text::TextReport;
use crate::report::findings::writer::FindingsWriter;

/// The output formats of `check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FindingsFormat {
    /// For people
    Text,
    /// JSON Lines: records of type finding, workload and summary
    Json,
    /// SARIF 2.1.0, for code scanning and editors
    Sarif,
    /// Annotations of a GitHub Actions workflow
    Github,
    /// Annotations of an Azure Pipelines run
    Azure,
    /// A report for GitLab's Code Quality
    Codequality,
    /// JUnit XML: a test case for each workload
    Junit,
}

/// What a format depends on besides the findings.
#[derive(Debug, Clone, Default)]
pub(crate) struct FormatOptions {
    /// Whether text has colors.
    pub(crate) colour: bool,
    /// Whether a warning is a failure, because of `--fail-on warn`.
    pub(crate) warnings_fail: bool,
    /// The directory in which the program runs: the root of relative paths.
    pub(crate) directory: Option<PathBuf>,
}

impl FindingsFormat {
    /// The writer of this format, which has written what comes before the first finding.
    pub(crate) fn start_writer(
        self,
        options: FormatOptions,
        out: &mut dyn Write,
    ) -> io::Result<Box<dyn FindingsWriter>> {
        Ok(match self {
            Self::Text => Box::new(TextReport::new(options.colour)),
            Self::Json => Box::new(JsonLines),
            Self::Sarif => Box::new(SarifLog::start(out)?),
            Self::Github => Box::new(GithubCommands),
            Self::Azure => Box::<AzureCommands>::default(),
            Self::Codequality => Box::new(CodeQualityReport::start(options.directory, out)?),
            Self::Junit => Box::new(JunitReport::new(options.warnings_fail)),
        })
    }

    /// Whether the format shows what Mullion changes.
    pub(crate) fn shows_changes(self) -> bool {
        matches!(self, Self::Text | Self::Json)
    }
}
