//! The flags of `mullion controller`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustls::pki_types::ServerName;

use crate::controller::certificates::{parse_lifetime, parse_name};
use crate::controller::repair_mode::RepairMode;
use crate::server::positive_seconds;
use crate::telemetry::LogArgs;

/// Maintain labels, taints and RuntimeClasses of Windows nodes
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  mullion controller --namespace mullion-system --webhook-service mullion\n  mullion controller --namespace mullion-system --kubeconfig kubeconfig"
)]
pub struct ControllerArgs {
    /// Directory with policy files; may be given more than once. Default: the built-in policies
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// Kubeconfig of the cluster; without it, the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Mullion's namespace, which contains the lease of the leading controller, ConfigMap mullion-state and the Secrets;
    /// without it, the namespace of this pod, or of the kubeconfig's context
    #[arg(long, value_name = "NS", alias = "lease-namespace")]
    pub namespace: Option<String>,
    /// Service of the webhook in that namespace: the controller maintains its certificates in the Secrets mullion-ca and
    /// mullion-tls, and the CA in the webhook configurations named mullion. Without it, it changes no certificates
    #[arg(long, value_name = "NAME")]
    pub webhook_service: Option<String>,
    /// Additional DNS name or IP address of the webhook, if it is registered by URL; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = parse_name, requires = "webhook_service")]
    pub certificate_name: Vec<ServerName<'static>>,
    /// How long a certificate of the webhook lasts, in seconds, instead of 90 days
    #[arg(long, value_name = "SECONDS", value_parser = parse_lifetime, hide = true)]
    pub certificate_lifetime: Option<Duration>,
    /// How long the CA lasts, in seconds, instead of two years
    #[arg(long, value_name = "SECONDS", value_parser = parse_lifetime, hide = true)]
    pub ca_lifetime: Option<Duration>,
    /// Address of the admin port: /healthz, /readyz, /metrics, /policies, /log-level
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub admin_bind: SocketAddr,
    /// How long the lease outlasts its holder, in whole seconds; it is renewed, and read, 7.5 times as often
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = clap::value_parser!(u16).range(1..), hide = true)]
    pub lease_duration: u16,
    /// Namespace of the pod that is sent to the API server once a minute, as a dry run, to see whether it calls the
    /// webhook: a namespace whose pods the webhook configurations cover
    #[arg(long, value_name = "NS", default_value = "default", value_parser = namespace_name)]
    pub probe_namespace: String,
    /// How often that pod is sent, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = positive_seconds, hide = true)]
    pub probe_interval: Duration,
    /// What is done about pods that can never start where they are, which mullion repair lists: the controller evicts none
    #[arg(long, value_enum, value_name = "MODE", default_value_t = RepairMode::Report)]
    pub repair: RepairMode,
    /// How often the policy files are read again, in seconds. Kubelets update a mounted ConfigMap within about a minute
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive_seconds, hide = true)]
    pub reload_interval: Duration,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Only letters, digits and `-`, because the name becomes a part of a path.
fn namespace_name(text: &str) -> Result<String, String> {
    let is_name = (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if is_name { Ok(text.to_owned()) } else { Err("expected the name of a namespace, such as default".to_owned()) }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn namespaces_are_valid_names() {
        assert_eq!(namespace_name("shop-1"), Ok("shop-1".to_owned()));
        for bad in ["", "Shop", "a/b", "..", "a?dryRun=", &"a".repeat(64)] {
            assert!(namespace_name(bad).is_err(), "{bad}");
        }
    }
}
