//! Arguments that select objects of a cluster.

use clap::Args;

use crate::cli::cluster_arguments::{ClusterArguments, HEADING};

/// The objects of a cluster that a command reads.
#[derive(Debug, Clone, Default, Args)]
pub struct LiveArguments {
    /// Read the workloads of all namespaces of a cluster, whatever -n is
    #[arg(short = 'A', long, help_heading = HEADING)]
    pub all_namespaces: bool,
    /// Read only objects with these labels: app=web,tier!=db
    #[arg(short = 'l', long, value_name = "LABELS", help_heading = HEADING)]
    pub selector: Option<String>,
    /// Read only objects with these fields: metadata.name=web
    #[arg(long, value_name = "FIELDS", help_heading = HEADING)]
    pub field_selector: Option<String>,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
}

impl LiveArguments {
    /// Whether an argument selects objects of a cluster without naming them, or is useless without a cluster.
    pub(crate) fn names_a_cluster(&self) -> bool {
        let Self { all_namespaces, selector, field_selector, cluster } = self;
        *all_namespaces || selector.is_some() || field_selector.is_some() || cluster.names_a_cluster()
    }
}
