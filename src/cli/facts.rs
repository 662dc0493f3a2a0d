//! `mullion facts`: prints the tables of facts that `survey` and `plan` read, or checks a file of them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use mullion_engine::model::text::{counted, list};
use mullion_survey::Facts;
use mullion_survey::facts::{FactsTable, built_in_text};

use crate::cli::input::read_file;
use crate::cli::io_handles::Io;
use crate::cli::outcome::Outcome;
use crate::cli::output_file::OutputFileArgs;

/// Arguments of `facts`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion facts --output-file facts.yaml\n\
    \x20 mullion facts facts.yaml\n\n\
    The tables: when support ends, which images are published, what providers and Kubernetes versions permit, what behaves differently after a move, and commands of providers. \
Each row has its source and the day of that source. `survey` and `plan` read a file of this format with --facts.

Exit code: 0; 2 for a file that cannot be used.")]
pub struct FactsArgs {
    /// File to check. Default: print the built-in tables
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// File to check, as with kubectl: the same as without -f
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "file")]
    pub filename: Option<PathBuf>,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// Prints the built-in tables, or the number of rows in each table of the file.
pub(crate) fn run(args: &FactsArgs, io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    let Some(path) = args.file.as_ref().or(args.filename.as_ref()) else {
        write!(io.stdout, "{}", built_in_text())?;
        return Ok(Outcome::Clean);
    };
    let facts = read_facts(path)?;
    let replaced = |table: &FactsTable| facts.origins.get(table).is_some_and(|origin| origin.replaced);
    let tables = FactsTable::ALL.into_iter().filter(replaced);
    let counts = tables.map(|table| counted(facts.rows(table), table.name().trim_end_matches('s')));
    io.println(format_args!("{}: {}", path.display(), list(counts)))?;
    Ok(Outcome::Clean)
}

/// The built-in tables, or those of a file instead.
pub(crate) fn read_facts(path: &Path) -> anyhow::Result<Facts> {
    let name = path.display().to_string();
    let bytes = read_file(path).with_context(|| format!("{name}: the facts cannot be read"))?;
    let text = String::from_utf8(bytes).with_context(|| format!("{name}: the facts are not UTF-8"))?;
    Ok(Facts::parse(&name, &text)?)
}
