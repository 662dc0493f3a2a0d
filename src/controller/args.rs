//! The flags of `mullion controller`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustls::pki_types::ServerName;

use crate::controller::certificates;
use crate::server::arguments::positive_seconds;
use crate::telemetry::logs::LogArgs;

/// Keep Windows nodes labelled and tainted
#[derive(Debug, Clone, clap::Args)]
pub struct ControllerArgs {
    /// Directory with policy files; may be given several times. Without it, the built-in defaults hold
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// Kubeconfig of the cluster; without it, the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Mullion's own namespace: of the lease by which one of several controllers leads, of ConfigMap mullion-state and of
    /// the Secrets; without it, that of this pod, or of the kubeconfig's context
    #[arg(long, value_name = "NS")]
    pub lease_namespace: Option<String>,
    /// Service of the webhook in that namespace: keeps certificates for it in the Secrets mullion-ca and mullion-tls, and
    /// the CA in the webhook configurations named mullion. Without it, no certificates are touched
    #[arg(long, value_name = "NAME")]
    pub webhook_service: Option<String>,
    /// Further DNS name or IP address of the webhook, where it is registered by URL; may be given several times
    #[arg(long, value_name = "NAME", value_parser = certificates::parse_name, requires = "webhook_service")]
    pub certificate_name: Vec<ServerName<'static>>,
    /// How long a certificate of the webhook lasts, in seconds, instead of 90 days
    #[arg(long, value_name = "SECONDS", value_parser = certificates::parse_lifetime, hide = true)]
    pub certificate_lifetime: Option<Duration>,
    /// How long the CA lasts, in seconds, instead of two years
    #[arg(long, value_name = "SECONDS", value_parser = certificates::parse_lifetime, hide = true)]
    pub ca_lifetime: Option<Duration>,
    /// Address of the admin port: /healthz, /readyz, /metrics, /policies, /log-level
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub admin_bind: SocketAddr,
    /// How long the lease outlasts its holder, in whole seconds; it is renewed, and looked at, 7.5 times as often
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = clap::value_parser!(u16).range(1..), hide = true)]
    pub lease_duration: u16,
    /// Namespace of the pod that is sent to the API server once a minute, as a dry run, to see whether it asks the
    /// webhook: one whose pods the webhook configurations cover
    #[arg(long, value_name = "NS", default_value = "default", value_parser = namespace_name)]
    pub probe_namespace: String,
    /// How often that is done, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = positive_seconds, hide = true)]
    pub probe_interval: Duration,
    /// How often the policy files are read again, in seconds. Kubelets bring a changed ConfigMap within about a minute
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive_seconds, hide = true)]
    pub reload_interval: Duration,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
}

/// The name becomes a part of a path.
fn namespace_name(text: &str) -> Result<String, String> {
    let fit = (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if fit { Ok(text.to_owned()) } else { Err("expected the name of a namespace, as in default".to_owned()) }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn namespaces_are_names() {
        assert_eq!(namespace_name("shop-1"), Ok("shop-1".to_owned()));
        for bad in ["", "Shop", "a/b", "..", "a?dryRun=", &"a".repeat(64)] {
            assert!(namespace_name(bad).is_err(), "{bad}");
        }
    }
}
