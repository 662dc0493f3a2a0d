//! Dates after which a release, an image, a container runtime or a Kubernetes version is not supported.

use jiff::civil::Date;
use mullion_engine::model::windows::Build;
use serde::Deserialize;

use crate::facts::row::{FactsRow, check_clause, check_provider, check_source};
use crate::node_product::NodeProduct;
use mullion_engine::model::MinorVersion;

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
    /// The day on which the row was last compared with its source, if it is not that of the table.
    #[serde(default)]
    pub checked: Option<Date>,
    /// Whether support ends on that day.
    #[serde(default)]
    pub ends: bool,
    /// Whether the provider deletes its node images on that day.
    #[serde(default)]
    pub deletes: bool,
}

impl Concerns {
    /// Whether the row is about a container runtime.
    pub fn is_runtime(&self) -> bool {
        self.containerd.is_some() || self.docker.is_some()
    }

    /// Whether the nodes with that product and build are those of the row.
    pub fn is_product(&self, product: NodeProduct, build: Option<Build>) -> bool {
        self.node_build.is_none_or(|wanted| build == Some(wanted) && product == self.product.unwrap_or_default())
    }
}

impl LifecycleDate {
    /// Whether Microsoft's support of a host with that build ends on that day.
    pub(crate) fn is_end_of_host(&self, build: Build, product: NodeProduct) -> bool {
        let Concerns { node_build, provider, .. } = &self.concerns;
        let of_host = node_build.is_some() && provider.is_none() && self.concerns.kubelet.is_none();
        self.ends && of_host && !self.concerns.is_runtime() && self.concerns.is_product(product, Some(build))
    }
}

impl FactsRow for LifecycleDate {
    fn days(&self) -> Option<(Date, Option<Date>)> {
        Some((self.as_of, self.checked))
    }

    fn check(&self) -> Result<(), String> {
        if self.concerns == Concerns::default() {
            return Err("concerns is empty, so the row would concern everything; name a member".to_owned());
        }
        if self.concerns.product.is_some() && self.concerns.node_build.is_none() {
            return Err("product without nodeBuild; name the build of the nodes".to_owned());
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
    /// Whether the row is about nodes of Windows Server, the default, or of a Windows 10 or 11 with that build.
    #[serde(default)]
    pub product: Option<NodeProduct>,
    /// Windows build of images of Windows workloads.
    #[serde(default)]
    pub image_build: Option<Build>,
    /// `AKS`, `EKS`, `GKE`, `OpenShift`, `RKE2`.
    #[serde(default)]
    pub provider: Option<String>,
    /// Minor version of containerd: `1.7`.
    #[serde(default)]
    pub containerd: Option<MinorVersion>,
    /// Version of Docker Engine: `20.10`.
    #[serde(default)]
    pub docker: Option<MinorVersion>,
    /// Minor version of kubelets: `1.32`.
    #[serde(default)]
    pub kubelet: Option<MinorVersion>,
    /// Beginning of images of Windows workloads.
    #[serde(default)]
    pub image: Option<String>,
}
