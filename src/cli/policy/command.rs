//! The subcommands of `mullion policy`.

use clap::{Args, Subcommand};

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::policy::{check, diff, schema, show, test};

/// Arguments of `policy`.
#[derive(Debug, Clone, Args)]
pub struct Policy {
    /// What to ask.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// What can be asked.
#[derive(Debug, Clone, Subcommand)]
pub enum PolicyCommand {
    /// Say everything that is wrong with policy files
    Check(check::Check),
    /// Say what holds for a namespace or a pod, and which file and line set it
    Show(show::Show),
    /// Run policy test cases
    Test(test::Test),
    /// Say which subjects a change of policy files would have decided differently
    Diff(diff::Diff),
    /// Print the JSON Schema of policy files
    Schema(schema::Schema),
}

/// Answers.
pub fn run(args: &Policy, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    match &args.command {
        PolicyCommand::Check(args) => check::run(args, io),
        PolicyCommand::Show(args) => show::run(args, io),
        PolicyCommand::Test(args) => test::run(args, io),
        PolicyCommand::Diff(args) => diff::run(args, io),
        PolicyCommand::Schema(args) => schema::run(args, io),
    }
}
