//! The arguments that select what `survey` and `plan` read.

use std::path::PathBuf;

use clap::Args;
use jiff::civil::Date;

use crate::cli::cluster_arguments::{ClusterArguments, HEADING};
use crate::cli::file_patterns::expanded;
use crate::cli::input::{LinkArgs, namespace_name};

/// What to read.
#[derive(Debug, Clone, Args)]
pub struct InventoryArgs {
    /// Dumps of a cluster, JSON or YAML, also packed with gzip: files, directories (*.json, *.yaml, *.yml, *.gz, recursive), or - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    pub paths: Vec<PathBuf>,
    /// Dumps, as with kubectl: the same as without -f; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    pub filenames: Vec<PathBuf>,
    /// Which links in directories are followed.
    #[command(flatten)]
    pub links: LinkArgs,
    /// Policies: files or directories; may be given more than once. Default: the built-in ones
    #[arg(long, value_name = "FILE|DIR")]
    pub policies: Vec<PathBuf>,
    /// Write the members that a report needs to a file that only you can read; survey and plan read it again
    #[arg(long, value_name = "FILE.gz")]
    pub save: Option<PathBuf>,
    /// Tables of facts in place of built-in ones, in the format of `mullion facts`
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Day on which dates count as passed: 2027-04-01. Default: the current day
    #[arg(long, value_name = "DATE")]
    pub today: Option<Date>,
    /// Read the objects of all namespaces, whatever -n is; without -n this is the default
    #[arg(short = 'A', long, help_heading = HEADING)]
    pub all_namespaces: bool,
    /// Read only the objects of this namespace, of a cluster or a dump, and nodes; may be given more than once
    #[arg(short, long = "namespace", value_name = "NS", value_parser = namespace_name, help_heading = HEADING)]
    pub namespaces: Vec<String>,
    /// Read only workloads and pods with these labels: app=web,tier!=db
    #[arg(short = 'l', long, value_name = "LABELS", help_heading = HEADING)]
    pub selector: Option<String>,
    /// The cluster, if no file is named.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

impl InventoryArgs {
    /// The files, with -f and without.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        expanded(self.paths.iter().chain(&self.filenames).cloned().collect()).map_err(anyhow::Error::msg)
    }

    /// The namespaces that are read; empty: all.
    pub(crate) fn selected_namespaces(&self) -> &[String] {
        if self.all_namespaces { &[] } else { &self.namespaces }
    }

    /// Whether an argument selects a cluster or objects of it.
    pub(crate) fn names_a_cluster(&self) -> bool {
        self.selector.is_some() || self.cluster.names_a_cluster()
    }
}
