//! Clients of the cluster, from kubeconfigs or the service account of a pod.

use std::path::Path;

use anyhow::{anyhow, bail};
use kube::client::{AuthError, RustlsTlsError};
use kube::{Client, Config};

use crate::cluster::client::{SILENCE, client_with};
use crate::cluster::kubeconfig::{Environment, Kubeconfigs, SelectedContext};

/// The name that stands for the context of the cluster in which this process runs.
const IN_CLUSTER: &str = "in-cluster";

/// The maximum number of characters of an exec plugin's message in an error.
const MAX_MESSAGE: usize = 300;

/// The cluster that a command reads, and the user with which it reads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectOptions<'a> {
    pub(crate) kubeconfig: Option<&'a Path>,
    pub(crate) context: Option<&'a str>,
    pub(crate) impersonated_user: Option<&'a str>,
    pub(crate) impersonated_groups: &'a [String],
}

/// A client of a command, and the cluster that it is for.
#[derive(Clone)]
pub(crate) struct ClusterConnection {
    pub(crate) client: Client,
    /// The name of the context, or `in-cluster`.
    pub(crate) context: String,
    /// The namespace of the context.
    pub(crate) default_namespace: String,
}

/// Connects as kubectl does: `--kubeconfig`, else `KUBECONFIG`, else `~/.kube/config`, else the service account of the pod.
pub(crate) fn connect(options: ConnectOptions<'_>, environment: &Environment) -> anyhow::Result<ClusterConnection> {
    let files = Kubeconfigs::find(options.kubeconfig, environment)?;
    let selected = if files.is_empty() { None } else { Some(files.select(options.context)?) };
    let mut config = match (&selected, options.context) {
        (Some(selected), _) => selected.config(environment)?,
        (None, Some(context)) => {
            bail!("there is no kubeconfig with a context {context:?}{}; pass --kubeconfig FILE", looked_for(&files))
        }
        (None, None) => Config::incluster().map_err(|_| {
            let looked_for = looked_for(&files);
            anyhow!("there is no kubeconfig{looked_for}, and this process runs in no pod; pass --kubeconfig FILE")
        })?,
    };
    if let Some(user) = options.impersonated_user {
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(options.impersonated_groups.to_vec());
    }
    let default_namespace = config.default_namespace.clone();
    let context = selected.as_ref().map_or(IN_CLUSTER, |selected| selected.name).to_owned();
    Ok(ClusterConnection { client: client_of(config, selected.as_ref())?, context, default_namespace })
}

fn looked_for(files: &Kubeconfigs) -> String {
    match files.names() {
        none if none.is_empty() => String::new(),
        names => format!(" (KUBECONFIG: {names})"),
    }
}

/// A client for the cluster of the kubeconfig's current context; without a file, for the cluster in which this pod
/// runs.
pub(crate) fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    client_for(kubeconfig, true)
}

/// The same client without retries: 429, 503 and 504 are errors for the caller.
pub(crate) fn client_without_retries(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    client_for(kubeconfig, false)
}

fn client_for(kubeconfig: Option<&Path>, retries: bool) -> anyhow::Result<Client> {
    let Some(path) = kubeconfig else {
        let mut config = Config::incluster().map_err(|error| {
            anyhow!("this process runs in no pod with a service account ({error}); pass --kubeconfig FILE, as in ~/.kube/config")
        })?;
        config.default_retry = retries;
        return client_of(config, None);
    };
    let environment = Environment::of_process();
    let files = Kubeconfigs::find(Some(path), &environment)?;
    let selected = files.select(None)?;
    let mut config = selected.config(&environment)?;
    config.default_retry = retries;
    client_of(config, Some(&selected))
}

fn client_of(config: Config, selected: Option<&SelectedContext<'_>>) -> anyhow::Result<Client> {
    client_with(config, SILENCE).map_err(|error| client_error(error, selected))
}

/// The error for a client that cannot be created, which is nearly always caused by the user entry.
fn client_error(error: kube::Error, selected: Option<&SelectedContext<'_>>) -> anyhow::Error {
    let Some(selected) = selected else {
        return anyhow!(error).context("cannot make a client for the cluster");
    };
    let user = selected.user_name();
    let (plugin, hint) = selected.exec_plugin().unwrap_or_default();
    let hint = hint.map(|hint| format!("; {}", hint.trim())).unwrap_or_default();
    match error {
        kube::Error::RustlsTls(RustlsTlsError::InvalidPrivateKey(rustls::Error::InconsistentKeys(_))) => anyhow!(
            "{user}: its client key does not belong to its client certificate; take both from the same place, or log in \
             again"
        ),
        kube::Error::Auth(AuthError::AuthExecStart(error)) => anyhow!(
            "{user}: its exec plugin cannot be started: {error}; install it, or put it into PATH: {plugin}{hint}"
        ),
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => {
            // An interactive plugin writes to the terminal itself. What it writes to stdout may be a token.
            let message = String::from_utf8_lossy(&out.stderr);
            let message: String = message.trim().chars().take(MAX_MESSAGE).collect();
            let message = if message.is_empty() { message } else { format!(": {message}") };
            anyhow!("{user}: its exec plugin failed ({}){message}; try it by itself: {plugin}{hint}", out.status)
        }
        error => anyhow!(error).context(format!("{user}: no client can be made with it")),
    }
}

#[cfg(test)]
mod tests;
