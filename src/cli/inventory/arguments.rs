//! The arguments that select what `survey`, `plan` and `repair` read.

use std::path::PathBuf;

use clap::Args;
use jiff::civil::Date;
use mullion_engine::model::text::list_with;
use mullion_survey::inventory::{OTHER_LABELS, OTHER_NAMESPACES};
use mullion_survey::report::Unread;

use crate::cli::cluster_arguments::{ClusterArguments, HEADING};
use crate::cli::file_patterns::expanded;
use crate::cli::input::{LinkArgs, namespace_name};

/// The files, or the cluster and its namespaces, that are read, and the policies.
#[derive(Debug, Clone, Default, Args)]
pub struct InventorySource {
    /// Dumps of a cluster, JSON or YAML, also packed with gzip: files, directories (*.json, *.yaml, *.yml, *.gz, recursive), or - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    pub paths: Vec<PathBuf>,
    /// Which links in directories are followed.
    #[command(flatten)]
    pub links: LinkArgs,
    /// Directory of policy files, or one file; may be given more than once. Or cluster: the policies in force in the cluster that is read; built-in: the built-in ones. Default: cluster if a cluster is read and has policies that can be read, else built-in
    #[arg(long, value_name = "DIR|cluster|built-in")]
    pub policies: Vec<PathBuf>,
    /// Read the objects of all namespaces, whatever -n is; without -n this is the default
    #[arg(short = 'A', long, help_heading = HEADING)]
    pub all_namespaces: bool,
    /// Read only the objects of this namespace, of a cluster or a dump, and nodes; may be given more than once
    #[arg(short, long = "namespace", value_name = "NS", value_parser = namespace_name, help_heading = HEADING)]
    pub namespaces: Vec<String>,
    /// The cluster, if no file is named.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

/// What to read.
#[derive(Debug, Clone, Default, Args)]
pub struct InventoryArgs {
    /// Files, or a cluster.
    #[command(flatten)]
    pub source: InventorySource,
    /// Dumps, as with kubectl: the same as without -f; may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    pub filenames: Vec<PathBuf>,
    /// Write the members that a report needs to a file that only you can read; survey and plan read it again
    #[arg(long, value_name = "FILE.gz")]
    pub save: Option<PathBuf>,
    /// Tables of facts in place of built-in ones, in the format of `mullion facts`
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// Day on which dates count as passed: 2027-04-01. Default: the current day
    #[arg(long, value_name = "DATE")]
    pub today: Option<Date>,
    /// Read only workloads and pods with these labels, of a cluster or a dump: app=web,tier!=db
    #[arg(short = 'l', long, value_name = "LABELS", help_heading = HEADING)]
    pub selector: Option<String>,
}

impl InventorySource {
    /// The namespaces that are read; empty: all.
    pub(crate) fn selected_namespaces(&self) -> &[String] {
        if self.all_namespaces { &[] } else { &self.namespaces }
    }
}

impl InventoryArgs {
    /// The files, with -f and without.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        expanded(self.source.paths.iter().chain(&self.filenames).cloned().collect()).map_err(anyhow::Error::msg)
    }

    /// What the arguments exclude, for the coverage of the report.
    pub(crate) fn excluded(&self) -> Vec<Unread> {
        let excluded = |kind: &str, reason: String| {
            Unread::new(kind, reason, "their workloads and pods, also in the numbers of pods of each pool")
        };
        let mut all = Vec::new();
        let namespaces = self.source.selected_namespaces();
        if !namespaces.is_empty() {
            let only = list_with(namespaces, "and");
            all.push(excluded(OTHER_NAMESPACES, format!("not requested: -n selects {only}")));
        }
        if let Some(labels) = &self.selector {
            all.push(excluded(OTHER_LABELS, format!("not requested: -l selects {labels}")));
        }
        all
    }
}
