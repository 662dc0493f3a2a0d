//! The policies in force in a cluster, from ConfigMap `mullion-state`.

use std::fmt;

use anyhow::ensure;
use jiff::Timestamp;
use mullion_engine::model::MinorVersion;
use mullion_engine::model::text::{counted, list_with, shorten};
use mullion_manifest::Problem;
use mullion_policy::{PolicyFiles, PolicySet};
use serde_json::Value;

use crate::cli::policy_files::PolicySelection;
use crate::cli::webhook_configurations::{ReadConfiguration, read_configurations};
use crate::cluster::reading::{Absence, CONFIG_MAPS, ClusterReader, UnreadObjects};
use crate::cluster::state::{MAX_REPORT_AGE, MullionState, NAME, parse_state, time_text};
use crate::controller::{CONFIGURATION, UnknownNamespace, registered_namespace};

/// The longest problem of a policy file in the reason, in characters.
const MAX_PROBLEM: usize = 300;

/// The policies in force.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPolicies {
    /// The set; without files if it is the built-in one.
    pub(crate) set: PolicySet,
    since: Option<Timestamp>,
    /// The release that stored them, if it is newer than this program.
    newer: Option<MinorVersion>,
    /// When the controller last reported, if that is too long ago.
    silent_since: Option<Timestamp>,
}

impl fmt::Display for ClusterPolicies {
    /// `3 files, in force since 2026-01-02T03:04:05Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.set.files.len() {
            0 => f.write_str("the built-in ones")?,
            files => write!(f, "{}, in force", counted(files, "file"))?,
        }
        if let Some(since) = self.since {
            write!(f, " since {}", time_text(since))?;
        }
        if let Some(newer) = self.newer {
            write!(f, ", stored by Mullion {newer}, which is newer than this one, {}", MinorVersion::of_mullion())?;
        }
        match self.silent_since {
            Some(silent) => write!(f, "; the controller has not reported since {}", time_text(silent)),
            None => Ok(()),
        }
    }
}

/// Why the policies in force were not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PoliciesNotRead {
    #[error("Mullion is not installed")]
    NotInstalled,
    #[error("the namespace of Mullion is not known, because {0}")]
    UnknownNamespace(String),
    #[error("{why}: {unread}", why = unread.absence.clause())]
    Unread { unread: UnreadObjects },
    #[error("there is no ConfigMap {NAME} in namespace {0}, in which a controller keeps them")]
    NoState(String),
    #[error("ConfigMap {NAME} in namespace {namespace} keeps none: {why}")]
    NotKept { namespace: String, why: String },
    #[error("ConfigMap {NAME} in namespace {namespace} cannot be parsed: {why}")]
    NotParsed { namespace: String, why: String },
    #[error("they are of Mullion {newer}, which is newer than this one, {}: {why}", MinorVersion::of_mullion())]
    Newer { newer: MinorVersion, why: String },
    #[error("they do not load in Mullion {}: {why}", MinorVersion::of_mullion())]
    NotLoaded { why: String },
}

impl PoliciesNotRead {
    /// Whether the cluster may have policies that were not read.
    fn is_unread(&self) -> bool {
        !matches!(self, Self::NotInstalled)
    }
}

/// The policies that a command uses for a live cluster.
#[derive(Debug, Default)]
pub(crate) struct SelectedPolicies {
    /// Those in force there; `None` if they were not requested, or not read.
    pub(crate) in_force: Option<ClusterPolicies>,
    /// What the first line says about them, with its separator.
    pub(crate) clause: String,
    /// Why they were requested and not read, if the cluster may have some.
    pub(crate) not_read: Option<String>,
}

/// Reads the policies in force if the command line selects them; it is an error if it requires them, and they cannot be
/// read.
pub(crate) async fn select_policies(
    reader: &ClusterReader<'_>,
    configurations: &[ReadConfiguration; 2],
    context: &str,
    selection: &PolicySelection,
) -> anyhow::Result<SelectedPolicies> {
    if let Some(others) = not_of_the_cluster(selection) {
        return Ok(others);
    }
    let is_required = *selection == PolicySelection::Cluster;
    Ok(match read_policies(reader, configurations).await? {
        Ok(policies) => {
            let clause = format!("; policies of the cluster: {policies}");
            SelectedPolicies { in_force: Some(policies), clause, not_read: None }
        }
        Err(why) => {
            let clause = format!("policies of the cluster not known: {why}");
            ensure!(!is_required, "context {context}: {clause}");
            let not_read = why.is_unread().then(|| why.to_string());
            SelectedPolicies { in_force: None, clause: format!("; {clause}; the built-in ones are used"), not_read }
        }
    })
}

/// The result for a selection that needs nothing of the cluster.
fn not_of_the_cluster(selection: &PolicySelection) -> Option<SelectedPolicies> {
    let clause = match selection {
        PolicySelection::Default | PolicySelection::Cluster => return None,
        PolicySelection::Paths(_) => "",
        PolicySelection::BuiltIn => "; the built-in policies, not those of the cluster",
    };
    Some(SelectedPolicies { clause: clause.to_owned(), ..SelectedPolicies::default() })
}

/// Like [`select_policies`], for a command that needs nothing else of the webhook configurations. They are read only if the
/// selection needs them.
pub(crate) async fn policies_of_the_cluster(
    reader: &ClusterReader<'_>,
    context: &str,
    selection: &PolicySelection,
) -> anyhow::Result<SelectedPolicies> {
    if let Some(others) = not_of_the_cluster(selection) {
        return Ok(others);
    }
    let configurations = read_configurations(reader).await?;
    select_policies(reader, &configurations, context, selection).await
}

/// Reads the policies in force (`get` on the ConfigMap). An error is one that would also occur for every other object.
async fn read_policies(
    reader: &ClusterReader<'_>,
    configurations: &[ReadConfiguration; 2],
) -> anyhow::Result<Result<ClusterPolicies, PoliciesNotRead>> {
    let namespace = match namespace(configurations) {
        Ok(namespace) => namespace,
        Err(why) => return Ok(Err(why)),
    };
    Ok(match reader.get(&CONFIG_MAPS, Some(&namespace), NAME).await? {
        Ok(map) => in_force(map, namespace, Timestamp::now()),
        Err(unread) if unread.absence == Absence::NotFound => Err(PoliciesNotRead::NoState(namespace)),
        Err(unread) => Err(PoliciesNotRead::Unread { unread }),
    })
}

/// The namespace of the Service that the configurations call.
fn namespace(configurations: &[ReadConfiguration; 2]) -> Result<String, PoliciesNotRead> {
    registered_namespace(configurations.iter().flatten().flatten()).map_err(|unknown| {
        let why = match unknown {
            UnknownNamespace::NotRegistered => {
                let unread = configurations.iter().find_map(|one| one.as_ref().err());
                return unread
                    .cloned()
                    .map_or(PoliciesNotRead::NotInstalled, |unread| PoliciesNotRead::Unread { unread });
            }
            UnknownNamespace::NoService => format!("the webhook configurations {CONFIGURATION} call no Service"),
            UnknownNamespace::Several(namespaces) => format!(
                "the webhook configurations {CONFIGURATION} call Services of the namespaces {}",
                list_with(&namespaces, "and")
            ),
        };
        PoliciesNotRead::UnknownNamespace(why)
    })
}

/// The policies that the ConfigMap of `namespace` keeps.
pub(crate) fn in_force(map: Value, namespace: String, now: Timestamp) -> Result<ClusterPolicies, PoliciesNotRead> {
    let state = match parse_state(map) {
        Ok(state) => state,
        Err(why) => return Err(PoliciesNotRead::NotParsed { namespace, why }),
    };
    let files = state.policies.files.clone();
    if files.is_empty()
        && let Some(why) = not_kept(&state)
    {
        return Err(PoliciesNotRead::NotKept { namespace, why });
    }
    let newer = state.policies.release.filter(|release| *release > MinorVersion::of_mullion());
    let since = state.policies_since.filter(|_| !files.is_empty());
    let loaded = if files.is_empty() {
        Ok(PolicySet::built_in())
    } else {
        PolicySet::load(&PolicyFiles { texts: files, problems: Vec::new() })
    };
    let set = loaded.map(|set| set.at(now.as_second())).map_err(|problems| {
        let why = first_problem(&problems);
        newer.map_or(PoliciesNotRead::NotLoaded { why: why.clone() }, |newer| PoliciesNotRead::Newer { newer, why })
    })?;
    let written = state.report.and_then(|report| report.written.parse::<Timestamp>().ok());
    let silent_since = written.filter(|written| now.as_second() - written.as_second() > MAX_REPORT_AGE);
    Ok(ClusterPolicies { set, since, newer, silent_since })
}

/// Why a state without policy files does not say that the built-in policies are in force.
fn not_kept(state: &MullionState) -> Option<String> {
    let Some(summary) = state.report.as_ref().and_then(|report| report.policies.as_ref()) else {
        return Some("no controller has reported which are in force".to_owned());
    };
    (summary.files > 0).then(|| {
        format!(
            "{} in force, which the controller has not stored or which are too large",
            counted(summary.files, "file")
        )
    })
}

/// The first problem, and the number of the others.
fn first_problem(problems: &[Problem]) -> String {
    let first = problems.first().map(|first| shorten(&first.to_string(), MAX_PROBLEM)).unwrap_or_default();
    match problems.len() {
        0 | 1 => first,
        all => format!("{first}; and {}", counted(all - 1, "more problem")),
    }
}
