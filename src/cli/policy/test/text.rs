//! Results for people.

use std::fmt::Write as _;
use std::io;

use anstyle::{AnsiColor, Style};
use mullion_engine::model::foreign_text::visible;
use similar::{ChangeTag, TextDiff};

use crate::cli::io_handles::Io;
use crate::cli::policy::test::results::{CaseResult, FileResult};

/// Writes the cases that fail; with `verbose` also those that pass.
pub(crate) fn write(results: &[FileResult], verbose: bool, io: &mut Io<'_>) -> io::Result<()> {
    for result in results {
        for case in &result.cases {
            let text = match case.failures.is_empty() {
                true if !verbose => continue,
                true => format!("ok   {}:{} {}\n", visible(&result.file), case.line, visible(&case.name)),
                false => format!("{}\n", failed(&result.file, case, io.colour_stdout)),
            };
            io.stdout.write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

/// A failed case.
pub(crate) fn failed(file: &str, case: &CaseResult, colour: bool) -> String {
    let bad = if colour { AnsiColor::Red.on_default().bold() } else { Style::new() };
    let head = format!("{}:{} {}", visible(file), case.line, visible(&case.name));
    let mut text = format!("{bad}FAIL{bad:#} {head}\n");
    text.push_str(&body(file, case, colour));
    text
}

/// The failures of a case: the expected (`-`) and the actual lines (`+`) of each, and what decided them.
pub(crate) fn body(file: &str, case: &CaseResult, colour: bool) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for failure in &case.failures {
        let _infallible = writeln!(text, "  {} ({}:{}; - expected, + found)", failure.key, visible(file), failure.line);
        for line in &failure.messages {
            let _infallible = writeln!(text, "    {}", visible(line));
        }
        for change in TextDiff::from_lines(&failure.expected, &failure.actual).iter_all_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', style(AnsiColor::Red, colour)),
                ChangeTag::Insert => ('+', style(AnsiColor::Green, colour)),
                ChangeTag::Equal => (' ', Style::new()),
            };
            let line = visible(change.value().trim_end_matches('\n')).into_owned();
            let _infallible = writeln!(text, "      {style}{sign} {line}{style:#}");
        }
        for line in &failure.deciders {
            let _infallible = writeln!(text, "    = {}", visible(line));
        }
    }
    text
}

fn style(colour: AnsiColor, on: bool) -> Style {
    if on { colour.on_default() } else { Style::new() }
}
