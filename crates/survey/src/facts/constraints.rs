//! The limits of Kubernetes versions and providers on moving a fleet.

use jiff::civil::Date;
use mullion_engine::model::windows::Build;
use serde::Deserialize;

use crate::facts::row::{FactsRow, check_clause, check_provider, check_sentence, check_source};
use mullion_engine::model::MinorVersion;

/// One row: a limit, with the clause that a report prints.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConstraintRow {
    /// `AKS`, `EKS`, `GKE`, `OpenShift`, `RKE2`; absent: every cluster.
    #[serde(default)]
    pub provider: Option<String>,
    /// The Windows build of the nodes; absent: all Windows nodes.
    #[serde(default)]
    pub build: Option<Build>,
    /// What is limited.
    pub limit: Limit,
    /// The limit: a clause without a period, such as `AKS node pools of Windows Server 2019 end at Kubernetes 1.32`.
    pub what: String,
    /// What to do about a limit that the plan cannot compare with the cluster: one sentence with a period.
    #[serde(default)]
    pub action: Option<String>,
    /// Where it is published.
    pub source: String,
    /// The day of the source.
    pub as_of: Date,
    /// The day on which the row was last compared with its source, if it is not that of the table.
    #[serde(default)]
    pub checked: Option<Date>,
}

/// A limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "of", deny_unknown_fields)]
pub enum Limit {
    /// The versions that the kubelets of a pool can have.
    PoolVersion {
        /// The first one.
        #[serde(default)]
        from: Option<MinorVersion>,
        /// The last one.
        #[serde(default)]
        until: Option<MinorVersion>,
    },
    /// The versions that the control plane must have before the pool can be created.
    ControlPlaneVersion {
        /// The first one.
        from: MinorVersion,
    },
    /// How many minor versions the control plane may be ahead of a pool.
    VersionSkew {
        /// The number.
        minors: u16,
        /// The last version of the kubelets to which it applies. Absent: all.
        #[serde(default)]
        until: Option<MinorVersion>,
    },
    /// Kubelets must not be newer than the control plane.
    KubeletsNotNewer {},
    /// No new pool can be created from that day.
    NewPools {
        /// The day.
        refused_from: Date,
    },
    /// Whether a pool can change its Windows release in place.
    InPlaceChange {
        /// Whether it can.
        possible: bool,
        /// Whether the provider offers it as a preview only.
        #[serde(default)]
        preview: bool,
        /// The build that the pool has. Absent: any.
        #[serde(default)]
        from: Option<Build>,
        /// The build that it gets. Absent: any.
        #[serde(default)]
        to: Option<Build>,
    },
    /// The minor version of containerd of new pools, with these versions of their kubelets.
    PoolContainerd {
        /// The version of containerd.
        version: MinorVersion,
        /// The first version of the kubelets.
        #[serde(default)]
        from: Option<MinorVersion>,
        /// The last one.
        #[serde(default)]
        until: Option<MinorVersion>,
    },
    /// The versions for which the Kubernetes documentation lists the release. Others may work. A provider's own
    /// [`PoolVersion`](Self::PoolVersion) takes precedence.
    DocumentedVersion {
        /// The first one.
        #[serde(default)]
        from: Option<MinorVersion>,
        /// The last one.
        #[serde(default)]
        until: Option<MinorVersion>,
    },
    /// A pool has one Windows release.
    OneReleasePerPool {},
    /// No source states that the provider has nodes of that build.
    NotAnnounced {},
    /// Information that the plan cannot compare with the cluster.
    Notice {},
}

impl FactsRow for ConstraintRow {
    fn days(&self) -> Option<(Date, Option<Date>)> {
        Some((self.as_of, self.checked))
    }

    fn check(&self) -> Result<(), String> {
        check_provider(self.provider.as_deref())?;
        check_clause("what", &self.what)?;
        self.action.as_deref().map_or(Ok(()), |action| check_sentence("action", action))?;
        match (&self.limit, self.build) {
            (
                Limit::PoolVersion { from, until }
                | Limit::DocumentedVersion { from, until }
                | Limit::PoolContainerd { from, until, .. },
                build,
            ) => {
                if from.is_none() && until.is_none() {
                    return Err("the limit has neither from nor until; name a version".to_owned());
                }
                if from.zip(*until).is_some_and(|(from, until)| from > until) {
                    return Err("from is newer than until; exchange them".to_owned());
                }
                if build.is_none() && !matches!(self.limit, Limit::PoolContainerd { .. }) {
                    return Err("build is missing: the limit depends on the release".to_owned());
                }
            }
            (Limit::InPlaceChange { possible: false, preview: true, .. }, _) => {
                return Err("preview is set, but the change is not possible; remove one of them".to_owned());
            }
            (Limit::InPlaceChange { from: Some(from), to: Some(to), .. }, _) if from >= to => {
                return Err("from is not older than to; exchange them".to_owned());
            }
            (Limit::ControlPlaneVersion { .. } | Limit::NewPools { .. } | Limit::NotAnnounced {}, None) => {
                return Err("build is missing: the limit depends on the release".to_owned());
            }
            _ => {}
        }
        if self.action.is_none() && self.limit == (Limit::Notice {}) {
            return Err("action is missing: what to do about the notice".to_owned());
        }
        check_source(&self.source)
    }
}
