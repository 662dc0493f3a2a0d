//! The cluster snapshot: the facts about the cluster, as plain data.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::MinorVersion;
use crate::model::cluster::fact::UnusableFact;
use crate::model::cluster::namespace::Namespace;
use crate::model::cluster::nodes::Nodes;
use crate::model::cluster::runtime_class::RuntimeClass;
use crate::model::cluster::taint::Taint;
use crate::model::image::KnownImages;
use crate::model::windows::Build;

/// The input of a review besides the workload and the policies.
#[derive(Debug, Clone, Default)]
pub struct ClusterSnapshot {
    /// The version of the API server; `None` if it is unknown.
    pub api_server: Option<MinorVersion>,
    /// `None`: nodes are unknown (the command line without `--snapshot`).
    pub nodes: Option<Nodes>,
    /// By name. `None` if they are unknown, which is not the same as an empty map.
    pub runtime_classes: Option<BTreeMap<String, RuntimeClass>>,
    /// RuntimeClasses of the same input as the workload, by name. They exist when its pods are created, and replace
    /// those of the cluster.
    pub declared_classes: BTreeMap<String, RuntimeClass>,
    /// By name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Taints ever seen on Windows nodes, including those that are gone.
    pub seen_taints: BTreeSet<Taint>,
    /// Builds of Windows nodes ever seen.
    pub seen_builds: BTreeSet<Build>,
    /// What registries reported about images when the snapshot was saved; empty for a live snapshot, for which the
    /// caller of the review queries the registries.
    pub images: KnownImages,
}

impl ClusterSnapshot {
    /// The RuntimeClass of that name, if it is known.
    pub fn runtime_class(&self, name: &str) -> Option<&RuntimeClass> {
        self.declared_classes.get(name).or_else(|| self.runtime_classes.as_ref()?.get(name))
    }

    /// Whether the cluster has or had Windows nodes; unknown counts as yes.
    pub fn mixed(&self) -> bool {
        !self.seen_builds.is_empty()
            || !self.seen_taints.is_empty()
            || self.nodes.as_ref().is_none_or(Nodes::has_windows)
    }

    /// Every value of the snapshot that is not used: annotations of namespaces, tolerations of RuntimeClasses, taints of
    /// nodes.
    pub fn unusable_facts(&self) -> impl Iterator<Item = UnusableFact> {
        let namespaces = self.namespaces.iter().flat_map(|(name, namespace)| namespace.unusable_facts(name));
        let classes = self.runtime_classes.iter().flatten().filter_map(|(name, class)| class.unusable_fact(name));
        let nodes = self.nodes.iter().flat_map(Nodes::unusable_facts);
        namespaces.chain(classes).chain(nodes)
    }

    /// Builds of Windows nodes, now or before.
    pub fn windows_builds(&self) -> BTreeSet<Build> {
        let live = self.nodes.iter().flat_map(Nodes::windows_builds);
        live.chain(&self.seen_builds).copied().collect()
    }
}
