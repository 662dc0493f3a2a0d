//! Exit codes of commands.

use std::process::ExitCode;

/// The exit code of a command. The highest that applies is used, so they are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// 0: nothing to report.
    Clean,
    /// 1: findings at `--fail-on`, a denied object, or the result `no`.
    Findings,
    /// 2: unreadable or malformed input, or wrong usage.
    Unreadable,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Clean => Self::SUCCESS,
            Outcome::Findings => Self::from(1),
            Outcome::Unreadable => Self::from(2),
        }
    }
}
