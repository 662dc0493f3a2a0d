//! `mullion policy schema`: the JSON Schema of policy files.

use clap::Args;
use clap::builder::PossibleValuesParser;
use mullion_policy::schema::json::{render_kind_schema, render_policy_schema, schema_kinds};

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;

/// Arguments of `policy schema`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Exit code: 0; 2 for an unknown kind.")]
pub struct PolicySchemaArgs {
    /// Only documents of this kind; test cases of policies are in files that end in .test.yaml
    #[arg(long, value_parser = PossibleValuesParser::new(schema_kinds()))]
    pub kind: Option<String>,
}

/// Prints the schema.
pub fn run(args: &PolicySchemaArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let schema = args.kind.as_deref().and_then(render_kind_schema).unwrap_or_else(render_policy_schema);
    io.stdout.write_all(schema.as_bytes())?;
    Ok(Outcome::Clean)
}
