//! The flags of `mullion webhook`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::telemetry::logs::LogArgs;
use crate::webhook::tls::secret::SecretName;

/// Serve admission reviews over HTTPS
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Address of the HTTPS port: POST /mutate, POST /validate
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9443")]
    pub bind: SocketAddr,
    /// Address of the admin port: /healthz, /readyz, /metrics, /policies, /log-level
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub admin_bind: SocketAddr,
    /// Directory with policy files; may be given several times. Without it, the built-in defaults hold
    #[arg(long, value_name = "DIR")]
    pub policies: Vec<PathBuf>,
    /// Directory with the certificate: tls.crt and tls.key, read again when they change
    #[arg(long, value_name = "DIR", required_unless_present = "tls_secret", conflicts_with = "tls_secret")]
    pub tls_dir: Option<PathBuf>,
    /// Secret of the cluster with the certificate: tls.crt and tls.key, followed as they change. `mullion controller
    /// --webhook-service` keeps one, named mullion-tls
    #[arg(long, value_name = "NS/NAME")]
    pub tls_secret: Option<SecretName>,
    /// Kubeconfig of the cluster to watch; without it, the service account of the pod
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of ConfigMap mullion-state, Mullion's own; without it, that of --tls-secret, of this pod, or of the
    /// kubeconfig's context
    #[arg(long, value_name = "NS", conflicts_with = "snapshot")]
    pub namespace: Option<String>,
    /// Nodes, RuntimeClasses and namespaces from a file instead of from a cluster
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// How long to go on accepting connections after SIGTERM, in seconds: kube-proxies need time to see that this
    /// replica goes, and a pod that meets a closed port passes unseen
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub drain_delay: Duration,
    /// How often policies and certificate are read again, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive_seconds, hide = true)]
    pub reload_interval: Duration,
    /// The log.
    #[command(flatten)]
    pub log: LogArgs,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().map_err(|error| format!("{error}; expected a number of seconds, as in 5 or 0.5"))?;
    Duration::try_from_secs_f64(number).map_err(|error| format!("{error}; expected a number of seconds, as in 5"))
}

pub(crate) fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(
        |found| {
            if found.is_zero() { Err("expected more than zero seconds".to_owned()) } else { Ok(found) }
        },
    )
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn seconds_are_numbers_that_make_a_duration() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        for bad in ["", "5s", "-1", "nan", "inf", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert!(positive_seconds("0").is_err(), "tokio's interval panics on it");
    }
}
