//! The report of the leading controller in ConfigMap `mullion-state` for `mullion status`: facts that are visible
//! elsewhere only through Secrets or a metrics port. It contains only counts and names, and no content of an object.
//!
//! A reader ignores members that it does not know. `None` means that the controller does not know the value yet.

use std::collections::BTreeMap;

use mullion_engine::model::text::shorten;
use serde::{Deserialize, Serialize};

use crate::telemetry::UnreadableObject;

/// The maximum number of namespaces with a count of their own.
pub(crate) const MAX_NAMESPACES: usize = 200;
/// The maximum number of exemptions.
pub(crate) const MAX_EXEMPTIONS: usize = 32;
/// The longest text that authors of policies or objects choose, in characters.
const MAX_TEXT: usize = 120;
/// The longest error, in characters.
const MAX_ERROR: usize = 500;

/// How often the report is written while nothing changes, in seconds.
pub(crate) const HEARTBEAT: i64 = 300;
/// The maximum age of the report, in seconds: two writes may have failed.
pub(crate) const MAX_REPORT_AGE: i64 = 2 * HEARTBEAT + 60;

/// The report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ControllerReport {
    /// When it was written, as RFC 3339; at least every [`HEARTBEAT`] seconds while a controller leads.
    pub(crate) written: String,
    /// The version of the controller that wrote it.
    pub(crate) version: String,
    /// The policies in force.
    pub(crate) policies: Option<PolicySummary>,
    /// The webhook's certificates.
    pub(crate) certificates: Option<CertificateReport>,
    /// The last probe of the webhook.
    pub(crate) probe: Option<ProbeReport>,
    /// Windows nodes.
    pub(crate) nodes: Option<NodesReport>,
    /// Pods that were created without Mullion and cannot be repaired.
    pub(crate) missed_pods: Option<NamespaceCounts>,
    /// Objects that the controller cannot read.
    pub(crate) unreadable: Option<UnreadableReport>,
}

/// The policies in force, and their files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PolicySummary {
    /// The hash of the files; empty for the built-in policies.
    pub(crate) hash: String,
    /// The number of files.
    pub(crate) files: usize,
    /// The number of policies in them.
    pub(crate) policies: usize,
    /// The number of problems in the current files; 0 while they are in force.
    pub(crate) problems: usize,
    /// The first of these problems.
    pub(crate) last_error: Option<String>,
    /// Policies with an end: those that end next, then those that ended last.
    pub(crate) exemptions: Vec<ExemptionReport>,
    /// How many exemptions are left out.
    pub(crate) more_exemptions: usize,
}

/// A policy with an end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExemptionReport {
    /// The name of the policy.
    pub(crate) policy: String,
    /// What the policy matches.
    pub(crate) scope: String,
    /// Its end as written in the file.
    pub(crate) until: String,
    /// Its end as RFC 3339.
    pub(crate) end: String,
}

/// Certificates that the controller manages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CertificateReport {
    /// Whether the controller manages them; if not, another tool does.
    pub(crate) managed: bool,
    /// The CA.
    pub(crate) ca: Option<CertificateDates>,
    /// The serving certificate.
    pub(crate) serving: Option<CertificateDates>,
    /// Why the last round failed.
    pub(crate) last_error: Option<String>,
}

/// The validity of a certificate, as RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CertificateDates {
    pub(crate) not_before: String,
    pub(crate) not_after: String,
}

/// A probe of the webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProbeReport {
    /// The time, as RFC 3339.
    pub(crate) time: String,
    /// `reached`, `missed`, `not_registered` or `unknown`.
    pub(crate) outcome: String,
}

/// What the controller does to Windows nodes, and how many are not in the intended state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodesReport {
    /// `mode` of the NodePolicy.
    pub(crate) mode: String,
    /// The taint of the NodePolicy: `os=windows:NoSchedule`.
    pub(crate) taint: String,
    /// `taint.apply` of the NodePolicy.
    pub(crate) apply: String,
    /// Whether nodes get the label with their release.
    pub(crate) release_label: bool,
    /// Windows nodes.
    pub(crate) windows: usize,
    /// Windows nodes with a taint that waits.
    pub(crate) waiting: usize,
    /// Windows nodes on which someone undoes the changes.
    pub(crate) contested: usize,
    /// The workloads for which taints have waited for longest.
    pub(crate) waits_for: Vec<TaintWaiter>,
}

/// Objects that cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UnreadableReport {
    /// The number of objects.
    pub(crate) total: usize,
    /// The first of them.
    pub(crate) objects: Vec<UnreadableObject>,
}

/// A workload for which taints wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TaintWaiter {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The number of nodes.
    pub(crate) nodes: usize,
}

/// Numbers by namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NamespaceCounts {
    /// The number in all namespaces.
    pub(crate) total: usize,
    /// The namespaces with the highest numbers, at most [`MAX_NAMESPACES`].
    pub(crate) namespaces: BTreeMap<String, usize>,
    /// How many namespaces are left out.
    pub(crate) more: usize,
}

impl NamespaceCounts {
    /// The counts of namespaces; zeros count as absent.
    pub(crate) fn of(counts: impl IntoIterator<Item = (String, usize)>) -> Self {
        let mut all: Vec<(String, usize)> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        let total = all.iter().map(|(_, count)| count).sum();
        all.sort_by(|(name, count), (other, other_count)| other_count.cmp(count).then_with(|| name.cmp(other)));
        let more = all.len().saturating_sub(MAX_NAMESPACES);
        all.truncate(MAX_NAMESPACES);
        Self { total, namespaces: all.into_iter().collect(), more }
    }
}

/// A name that an author chose, shortened.
pub(crate) fn short_name(text: &str) -> String {
    shorten(text, MAX_TEXT)
}

/// An error, shortened.
pub(crate) fn short_error(text: &str) -> String {
    shorten(text, MAX_ERROR)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn the_namespaces_with_most_are_kept() {
        let many = (0..300).map(|n| (format!("n{n:03}"), n));
        let counts = NamespaceCounts::of(many);
        assert_eq!((counts.total, counts.namespaces.len(), counts.more), (299 * 300 / 2, MAX_NAMESPACES, 99));
        assert_eq!(counts.namespaces.get("n299"), Some(&299));
        assert_eq!(counts.namespaces.get("n099"), None);
        assert_eq!(NamespaceCounts::of([("a".to_owned(), 0)]), NamespaceCounts::default());
    }

    #[test]
    fn a_report_of_another_version_is_read() {
        let text = r#"{"written": "2026-01-01T00:00:00Z", "fromTheFuture": [1], "nodes": {"windows": 3, "more": {}}}"#;
        let report: ControllerReport = serde_json::from_str(text).unwrap();
        assert_eq!((report.nodes.unwrap().windows, report.certificates), (3, None));
    }
}
