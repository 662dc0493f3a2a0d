//! The results of the checks, and what they are about: versions, policies and the fleet.

use serde::Serialize;

/// The name and version of the JSON format. Later versions of Mullion may add members.
const SCHEMA: &str = "mullion.dev/verify/v1";

/// Everything that a run found out. It contains no Secret and no object of others, so that it can be attached to a bug report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerifyReport {
    schema: &'static str,
    /// The context of the kubeconfig.
    pub(crate) context: String,
    /// When the run began, as RFC 3339.
    pub(crate) time: String,
    pub(crate) versions: VerifiedVersions,
    /// The policies in force, or why they are not known.
    pub(crate) policies: String,
    pub(crate) fleet: Vec<FleetGroup>,
    /// Why the run could not be completed; `None` if it was.
    pub(crate) ended_early: Option<String>,
    pub(crate) checks: Vec<VerifyResult>,
}

impl VerifyReport {
    /// A report without results.
    pub(crate) fn new(context: String, time: String) -> Self {
        Self {
            schema: SCHEMA,
            context,
            time,
            versions: VerifiedVersions::default(),
            policies: String::new(),
            fleet: Vec::new(),
            ended_early: None,
            checks: Vec::new(),
        }
    }

    /// The number of checks with that status.
    pub(crate) fn count(&self, status: VerifyStatus) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }
}

/// The versions of the programs; `None`: not known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerifiedVersions {
    pub(crate) command: &'static str,
    pub(crate) controller: Option<String>,
    pub(crate) kubernetes: Option<String>,
}

impl Default for VerifiedVersions {
    fn default() -> Self {
        Self { command: env!("CARGO_PKG_VERSION"), controller: None, kubernetes: None }
    }
}

/// Nodes with the same operating system and build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FleetGroup {
    /// `linux`, `windows`, or empty if the nodes do not report it.
    pub(crate) os: String,
    /// `10.0.20348`; `None` for Linux, and if it is not known.
    pub(crate) build: Option<String>,
    /// `ltsc2022`.
    pub(crate) release: Option<String>,
    pub(crate) nodes: usize,
    pub(crate) ready: usize,
    /// The versions of their kubelets and container runtimes.
    pub(crate) kubelets: Vec<String>,
    pub(crate) runtimes: Vec<String>,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerifyResult {
    /// The name, which stays the same in all versions: `windows-pod`.
    pub(crate) name: &'static str,
    /// What this result is about, if a check has several: a Windows release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    pub(crate) status: VerifyStatus,
    /// What the check proves, as a clause.
    pub(crate) proves: &'static str,
    /// What was seen, or why the check did not run, as a clause.
    pub(crate) seen: String,
    /// The objects that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) items: Vec<String>,
    /// What a failure means; `None` unless the check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) means: Option<&'static str>,
    /// The page about the check, in the documentation.
    pub(crate) page: String,
}

/// The status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum VerifyStatus {
    /// What the check proves is so.
    Ok,
    /// It is not so.
    Failed,
    /// The check does not apply, or something of the cluster or of the user's rights is in the way.
    Skipped,
    /// The check needs something that the run may not do, or a node with room.
    NotTried,
}

impl VerifyStatus {
    /// Every status.
    pub(crate) const ALL: [Self; 4] = [Self::Ok, Self::Failed, Self::Skipped, Self::NotTried];

    /// The word in text, which stays the same in all versions.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::NotTried => "not tried",
        }
    }
}

impl VerifyResult {
    /// `windows-pod ltsc2022`.
    pub(crate) fn title(&self) -> String {
        self.subject.as_ref().map_or_else(|| self.name.to_owned(), |subject| format!("{} {subject}", self.name))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A result of `windows-pod` for one release.
    pub(crate) fn result(status: VerifyStatus, seen: &str) -> VerifyResult {
        VerifyResult {
            name: "windows-pod",
            subject: Some("ltsc2022".to_owned()),
            status,
            proves: "a pod runs on a fitting node",
            seen: seen.to_owned(),
            items: Vec::new(),
            means: (status == VerifyStatus::Failed).then_some("the pod hangs"),
            page: "docs/how-to/verify.md#windows-pod".to_owned(),
        }
    }
}
