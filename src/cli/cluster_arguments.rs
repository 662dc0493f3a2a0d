//! Arguments that select a cluster and its user, as in kubectl, and the connection to it.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use tokio::task::spawn_blocking;

use crate::cluster::connect::{self, ClusterConnection, ConnectOptions};
use crate::cluster::kubeconfig::Environment;
use crate::server::tls::install_crypto;

/// The cluster that a command reads.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArguments {
    /// Context of the kubeconfig. Default: its current context
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub context: Option<String>,
    /// Kubeconfig. Default: the files of KUBECONFIG, else ~/.kube/config, else the service account of the pod
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub kubeconfig: Option<PathBuf>,
    /// User to impersonate
    #[arg(long = "as", value_name = "USER", help_heading = HEADING)]
    pub impersonated_user: Option<String>,
    /// Group to impersonate; may be given more than once
    #[arg(long = "as-group", value_name = "GROUP", requires = "impersonated_user", help_heading = HEADING)]
    pub impersonated_groups: Vec<String>,
}

/// The heading of these arguments in the help.
pub(crate) const HEADING: &str = "Cluster";

impl ClusterArguments {
    /// Whether an argument selects a cluster or a user.
    pub(crate) fn names_a_cluster(&self) -> bool {
        let Self { context, kubeconfig, impersonated_user, impersonated_groups: _ } = self;
        context.is_some() || kubeconfig.is_some() || impersonated_user.is_some()
    }

    /// Connects to the cluster. This sends no request yet, but runs an exec plugin.
    pub(crate) async fn connect(&self) -> anyhow::Result<ClusterConnection> {
        install_crypto();
        let arguments = self.clone();
        // An exec plugin may prompt the user, and signals must be handled meanwhile.
        let connected = spawn_blocking(move || {
            let options = ConnectOptions {
                kubeconfig: arguments.kubeconfig.as_deref(),
                context: arguments.context.as_deref(),
                impersonated_user: arguments.impersonated_user.as_deref(),
                impersonated_groups: &arguments.impersonated_groups,
            };
            connect::connect(options, &Environment::of_process())
        });
        connected.await.context("the connection to the cluster was interrupted")?
    }
}
