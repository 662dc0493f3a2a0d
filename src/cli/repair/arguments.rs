//! Arguments of `mullion repair`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::cluster_arguments::HEADING;
use crate::cli::inventory::{InventoryArgs, InventorySource};
use crate::cli::output_file::OutputFileArgs;
use crate::cli::output_format::OutputFormat;
use crate::cli::time_limit::time_limit;

/// Arguments of `repair`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion repair --context prod\n\
    \x20 mullion repair --context prod -n shop --dry-run=server\n\
    \x20 mullion repair --context prod -n shop --yes\n\
    \x20 mullion repair cluster.json\n\n\
    Without --yes, nothing is changed. A dump is only listed.\n\n\
    Exit code: 0 if no pod is stuck, or all were evicted and start elsewhere; 1 if a pod is stuck; 2 for input, policies or a \
    cluster that cannot be read.")]
pub struct RepairArgs {
    /// What is read.
    #[command(flatten)]
    pub source: InventorySource,
    /// Evict the stuck pods that their owners make again on nodes that fit
    #[arg(short, long)]
    pub yes: bool,
    /// Send the evictions as a dry run: the API server checks them, and evicts nothing
    #[arg(long, value_enum, value_name = "server")]
    pub dry_run: Option<DryRun>,
    /// The most pods that are evicted within a minute
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=600))]
    pub rate: u16,
    /// How long the successor of the first pod of an owner may take to start: 90s, 5m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time_limit)]
    pub successor_timeout: Duration,
    /// Output format; JSON is one object per line
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub output: OutputFormat,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
    /// Only pods with these labels: app=web,tier!=db
    #[arg(short = 'l', long, value_name = "LABELS", help_heading = HEADING)]
    pub selector: Option<String>,
}

/// Who checks a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// The API server
    Server,
}

impl RepairArgs {
    /// Whether evictions are sent.
    pub(super) fn evicts(&self) -> bool {
        self.yes || self.dry_run.is_some()
    }

    /// What is read. Pods with other labels are read too: their owners, and the images that they run, are evidence.
    pub(super) fn inventory(&self) -> InventoryArgs {
        InventoryArgs { source: self.source.clone(), ..InventoryArgs::default() }
    }
}
