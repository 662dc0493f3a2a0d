//! The Windows builds that can run a pod.

use std::collections::BTreeSet;

use crate::detect::ContainerImage;
use crate::model::cluster::ClusterSnapshot;
use crate::model::settings::NodeSettings;
use crate::model::windows::{Build, Generation, runs_any, server_releases};

/// The Windows builds that a pod's images allow.
#[derive(Debug, Clone, Default)]
pub struct PodBuilds<'a> {
    /// Containers whose image builds are known; other containers do not constrain the builds.
    pub known: Vec<&'a ContainerImage<'a>>,
    /// Builds that may appear on nodes and run every known image.
    pub hosts: BTreeSet<Build>,
    /// Builds that may appear on nodes and do not run every known image.
    pub incompatible: BTreeSet<Build>,
    /// Whether any build runs every known image by any rule. If not, no node ever will. The container runtimes of the
    /// current nodes may still reject all of `hosts`.
    pub common: bool,
    /// Whether the builds of every image are known.
    pub complete: bool,
    /// The builds of the known images that decide whether a host runs them all.
    deciding: BTreeSet<&'a [Build]>,
}

/// Computes the builds: those that Kubernetes ever ran on, those of the cluster's nodes now and before, and those that
/// the NodePolicy expects, split by whether they run every image with known builds.
pub(crate) fn pod_builds<'a>(
    images: &'a [ContainerImage<'a>],
    snapshot: &ClusterSnapshot,
    nodes: &NodeSettings,
) -> PodBuilds<'a> {
    let known: Vec<_> = images.iter().filter(|image| !image.facts.builds.is_empty()).collect();
    if known.is_empty() {
        return PodBuilds { common: true, ..PodBuilds::default() };
    }
    let table = server_releases().filter(|release| release.kubernetes.is_some()).map(|release| release.build);
    let expected = nodes.expected_pools.iter().map(|pool| pool.build);
    let announced = nodes.releases.iter().map(|release| release.build);
    // Whatever other builds the cluster has, a host of an image's own build runs it.
    let own = known.iter().flat_map(|image| image.facts.builds.iter().copied());
    let fleet = snapshot.windows_builds();
    let candidates: BTreeSet<Build> = table.chain(expected).chain(announced).chain(own).chain(fleet).collect();
    let deciding = deciding_builds(&known);
    let (hosts, incompatible): (BTreeSet<Build>, BTreeSet<Build>) =
        candidates.into_iter().partition(|host| runs_all(*host, &deciding, generation_on(*host, snapshot), nodes));
    let complete = known.len() == images.len();
    let mut builds = PodBuilds { known, hosts, incompatible, common: true, complete, deciding };
    builds.common =
        !builds.hosts.is_empty() || !builds.incompatible.iter().all(|host| builds.is_impossible(*host, nodes));
    builds
}

/// Whether a host runs an image of each of these, by that generation's rule.
fn runs_all(host: Build, deciding: &BTreeSet<&[Build]>, generation: Generation, nodes: &NodeSettings) -> bool {
    deciding.iter().all(|builds| runs_any(host, builds, generation, &nodes.releases))
}

/// The builds of the images that decide whether a host runs them all. A host runs a contiguous range of builds, so of
/// the images with one build only the oldest and the newest decide. An author can write tags of 80,000 builds.
fn deciding_builds<'a>(known: &[&'a ContainerImage<'a>]) -> BTreeSet<&'a [Build]> {
    let all: BTreeSet<&[Build]> = known.iter().map(|image| image.facts.builds.as_slice()).collect();
    let single = || all.iter().copied().filter(|builds| builds.len() == 1);
    let (oldest, newest) = (single().next(), single().next_back());
    let several = all.iter().copied().filter(|builds| builds.len() != 1);
    several.chain(oldest).chain(newest).collect()
}

/// Whether hosts of that build run an image that exists for these builds, by the rule of the nodes with that build.
pub(crate) fn runs_on(host: Build, images: &[Build], snapshot: &ClusterSnapshot, nodes: &NodeSettings) -> bool {
    runs_any(host, images, generation_on(host, snapshot), &nodes.releases)
}

fn generation_on(host: Build, snapshot: &ClusterSnapshot) -> Generation {
    snapshot.nodes.as_ref().map_or_else(Generation::default, |nodes| nodes.generation(host))
}

impl PodBuilds<'_> {
    /// Whether hosts of that build cannot run the known images by any rule, whatever the container runtime of a node
    /// is.
    pub fn is_impossible(&self, host: Build, nodes: &NodeSettings) -> bool {
        !Generation::ALL.into_iter().any(|generation| runs_all(host, &self.deciding, generation, nodes))
    }

    /// The one build of all images, if they have only one.
    pub fn single(&self) -> Option<Build> {
        let mut builds = self.known.iter().flat_map(|image| image.facts.builds.iter());
        let first = builds.next()?;
        builds.all(|build| build == first).then_some(*first)
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::expect_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::detect::image_facts;
    use crate::model::WorkloadKind;
    use crate::model::pod_view::Pod;
    use crate::model::settings::ImagePatterns;
    use crate::model::windows::ExtraRelease;

    fn build() -> impl Strategy<Value = Build> {
        let known =
            vec![14_393_u32, 17_763, 19_042, 20_347, 20_348, 20_349, 25_398, 26_099, 26_100, 26_101, 26_200, 30_000];
        prop_oneof![prop::sample::select(known), 14_000..32_000_u32].prop_map(Build::new)
    }

    proptest! {
        /// A host runs a pod if it runs each of its images.
        #[test]
        fn hosts_are_those_that_run_each_image(
            images in prop::collection::vec(prop_oneof![4 => prop::collection::vec(build(), 1), 1 => prop::collection::vec(build(), 1..4)], 1..60),
            releases in prop::collection::vec((build(), build()), 0..3),
        ) {
            let object = json!({"spec": {"containers": vec![json!({"image": "a"}); images.len()]}});
            let pod = Pod::of(WorkloadKind::Pod, &object).expect("a pod");
            let facts = image_facts("a", &ImagePatterns::default(), None);
            let images: Vec<ContainerImage<'_>> = pod
                .containers()
                .zip(images)
                .map(|(container, builds)| {
                    let mut facts = facts.clone();
                    facts.builds = builds;
                    ContainerImage { container, image: "a", facts }
                })
                .collect();
            let releases = releases.into_iter().map(|(build, runs_from)| ExtraRelease { build, runs_from, name: "r".to_owned() });
            let nodes = NodeSettings { releases: releases.collect(), ..NodeSettings::default() };
            let snapshot = ClusterSnapshot::default();
            let found = pod_builds(&images, &snapshot, &nodes);
            for host in found.hosts.iter().chain(&found.incompatible) {
                let runs_each = images.iter().all(|image| runs_on(*host, &image.facts.builds, &snapshot, &nodes));
                prop_assert_eq!(found.hosts.contains(host), runs_each, "{}", host);
            }
            let by_some_rule = found.incompatible.iter().any(|host| {
                Generation::ALL.into_iter().any(|generation| {
                    images.iter().all(|image| runs_any(*host, &image.facts.builds, generation, &nodes.releases))
                })
            });
            prop_assert_eq!(found.common, !found.hosts.is_empty() || by_some_rule);
        }
    }
}
