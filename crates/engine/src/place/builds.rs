//! The Windows builds that can run a pod.

use std::collections::BTreeSet;

use crate::detect::ContainerImage;
use crate::model::Os;
use crate::model::cluster::{ClusterSnapshot, Nodes, RuntimeClass};
use crate::model::pod_view::Pod;
use crate::model::settings::NodeSettings;
use crate::model::windows::{Build, Generation, SINGLE_RULE_UP_TO, floor, generation_for, runs_any, server_releases};

/// The Windows builds that a pod's images allow.
#[derive(Debug, Clone)]
pub struct PodBuilds<'a> {
    /// Containers whose image builds are known; the others do not constrain.
    pub known: Vec<&'a ContainerImage<'a>>,
    /// Builds that may appear on nodes and run every known image.
    pub hosts: BTreeSet<Build>,
    /// Builds that may appear on nodes and do not run every known image.
    pub incompatible: BTreeSet<Build>,
    /// Whether some build runs every known image by some rule: if not, no node ever will. The container runtimes of
    /// today's nodes may still reject all of `hosts`.
    pub common: bool,
}

/// Computes the builds: those that Kubernetes ever ran on, those of the fleet now and before, and those the NodePolicy
/// expects, split by whether they run every image whose builds are known.
pub(crate) fn pod_builds<'a>(
    images: &'a [ContainerImage<'a>],
    snapshot: &ClusterSnapshot,
    nodes: &NodeSettings,
) -> PodBuilds<'a> {
    let known: Vec<_> = images.iter().filter(|image| !image.facts.builds.is_empty()).collect();
    if known.is_empty() {
        return PodBuilds { known, hosts: BTreeSet::new(), incompatible: BTreeSet::new(), common: true };
    }
    let table = server_releases().filter(|release| release.kubernetes.is_some()).map(|release| release.build);
    let expected = nodes.expected_pools.iter().map(|pool| pool.build);
    let announced = nodes.releases.iter().map(|release| release.build);
    // Whatever else the cluster has: a host of an image's own build runs it.
    let own = known.iter().flat_map(|image| image.facts.builds.iter().copied());
    let fleet = snapshot.windows_builds();
    let candidates: BTreeSet<Build> = table.chain(expected).chain(announced).chain(own).chain(fleet).collect();
    let (hosts, incompatible): (BTreeSet<Build>, BTreeSet<Build>) = candidates
        .into_iter()
        .partition(|host| known.iter().all(|image| runs_on(*host, &image.facts.builds, snapshot, nodes)));
    let by_some_rule = |host: &Build| {
        Generation::ALL.into_iter().any(|generation| {
            known.iter().all(|image| runs_any(*host, &image.facts.builds, generation, &nodes.releases))
        })
    };
    let common = !hosts.is_empty() || incompatible.iter().any(by_some_rule);
    PodBuilds { known, hosts, incompatible, common }
}

/// Whether hosts of that build run an image that exists for these builds, by the rule of the nodes that have it.
pub(crate) fn runs_on(host: Build, images: &[Build], snapshot: &ClusterSnapshot, nodes: &NodeSettings) -> bool {
    runs_any(host, images, generation_on(host, snapshot), &nodes.releases)
}

/// The most permissive rule that a live node of that build enforces; the default if there is none. The rules differ
/// only for hosts newer than the last LTSC, so only for them nodes matter. A pod cannot select between nodes of one
/// build, so a node with an older runtime does not exclude the others.
fn generation_on(host: Build, snapshot: &ClusterSnapshot) -> Generation {
    if host <= SINGLE_RULE_UP_TO {
        return Generation::default();
    }
    let nodes = snapshot.nodes.iter().flat_map(Nodes::iter);
    let enforced = nodes
        .filter(|node| node.os == Some(Os::Windows) && node.build == Some(host))
        .map(|node| generation_for(host, &node.container_runtime));
    // The floors differ only in their depth: R1 never rises, R2 rises an LTSC before R3.
    enforced.min_by_key(|generation| floor(host, *generation, &[])).unwrap_or_default()
}

/// Whether the node's build matters to the pod: not to HostProcess pods, which are processes of the host, and not to
/// those with a virtual machine of their own.
pub(crate) fn build_matters(pod: &Pod<'_>, snapshot: &ClusterSnapshot) -> bool {
    let class = pod.text("/spec/runtimeClassName").and_then(|name| snapshot.runtime_class(name));
    !pod.host_process() && !class.is_some_and(RuntimeClass::is_hypervisor)
}

impl PodBuilds<'_> {
    /// The one build of all images, if they have only one.
    pub fn single(&self) -> Option<Build> {
        let mut builds = self.known.iter().flat_map(|image| image.facts.builds.iter());
        let first = builds.next()?;
        builds.all(|build| build == first).then_some(*first)
    }
}
