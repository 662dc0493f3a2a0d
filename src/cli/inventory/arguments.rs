//! The arguments that select what `survey` and `plan` read.

use std::path::PathBuf;

use clap::Args;
use jiff::civil::Date;

use crate::cli::cluster_arguments::ClusterArguments;

/// What to read.
#[derive(Debug, Clone, Args)]
pub struct InventoryArgs {
    /// Dumps of a cluster, JSON or YAML, also packed with gzip: files, directories (*.json, *.yaml, *.yml, *.gz, recursive), or - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    pub paths: Vec<PathBuf>,
    /// Policies: files or directories; may be given more than once. Default: the built-in ones
    #[arg(long, value_name = "FILE|DIR")]
    pub policies: Vec<PathBuf>,
    /// Write what was read to a file, without values of environment variables and command lines; survey and plan read it again
    #[arg(long, value_name = "FILE.gz")]
    pub save: Option<PathBuf>,
    /// Tables of facts in place of built-in ones, in the format of `mullion facts`
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Day on which dates count as passed: 2027-04-01. Default: the current day
    #[arg(long, value_name = "DATE")]
    pub today: Option<Date>,
    /// The cluster, if no file is named.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}
