//! Commands of providers for the steps of a move. Mullion's tests do not run them.

use jiff::civil::Date;
use serde::Deserialize;

use crate::facts::row::{FactsRow, check_provider, check_sentence, check_source};

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandRow {
    /// `AKS`, `EKS`, `GKE`, `OpenShift`, `RKE2`; absent: a cluster without a known provider.
    #[serde(default)]
    pub provider: Option<String>,
    /// What the command does.
    pub step: ProviderStep,
    /// The Windows builds of the target to which it applies; empty: all builds.
    #[serde(default)]
    pub builds: Vec<String>,
    /// The command, with the placeholders of [`PLACEHOLDERS`]. A line with a placeholder of labels or zones is left out if the
    /// pool has none, and one with `{ifSpot}` if the old pool has no spot machines, so they are never the last line of a
    /// command. The reader must replace words in capitals.
    pub command: String,
    /// Whether the command changes the existing nodes of the pool too, so that `kubectl taint` is not needed.
    #[serde(default)]
    pub existing_nodes: bool,
    /// Whether the command is for another machine than the one with kubectl, or a person changes something between its
    /// lines: a script does not run it.
    #[serde(default)]
    pub by_hand: bool,
    /// What to know before running it: one sentence with a period.
    #[serde(default)]
    pub note: Option<String>,
    /// Where it is documented.
    pub source: String,
    /// The day of the source.
    pub as_of: Date,
    /// The day on which the row was last compared with its source, if it is not that of the table.
    #[serde(default)]
    pub checked: Option<Date>,
}

/// The placeholders in the text of a command, and what they stand for. All but those that end in `Json` are quoted for
/// a shell.
pub const PLACEHOLDERS: [(&str, &str); 22] = [
    ("{pool}", "the name of the new pool"),
    ("{old}", "the name of the old pool"),
    ("{oldNodes}", "the old nodes, as a selector or as names"),
    ("{nodes}", "the number of nodes that the workloads need"),
    ("{kubernetes}", "the minor version of Kubernetes: 1.36"),
    ("{release}", "the name of the Windows release: ltsc2025"),
    ("{taint}", "the taint that keeps the pool closed: mullion.dev/move=ltsc2025:NoSchedule"),
    ("{taints}", "all taints of the closed pool, separated by commas"),
    ("{newTaints}", "the same without those that the provider sets on a pool of spot machines"),
    ("{otherTaints}", "all taints of the open pool, separated by commas"),
    ("{taintsJson}", "all taints of the closed pool, as a list of words in JSON"),
    ("{taintObjectsJson}", "all taints of the closed pool, as a list of maps in JSON"),
    ("{ifSpot}", "nothing: its line is for a pool of spot machines only"),
    (
        "{cluster}",
        "the name of the cluster, if a label of all nodes has it: alpha.eksctl.io/cluster-name; else CLUSTER",
    ),
    ("{region}", "the region, if a label of all nodes has it; else REGION"),
    ("{machineType}", "the type of the machines, if a label of all old nodes has the same; else MACHINE_TYPE"),
    ("{zoneNumbers}", "the numbers of the zones of the old nodes, as words, if their workloads have volumes: 1 2"),
    ("{zoneListJson}", "the zones of the old nodes, as a list of words in JSON, if their workloads have volumes"),
    ("{labels}", "labels that workloads select, separated by commas"),
    ("{labelWords}", "labels that workloads select, as words"),
    ("{labelListJson}", "labels that workloads select, as a list of words in JSON"),
    ("{labelsJson}", "labels that workloads select, as a map in JSON"),
];
impl FactsRow for CommandRow {
    fn days(&self) -> Option<(Date, Option<Date>)> {
        Some((self.as_of, self.checked))
    }

    fn check(&self) -> Result<(), String> {
        check_provider(self.provider.as_deref())?;
        if self.command.is_empty() {
            return Err("command is empty; write the command".to_owned());
        }
        self.note.as_deref().map_or(Ok(()), |note| check_sentence("note", note))?;
        check_source(&self.source)
    }
}

/// The effect of a provider's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProviderStep {
    /// Upgrades the control plane.
    UpgradeControlPlane,
    /// Upgrades the kubelets of a pool.
    UpgradePool,
    /// Creates the new pool with its taint.
    AddPool,
    /// Adds the taint to the configuration of an existing pool.
    ClosePool,
    /// Removes the taint from the configuration of the pool, and from its nodes.
    OpenPool,
    /// Deletes an old pool.
    RemovePool,
    /// Changes the Windows release of an old pool in place.
    ChangePool,
}
