//! `mullion policy schema`: the JSON Schema of policy files.

use clap::Args;
use clap::builder::PossibleValuesParser;
use mullion_policy::schema::json;

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;

/// Arguments of `policy schema`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit code: 0; 2 for a kind that there is not.")]
pub struct Schema {
    /// Only documents of this kind; test cases for policies stand in files that end in .test.yaml
    #[arg(long, value_parser = PossibleValuesParser::new(json::kinds()))]
    pub kind: Option<String>,
}

/// Prints it.
pub fn run(args: &Schema, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let schema = args.kind.as_deref().and_then(json::kind).unwrap_or_else(json::policies);
    io.stdout.write_all(schema.as_bytes())?;
    Ok(Outcome::Clean)
}
