//! The subcommands of `mullion policy`.

use clap::{Args, Subcommand};

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::policy::{check, diff, schema, show, test};

/// Arguments of `policy`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  mullion policy check policies/\n  mullion policy show -n shop --policies policies/"
)]
pub struct PolicyArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// The subcommands of `policy`.
#[derive(Debug, Clone, Subcommand)]
pub enum PolicyCommand {
    /// List everything that is wrong with policy files
    Check(check::PolicyCheckArgs),
    /// Show the effective policy of a namespace or a pod, with the file and line that set each key
    Show(show::command::PolicyShowArgs),
    /// Run policy test cases
    Test(test::PolicyTestArgs),
    /// Show which workloads and nodes a change of policy files would affect
    Diff(diff::command::PolicyDiffArgs),
    /// Print the JSON Schema of policy files
    Schema(schema::PolicySchemaArgs),
}

/// Runs the subcommand.
pub(crate) fn run(args: &PolicyArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    match &args.command {
        PolicyCommand::Check(args) => check::run(args, io),
        PolicyCommand::Show(args) => show::command::run(args, io),
        PolicyCommand::Test(args) => test::run(args, io),
        PolicyCommand::Diff(args) => diff::command::run(args, io),
        PolicyCommand::Schema(args) => schema::run(args, io),
    }
}
