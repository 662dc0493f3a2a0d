//! `mullion controller`: keeps Windows nodes labelled and tainted, a RuntimeClass for each Windows release, the webhook's
//! certificates, and what must not be forgotten in ConfigMap `mullion-state`.
//!
//! ```text
//! watches (nodes, DaemonSets, RuntimeClasses, namespaces) ─┐
//! policies, every 10 s ────────────────────────────────────┼→ work loop (nodes) → plan_node → one merge patch per node
//!                                                          ├→ runtime_classes::plan → create or merge patch
//! snapshot, policies, ConfigMap mullion-state ────────────────┴→ memory → ConfigMap mullion-state
//! ```
//!
//! Of several controllers one works, the holder of the [`lease`]; the others follow the lease and the policy files and
//! do nothing else.
//!
//! Everything is recomputed from what the cluster holds: a restart or a second controller changes nothing that is
//! right. Writes carry the `resourceVersion` they were computed from, so a race ends in a 409 and a new plan.
//!
//! While `mullion withdraw` keeps Mullion out of the cluster ([`withdraw`]), it changes none of this and says so.
//!
//! Rights it needs, which are those that the chart gives:
//!
//! | on | named | in | verbs | when |
//! |---|---|---|---|---|
//! | nodes |  | the cluster | `list`, `watch`, `patch` |  |
//! | namespaces, daemonsets |  | the cluster | `list`, `watch` |  |
//! | pods |  | the cluster | `get`, `list`, `watch`, `patch` |  |
//! | replicasets, jobs |  | the cluster | `get` |  |
//! | runtimeclasses |  | the cluster | `list`, `watch`, `create`, `patch` |  |
//! | events |  | the cluster | `create`, `patch` | ; of `events.k8s.io` |
//! | mutatingwebhookconfigurations, validatingwebhookconfigurations | `mullion` | the cluster | `get` |  |
//! | mutatingwebhookconfigurations, validatingwebhookconfigurations | `mullion` | the cluster | `list`, `watch`, `patch` | `--webhook-service` |
//! | pods |  | the probe namespace | `create` | ; a dry run needs it, and stores nothing |
//! | leases |  | its own namespace | `create` |  |
//! | leases | `mullion-controller` | its own namespace | `get`, `update` |  |
//! | configmaps |  | its own namespace | `create` |  |
//! | configmaps | `mullion-state` | its own namespace | `get`, `list`, `watch`, `patch` |  |
//! | secrets |  | its own namespace | `create` | `--webhook-service` |
//! | secrets | `mullion-ca`, `mullion-tls` | its own namespace | `get`, `list`, `watch`, `patch`, `delete` | `--webhook-service` |
//!
//! And one that every authenticated user has: `create` on selfsubjectreviews of `authentication.k8s.io`, to find out
//! whose the objects are that it makes ([`crate::ownership`]). Where the admission plugin `OwnerReferencesPermissionEnforcement`
//! is on, objects that exist without their owner get it only with `delete` on them as well: not needed to work.

pub mod admin;
pub mod bound;
pub mod certificates;
pub mod events;
pub mod leader;
pub mod leading;
pub mod lease;
pub mod memory;
pub mod metrics;
pub mod nodes;
pub mod pods;
pub mod policies;
pub mod reachability;
pub mod runtime_classes;
pub mod start;
pub mod withdraw;
pub mod withdrawn;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PatchParams, PostParams, Preconditions};
use rustls::pki_types::ServerName;

use crate::telemetry::logs::LogArgs;
use crate::webhook::args::positive_seconds;

/// Who writes, in managedFields and events.
pub(crate) const MANAGER: &str = "mullion-controller";
/// The name of both webhook configurations.
const CONFIGURATION: &str = "mullion";
/// The webhook in both that is asked about pods.
const PODS_WEBHOOK: &str = "pods.mullion.dev";

/// For patches by Mullion.
pub(crate) fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// For objects that Mullion makes or replaces.
pub(crate) fn post_params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// For an object that is deleted as it was read, and no later version of it, nor another of its name.
pub(crate) fn delete_params(metadata: &ObjectMeta) -> DeleteParams {
    let (uid, resource_version) = (metadata.uid.clone(), metadata.resource_version.clone());
    DeleteParams { preconditions: Some(Preconditions { uid, resource_version }), ..DeleteParams::default() }
}

/// Keep Windows nodes labelled and tainted
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
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
