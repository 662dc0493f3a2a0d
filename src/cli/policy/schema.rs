//! `mullion policy schema`: the JSON Schema of policy files.

use clap::Args;
use clap::builder::PossibleValuesParser;
use mullion_policy::schema::json::{render_kind_schema, render_policy_schema, schema_kinds};

use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;

/// Arguments of `policy schema`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion policy schema --output-file policy.json\n\
    \x20 mullion policy schema --kind PodPolicy\n\n\
    Exit code: 0; 2 for an unknown kind.")]
pub struct PolicySchemaArgs {
    /// Only documents of this kind; test cases of policies are in files that end in .test.yaml
    #[arg(long, value_parser = PossibleValuesParser::new(schema_kinds()))]
    pub kind: Option<String>,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// Prints the schema.
pub fn run(args: &PolicySchemaArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let schema = args.kind.as_deref().and_then(render_kind_schema).unwrap_or_else(render_policy_schema);
    io.stdout.write_all(schema.as_bytes())?;
    Ok(Outcome::Clean)
}
