//! The flags of `mullion webhook`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::server::tls::TlsSecretName;
use crate::server::{positive_seconds, seconds};
use crate::telemetry::LogArgs;
use crate::webhook::controller_users::username;

/// Serve admission reviews over HTTPS
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  mullion webhook --tls-dir tls/\n  mullion webhook --tls-secret mullion-system/mullion-tls --kubeconfig kubeconfig"
)]
pub struct WebhookArgs {
    /// Address of the HTTPS port: POST /mutate, POST /validate
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9443")]
    pub bind: SocketAddr,
    /// Address of the admin port: /healthz, /readyz, /metrics, /policies, /log-level
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub admin_bind: SocketAddr,
    /// Directory with policy files; may be given more than once. Default: the built-in policies
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// Directory with the certificate: tls.crt and tls.key, read again when they change
    #[arg(long, value_name = "DIR", required_unless_present = "tls_secret", conflicts_with = "tls_secret")]
    pub tls_dir: Option<PathBuf>,
    /// Secret of the cluster with the certificate: tls.crt and tls.key, watched for changes. `mullion controller
    /// --webhook-service` maintains one, named mullion-tls
    #[arg(long, value_name = "NS/NAME")]
    pub tls_secret: Option<TlsSecretName>,
    /// PEM file with authorities of client certificates, read again when it changes. Clients with a certificate of another
    /// authority are rejected. For clients without a certificate, the webhook uses no pull secrets
    #[arg(long, value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
    /// Kubeconfig of the cluster to watch; without it, the service account of the pod
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of Mullion, which contains ConfigMap mullion-state. Default: the namespace of --tls-secret, of this pod, or
    /// of the kubeconfig's context
    #[arg(long, value_name = "NS", conflicts_with = "snapshot")]
    pub namespace: Option<String>,
    /// Users of the built-in controllers of Kubernetes, separated by commas; may be given more than once. Once
    /// this process has seen one of them create a pod, owner references are trusted only in pods that these users create;
    /// all other pods are reviewed as pods without an owner. Without it, owner references are trusted in all pods
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = username)]
    pub controller_users: Vec<String>,
    /// Nodes, RuntimeClasses and namespaces from a file instead of from a cluster
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// How long to continue accepting connections after SIGTERM, in seconds: kube-proxies need time to see that this
    /// replica stops, and a pod whose request meets a closed port is admitted without a review
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub drain_delay: Duration,
    /// How often policies and certificate are read again, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive_seconds, hide = true)]
    pub reload_interval: Duration,
    /// Reject PUT /log-level: for a webhook in the network of a node, where every process of the node reaches the admin port
    #[arg(long)]
    pub fixed_log_level: bool,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
}
