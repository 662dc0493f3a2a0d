//! Dates after which a release, an image, a container runtime or a Kubernetes version is not supported.

use jiff::civil::Date;
use mullion_engine::model::windows::Build;
use serde::Deserialize;

use crate::facts::MinorVersion;
use crate::facts::row::{FactsRow, check_clause, check_provider, check_source};

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LifecycleDate {
    /// The subject of the date.
    pub concerns: Concerns,
    /// The last day, or the day of the change.
    pub date: Date,
    /// What happens: a clause.
    pub what: String,
    /// Where the date is published.
    pub source: String,
    /// The day of the source.
    pub as_of: Date,
    /// Whether support ends on that day.
    #[serde(default)]
    pub ends: bool,
    /// Whether the provider deletes its node images on that day.
    #[serde(default)]
    pub deletes: bool,
}

impl FactsRow for LifecycleDate {
    fn check(&self) -> Result<(), String> {
        if self.concerns == Concerns::default() {
            return Err("concerns is empty, so the row would concern everything; name a member".to_owned());
        }
        check_provider(self.concerns.provider.as_deref())?;
        check_clause("what", &self.what)?;
        check_source(&self.source)
    }
}

/// The subject of a row: all members must apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Concerns {
    /// Windows build of nodes.
    #[serde(default)]
    pub node_build: Option<Build>,
    /// Windows build of images of Windows workloads.
    #[serde(default)]
    pub image_build: Option<Build>,
    /// `AKS`, `EKS`, `GKE`, `OpenShift`, `RKE2`.
    #[serde(default)]
    pub provider: Option<String>,
    /// Minor version of containerd: `1.7`.
    #[serde(default)]
    pub containerd: Option<MinorVersion>,
    /// Minor version of kubelets: `1.32`.
    #[serde(default)]
    pub kubelet: Option<MinorVersion>,
    /// Beginning of images of Windows workloads.
    #[serde(default)]
    pub image: Option<String>,
}
