//! `kubectl mullion`: the program under the names that kubectl uses for plugins.
//!
//! kubectl runs `kubectl-NAME` for `kubectl NAME`, and `kubectl_complete-NAME` for completions. It passes the words
//! after the plugin's name, the one to complete last. It reads one candidate per line, `VALUE<tab>DESCRIPTION`, and at
//! the end `:NUMBER`, a sum of Cobra's directives.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::CompletionCandidate;
use clap_complete::engine::complete;
use mullion_engine::model::foreign_text::visible;

use crate::cli::command_line::Cli;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;

/// The shell adds no blank after the candidate, because the word is not complete.
const NO_SPACE: u8 = 2;
/// The shell adds no file names: the candidates contain them where they are possible.
const NO_FILES: u8 = 4;

/// The caller of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A shell, as `mullion`.
    Shell,
    /// kubectl, as its plugin.
    Plugin,
    /// kubectl, for completions.
    Completion,
}

impl Caller {
    /// The caller, from the path that the program was started with.
    pub(crate) fn of(program: &OsStr) -> Self {
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
        let name = name.strip_suffix(".exe").unwrap_or(&name);
        match name {
            "kubectl-mullion" => Self::Plugin,
            "kubectl_complete-mullion" => Self::Completion,
            _ => Self::Shell,
        }
    }

    /// The name of the program in usage lines.
    pub(crate) fn usage_name(self) -> &'static str {
        match self {
            Self::Plugin => "kubectl mullion",
            Self::Shell | Self::Completion => "mullion",
        }
    }
}

/// Prints the candidates for the last of `words`.
pub(crate) fn candidates(words: &[OsString], io: &mut Io<'_>) -> io::Result<Outcome> {
    // The first word is the program's own name.
    let line = [&[OsString::from("mullion")], words].concat();
    let here = std::env::current_dir().ok();
    let mut found = complete(&mut Cli::command(), line, words.len(), here.as_deref())?;
    // A candidate is a line that the shell shows and inserts, so it has no other form.
    found.retain(|candidate| {
        let value = candidate.get_value().to_string_lossy();
        visible(&value) == value
    });
    for candidate in &found {
        writeln!(io.stdout, "{}", described(candidate))?;
    }
    writeln!(io.stdout, ":{}", directive(&found))?;
    Ok(Outcome::Clean)
}

fn described(candidate: &CompletionCandidate) -> String {
    let value = candidate.get_value().to_string_lossy();
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    match help.lines().next() {
        Some(help) if !help.is_empty() => format!("{value}\t{help}"),
        _ => value.into_owned(),
    }
}

fn directive(found: &[CompletionCandidate]) -> u8 {
    let is_incomplete = |candidate: &CompletionCandidate| {
        let value = candidate.get_value().to_string_lossy();
        value.ends_with(['/', '\\', '='])
    };
    match found {
        [only] if is_incomplete(only) => NO_FILES | NO_SPACE,
        _ => NO_FILES,
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_name_determines_the_caller() {
        let table = [
            ("mullion", Caller::Shell),
            ("/usr/bin/mullion", Caller::Shell),
            ("./kubectl-mullion", Caller::Plugin),
            ("kubectl-mullion.exe", Caller::Plugin),
            ("/opt/bin/kubectl_complete-mullion", Caller::Completion),
            ("kubectl_complete-mullion.exe", Caller::Completion),
            ("kubectl-mullions", Caller::Shell),
            ("", Caller::Shell),
            ("/", Caller::Shell),
        ];
        for (program, caller) in table {
            assert_eq!(Caller::of(OsStr::new(program)), caller, "{program}");
        }
    }

    #[test]
    fn only_a_single_incomplete_candidate_keeps_the_cursor() {
        let of = |values: &[&str]| {
            let found: Vec<_> = values.iter().map(|value| CompletionCandidate::new(*value)).collect();
            directive(&found)
        };
        assert_eq!(of(&["manifests/"]), 6);
        assert_eq!(of(&["manifests/", "moon"]), 4);
        assert_eq!(of(&["check"]), 4);
        assert_eq!(of(&[]), 4);
    }
}
