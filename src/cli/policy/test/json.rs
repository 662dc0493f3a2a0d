//! Results as JSON Lines.

use std::io;

use serde::Serialize;

use crate::cli::io_handles::Io;
use crate::cli::policy::test::{Counts, Ran};
use crate::report::problem::{ProblemRecord, Sources};
use crate::report::text::Severity;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Record<'a> {
    Case {
        file: &'a str,
        line: usize,
        name: &'a str,
        passed: bool,
        failures: Vec<Failed<'a>>,
    },
    Summary(&'a Counts),
    /// Has its own `type`.
    #[serde(untagged)]
    Problem(ProblemRecord<'a>),
}

#[derive(Serialize)]
struct Failed<'a> {
    key: &'a str,
    line: usize,
    messages: &'a [String],
    expected: &'a str,
    found: &'a str,
    decided: &'a [String],
}

/// Writes a record for each case and each problem, and one for the run.
pub(crate) fn write(results: &[Ran], counts: &Counts, io: &mut Io<'_>) -> io::Result<()> {
    let sources = Sources::default();
    for ran in results {
        let file = ran.file.as_str();
        let problems = ran.problems.iter().map(|problem| Record::Problem(sources.record(problem, Severity::Error)));
        let cases = ran.cases.iter().map(|case| {
            let failures = case.failures.iter().map(|failure| Failed {
                key: failure.key,
                line: failure.line,
                messages: &failure.says,
                expected: &failure.expected,
                found: &failure.found,
                decided: &failure.decided,
            });
            let failures: Vec<_> = failures.collect();
            Record::Case { file, line: case.line, name: &case.name, passed: failures.is_empty(), failures }
        });
        for record in problems.chain(cases) {
            line(&record, io)?;
        }
    }
    line(&Record::Summary(counts), io)
}

fn line(record: &Record<'_>, io: &mut Io<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *io.stdout, record)?;
    io.stdout.write_all(b"\n")
}
