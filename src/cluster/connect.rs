//! Clients of the cluster, from `--kubeconfig` or the service account of a pod.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cluster::watch::{SILENCE, client_with};

/// A client for the cluster of the kubeconfig's current context; without a file, for the cluster this pod runs in.
pub(crate) async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    client_from(config(kubeconfig).await?)
}

/// The same, but requests are sent once: 429, 503 and 504 are errors for the caller.
pub(crate) async fn client_without_retries(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    client_from(config)
}

fn client_from(config: Config) -> anyhow::Result<Client> {
    client_with(config, SILENCE).context("cannot make a client for the cluster")
}

async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    match kubeconfig {
        Some(path) => {
            let unusable = || format!("{}: not usable as a kubeconfig; pass another file to --kubeconfig", path.display());
            let read = Kubeconfig::read_from(path).with_context(unusable)?;
            let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
            config.with_context(unusable)
        }
        None => Config::incluster().map_err(|error| {
            anyhow!("this process runs in no pod with a service account ({error}); pass --kubeconfig FILE, as in ~/.kube/config")
        }),
    }
}
