//! Results as JSON Lines.

use std::io;

use serde::Serialize;

use crate::cli::io_handles::Io;
use crate::cli::policy::test::compare::ExpectationFailure;
use crate::cli::policy::test::results::{CaseResult, Counts, FileResult};
use crate::report::{DiagnosticSeverity, PolicySources, ProblemRecord, write_line};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Record<'a> {
    Case {
        file: &'a str,
        line: usize,
        name: &'a str,
        passed: bool,
        failures: &'a [ExpectationFailure],
    },
    Summary(&'a Counts),
    /// Contains its own `type`.
    #[serde(untagged)]
    Problem(ProblemRecord<'a>),
}

/// Writes a record for each case and each problem, and one for the run.
pub(crate) fn write(results: &[FileResult], counts: &Counts, io: &mut Io<'_>) -> io::Result<()> {
    let sources = PolicySources::default();
    for result in results {
        let file = result.file.as_str();
        let problems =
            result.problems.iter().map(|problem| Record::Problem(sources.record(problem, DiagnosticSeverity::Error)));
        let cases = result.cases.iter().map(|case| {
            let CaseResult { name, line, failures } = case;
            Record::Case { file, line: *line, name, passed: failures.is_empty(), failures }
        });
        for record in problems.chain(cases) {
            write_line(io.stdout, &record)?;
        }
    }
    write_line(io.stdout, &Record::Summary(counts))
}
