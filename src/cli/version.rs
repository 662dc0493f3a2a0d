//! `mullion version`: the version of the program.

use clap::Args;
use serde::Serialize;

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::output_format::OutputFormat;
use crate::report::write_line;

/// Arguments of `version`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  mullion version\n  mullion version -o json")]
pub struct VersionArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// The line of `version -o json`.
#[derive(Debug, Serialize)]
struct VersionRecord {
    version: &'static str,
}

/// Prints the version: as text the line of `--version`.
pub(crate) fn run(args: &VersionArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let version = env!("CARGO_PKG_VERSION");
    match args.output {
        OutputFormat::Text => writeln!(io.stdout, "mullion {version}")?,
        OutputFormat::Json => write_line(io.stdout, &VersionRecord { version })?,
    }
    Ok(Outcome::Clean)
}
