//! Results as annotations of a GitHub Actions workflow: one for each expectation that fails, on its line.

use std::io;

use crate::cli::io_handles::Io;
use crate::cli::policy::test::results::FileResult;
use crate::report::{DiagnosticSeverity, InputFailure, PolicySources, github};

/// Writes a line for each problem and each failure.
pub(crate) fn write(results: &[FileResult], io: &mut Io<'_>) -> io::Result<()> {
    let sources = PolicySources::default();
    for result in results {
        let problems = result.problems.iter().map(|problem| sources.command(problem, DiagnosticSeverity::Error));
        let failures = result.cases.iter().flat_map(|case| case.failures.iter().map(move |failure| (case, failure)));
        let failures = failures.map(|(case, failure)| {
            let (messages, deciders) = (failure.messages.join("; "), failure.deciders.join("; "));
            let because = if deciders.is_empty() { deciders } else { format!(" ({deciders})") };
            let message = format!("{}: {}: {messages}{because}", case.name, failure.key);
            let failure = InputFailure { file: result.file.clone(), place: Some((failure.line, 1)), message };
            github::problem(&failure, DiagnosticSeverity::Error, None)
        });
        for line in problems.chain(failures) {
            io.stdout.write_all(line.as_bytes())?;
        }
    }
    Ok(())
}
