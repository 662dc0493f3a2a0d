//! From `--kubeconfig`, or from inside a cluster, to a client.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cluster::watch;

/// A client for the cluster of the kubeconfig's current context; without a file, for the cluster this pod runs in.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    made_from(config(kubeconfig).await?)
}

/// The same, but a request is sent once: 429, 503 and 504 are errors to whoever asked.
pub async fn client_without_retries(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    made_from(config)
}

fn made_from(config: Config) -> anyhow::Result<Client> {
    watch::client(config).context("cannot make a client for the cluster")
}

async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    match kubeconfig {
        Some(path) => {
            let unusable = || format!("{}: not usable as a kubeconfig; pass another to --kubeconfig", path.display());
            let read = Kubeconfig::read_from(path).with_context(unusable)?;
            let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
            config.with_context(unusable)
        }
        None => Config::incluster().map_err(|error| {
            anyhow!("this is no pod with a service account ({error}); pass --kubeconfig FILE, as in ~/.kube/config")
        }),
    }
}
