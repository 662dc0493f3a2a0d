//! Agents on nodes: for which purpose an image runs there. A row states nothing about the systems that a product supports.

use mullion_engine::model::image::ImageRef;

/// What an agent does for the pods of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AgentPurpose {
    Security,
    Logs,
    Metrics,
    Backup,
    /// It enforces NetworkPolicies on Windows nodes. Other engines are not in the table.
    NetworkPolicies,
}

impl AgentPurpose {
    /// The purposes that every node of a cluster needs, or none.
    pub(crate) const OF_ALL_NODES: [Self; 4] = [Self::Security, Self::Logs, Self::Metrics, Self::Backup];

    /// `logs`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
            Self::Backup => "backup",
            Self::NetworkPolicies => "NetworkPolicies",
        }
    }
}

/// A row of the table.
struct NodeAgent {
    /// The end of the repository, because registries have copies: `fluent/fluent-bit`.
    repository: &'static str,
    purpose: AgentPurpose,
    /// Where the image is named.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and for the test that no row lacks one"))]
    source: &'static str,
    /// The day on which the source was read.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and for the test that no row lacks one"))]
    as_of: &'static str,
}

const fn row(repository: &'static str, purpose: AgentPurpose, source: &'static str, as_of: &'static str) -> NodeAgent {
    NodeAgent { repository, purpose, source, as_of }
}

use AgentPurpose as P;

#[rustfmt::skip]
const NODE_AGENTS: [NodeAgent; 16] = [
    row("falcosecurity/falco", P::Security, "https://github.com/falcosecurity/charts/blob/master/charts/falco/values.yaml", "2026-11-28"),
    row("falcon-sensor", P::Security, "https://github.com/CrowdStrike/falcon-helm", "2026-11-28"),
    row("fluent/fluent-bit", P::Logs, "https://github.com/fluent/helm-charts/blob/main/charts/fluent-bit/values.yaml", "2026-11-28"),
    row("fluent/fluentd-kubernetes-daemonset", P::Logs, "https://github.com/fluent/fluentd-kubernetes-daemonset", "2026-11-28"),
    row("beats/filebeat", P::Logs, "https://github.com/elastic/beats/tree/main/deploy/kubernetes", "2026-11-28"),
    row("azuremonitor/containerinsights/ciprod", P::Logs, "https://github.com/microsoft/Docker-Provider/blob/ci_prod/kubernetes/ama-logs.yaml", "2026-11-28"),
    row("prometheus/node-exporter", P::Metrics, "https://github.com/prometheus-community/helm-charts/blob/main/charts/prometheus-node-exporter/values.yaml", "2026-11-28"),
    row("prometheus-community/windows-exporter", P::Metrics, "https://github.com/prometheus-community/helm-charts/blob/main/charts/prometheus-windows-exporter/values.yaml", "2026-11-28"),
    row("datadoghq/agent", P::Metrics, "https://github.com/DataDog/helm-charts/blob/main/charts/datadog/values.yaml", "2026-11-28"),
    row("datadog/agent", P::Metrics, "https://github.com/DataDog/helm-charts/blob/main/charts/datadog/values.yaml", "2026-11-28"),
    row("cloudwatch-agent/cloudwatch-agent", P::Metrics, "https://github.com/aws/amazon-cloudwatch-agent-operator", "2026-11-28"),
    row("velero/velero", P::Backup, "https://github.com/vmware-tanzu/helm-charts/blob/main/charts/velero/values.yaml", "2026-11-28"),
    // The images of DaemonSets on Windows nodes. AKS ended Azure NPM there on 2026-09-30; one that still runs enforces policies.
    row("calico/node-windows", P::NetworkPolicies, "https://docs.tigera.io/calico/latest/getting-started/kubernetes/windows-calico/", "2026-11-28"),
    row("calico/windows", P::NetworkPolicies, "https://docs.tigera.io/calico/latest/getting-started/kubernetes/windows-calico/", "2026-11-28"),
    row("antrea/antrea-windows", P::NetworkPolicies, "https://github.com/antrea-io/antrea/blob/main/docs/windows.md", "2026-11-28"),
    row("azure-npm", P::NetworkPolicies, "https://github.com/Azure/azure-container-networking/blob/master/npm/examples/windows/azure-npm.yaml", "2026-11-28"),
];

/// The purpose of an image on a node; `None` for an image that is not in the table.
pub(crate) fn purpose_of(image: &str) -> Option<AgentPurpose> {
    let reference = ImageRef::parse(image).ok()?;
    NODE_AGENTS.iter().find(|row| reference.ends_with(row.repository)).map(|row| row.purpose)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::row::parse_day;

    #[test]
    fn every_row_has_a_source_and_a_day() {
        for row in NODE_AGENTS {
            assert!(row.source.starts_with("https://") && parse_day(row.as_of).is_some(), "{}", row.repository);
            let image = format!("registry.example/mirror/{}:1", row.repository);
            assert_eq!(purpose_of(&image), Some(row.purpose), "{image}");
        }
    }

    #[test]
    fn purposes_of_images() {
        for (image, purpose) in [
            (
                "cr.fluentbit.io/fluent/fluent-bit:4.1.1@sha256:2a5cb41f99b7c5f3386bb34d42ce3b19eb47fbef6d93b64c0bd4afe9e6ec389c",
                Some(P::Logs),
            ),
            ("registry.crowdstrike.com/falcon-sensor/us-1/release/falcon-sensor:7.20.0", Some(P::Security)),
            ("gcr.io/datadoghq/agent:7", Some(P::Metrics)),
            ("fluent/fluent-bit", Some(P::Logs)),
            ("r.example/notfluent/fluent-bit-tools:1", None),
            ("r.example/afluent/fluent-bit:1", None),
            ("r.example/agent:7", None),
            ("\u{1b}[2J", None),
            ("", None),
        ] {
            assert_eq!(purpose_of(image), purpose, "{image}");
        }
    }
}
