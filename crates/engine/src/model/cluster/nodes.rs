//! Nodes of the cluster, indexed so that no review iterates over all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::model::MinorVersion;
use crate::model::cluster::fact::{Excess, Fact, Unusable, UnusableFact};
use crate::model::cluster::node_labels::NodeLabels;
use crate::model::cluster::taint::Taint;
use crate::model::declared_features::{FIRST_DECLARING_KUBELET, NodeFeatures};
use crate::model::operating_system::Os;
use crate::model::windows::{Build, Generation, SINGLE_RULE_UP_TO, floor, generation_for};

/// The cluster's nodes, indexed once. Build with [`Nodes::new`], or with [`Nodes::shared`] if the nodes outlive one
/// snapshot.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Nodes {
    all: Vec<Arc<Node>>,
    /// Positions in `all`, by name.
    by_name: Vec<usize>,
    /// Positions in `all` of the first node of each kind: the nodes of one kind have the same OS, and the same labels
    /// except for keys in `individual`.
    kinds: Vec<usize>,
    /// Keys of labels with a value that only one node has.
    individual: BTreeSet<String>,
    linux_taints: DistinctTaints,
    windows_taints: DistinctTaints,
    windows_builds: BTreeSet<Build>,
    /// See [`Nodes::generation`].
    generations: BTreeMap<Build, Generation>,
    has_windows: bool,
    has_unknown: bool,
    has_unknown_build: bool,
    declare_features: bool,
}

/// The most distinct taints of an operating system's nodes that are kept. Each review compares them with the taints of
/// the NodePolicy; fleets have a few, of which one to three mark the operating system.
pub const DISTINCT_TAINTS: usize = 1_024;

/// The distinct taints of an operating system's nodes: if there are more than [`DISTINCT_TAINTS`], those that the most
/// nodes have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DistinctTaints {
    /// Each with the number of nodes that have it.
    nodes: BTreeMap<Taint, usize>,
    left_out: usize,
}

/// One node, reduced to what decisions need. Virtual-kubelet nodes are never part of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// Label `kubernetes.io/os`, else `beta.kubernetes.io/os`; `None` if neither is `windows` or `linux`.
    pub os: Option<Os>,
    /// Whether the node had an operating system label before, and lost it. Its kubelet can remove the label, and would
    /// otherwise decide about all undecided pods of the cluster.
    pub lost_os: bool,
    /// `metadata.labels`.
    pub labels: NodeLabels,
    /// `spec.taints`.
    pub taints: Fact<Arc<[Taint]>>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Label `node.kubernetes.io/windows-build`, else the first three numbers of `status.nodeInfo.kernelVersion`.
    pub build: Option<Build>,
    /// `status.nodeInfo.containerRuntimeVersion`.
    pub container_runtime: Arc<str>,
    /// The version in `status.nodeInfo.kubeletVersion`; `None` if it is unknown.
    pub kubelet: Option<MinorVersion>,
    /// `status.declaredFeatures`, if the object has it. [`Nodes::features_of`] also tells what its absence means.
    pub features: Option<NodeFeatures>,
    /// `metadata.uid`, if the snapshot is a live one: another node may get the same name later.
    pub uid: Option<Box<str>>,
}

impl Nodes {
    /// Indexes `all`. If several nodes have the same name, [`get`](Self::get) finds only the last.
    pub fn new(all: Vec<Node>) -> Self {
        Self::shared(all.into_iter().map(Arc::new).collect())
    }

    /// Indexes `all` without copying a node: a snapshot is rebuilt for every change of one of 20,000.
    pub fn shared(all: Vec<Arc<Node>>) -> Self {
        let name = |at: &usize| all.get(*at).map(|node| node.name.as_str());
        let mut by_name: Vec<usize> = (0..all.len()).collect();
        by_name.sort_by(|a, b| name(a).cmp(&name(b)));
        let mut individual = BTreeSet::new();
        let (mut looked_at, mut known) = (HashSet::new(), HashSet::new());
        let mut kinds = Vec::new();
        for (at, node) in all.iter().enumerate() {
            if !looked_at.insert((node.os, node.labels.without_host())) {
                continue;
            }
            let common = node.labels.common(|key| {
                if !individual.contains(key) {
                    individual.insert(key.to_owned());
                }
            });
            if known.insert((node.os, common)) {
                kinds.push(at);
            }
        }
        let of = |os| all.iter().filter(move |node| node.os == Some(os));
        Self {
            by_name,
            kinds,
            individual,
            linux_taints: DistinctTaints::of(of(Os::Linux).map(Arc::as_ref)),
            windows_taints: DistinctTaints::of(of(Os::Windows).map(Arc::as_ref)),
            windows_builds: of(Os::Windows).filter_map(|node| node.build).collect(),
            generations: generations(of(Os::Windows).map(Arc::as_ref)),
            has_windows: of(Os::Windows).next().is_some(),
            has_unknown_build: of(Os::Windows).any(|node| node.build.is_none()),
            declare_features: all.iter().any(|node| node.features.is_some_and(NodeFeatures::has_any)),
            has_unknown: all.iter().any(|node| node.os.is_none() && !node.lost_os && !node.unschedulable),
            all,
        }
    }

    /// Every node.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.all.iter().map(Arc::as_ref)
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The node of that name.
    pub fn get(&self, name: &str) -> Option<&Node> {
        let node = |at: &usize| self.all.get(*at).map(Arc::as_ref);
        let after = self.by_name.partition_point(|at| node(at).is_some_and(|node| node.name.as_str() <= name));
        let last = self.by_name.get(after.checked_sub(1)?)?;
        node(last).filter(|node| node.name == name)
    }

    /// The fewest nodes that represent all nodes by OS and the labels of these keys: the nodes of a pool are alike, and
    /// a review checks one of them instead of thousands.
    pub fn samples<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> impl Iterator<Item = &Node> {
        let all = keys.into_iter().any(|key| self.individual.contains(key));
        let kinds = self.kinds.iter().filter_map(|at| self.all.get(*at));
        let (all, kinds) = if all { (Some(self.all.iter()), None) } else { (None, Some(kinds)) };
        all.into_iter().flatten().chain(kinds.into_iter().flatten()).map(Arc::as_ref)
    }

    /// Distinct taints of all Linux nodes.
    pub fn linux_taints(&self) -> &DistinctTaints {
        &self.linux_taints
    }

    /// Distinct taints of all Windows nodes.
    pub fn windows_taints(&self) -> &DistinctTaints {
        &self.windows_taints
    }

    /// Distinct builds of all Windows nodes.
    pub fn windows_builds(&self) -> &BTreeSet<Build> {
        &self.windows_builds
    }

    /// Whether a Windows node has no build: nobody knows which images it runs.
    pub fn has_unknown_build(&self) -> bool {
        self.has_unknown_build
    }

    /// The most permissive rule that a node of that build enforces; the default if there is no such node. A pod cannot
    /// select between nodes of one build, so a node with an older runtime does not exclude the others.
    pub fn generation(&self, host: Build) -> Generation {
        self.generations.get(&host).copied().unwrap_or_default()
    }

    /// Whether there is a Windows node now.
    pub fn has_windows(&self) -> bool {
        self.has_windows
    }

    /// The features that a node declares; `None` if they are not known.
    ///
    /// The scheduler treats a node without `status.declaredFeatures` as one that declares none (`NodeInfo.SetNode` in
    /// pkg/scheduler/framework/types.go). A file can have lost the member, and so can an API server whose gate is off. Neither is
    /// so if another node has features, or if the kubelet is too old to declare any.
    pub fn features_of(&self, node: &Node) -> Option<NodeFeatures> {
        let declares_none = |kubelet| self.declare_features || kubelet < FIRST_DECLARING_KUBELET;
        node.features.or_else(|| node.kubelet.is_some_and(declares_none).then_some(NodeFeatures::NONE))
    }

    /// The newest version of a kubelet. The API server is not older.
    pub fn newest_kubelet(&self) -> Option<MinorVersion> {
        self.iter().filter_map(|node| node.kubelet).max()
    }

    /// The taints that are not used.
    pub fn unusable_facts(&self) -> impl Iterator<Item = UnusableFact> {
        let of_nodes = self.iter().filter_map(Node::unusable_fact);
        let of = |taints: &DistinctTaints, os: Os| {
            let excess =
                Excess { size: taints.nodes.len() + taints.left_out, limit: DISTINCT_TAINTS, unit: "distinct taint" };
            let value = format!("the set of taints of all {} nodes", os.title());
            (taints.left_out > 0).then(|| UnusableFact::new("Node", "", value, &Unusable::TooLarge(excess)))
        };
        of_nodes.chain(of(&self.linux_taints, Os::Linux)).chain(of(&self.windows_taints, Os::Windows))
    }

    /// Whether a schedulable node has no OS label, or one that Mullion does not know: such a node is not safe for the
    /// Linux default.
    pub fn has_unknown_os(&self) -> bool {
        self.has_unknown
    }
}

impl Node {
    /// The taints, if they are not used.
    pub fn unusable_fact(&self) -> Option<UnusableFact> {
        Some(UnusableFact::new("Node", &self.name, "the list of taints".to_owned(), self.taints.unusable()?))
    }

    /// The taints that are known: none if they are too large to use.
    pub fn known_taints(&self) -> &[Taint] {
        self.taints.parsed().map_or(&[], |taints| &**taints)
    }
}

impl DistinctTaints {
    fn of<'n>(nodes: impl Iterator<Item = &'n Node>) -> Self {
        let mut counts: BTreeMap<&Taint, usize> = BTreeMap::new();
        for taint in nodes.flat_map(Node::known_taints) {
            *counts.entry(taint).or_default() += 1;
        }
        let left_out = counts.len().saturating_sub(DISTINCT_TAINTS);
        let mut counts: Vec<(&Taint, usize)> = counts.into_iter().collect();
        if left_out > 0 {
            counts.sort_by_key(|(_, nodes)| Reverse(*nodes));
            counts.truncate(DISTINCT_TAINTS);
        }
        Self { nodes: counts.into_iter().map(|(taint, nodes)| (taint.clone(), nodes)).collect(), left_out }
    }

    /// The taints that are kept, each with the number of nodes that have it.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Taint, usize)> {
        self.nodes.iter().map(|(taint, nodes)| (taint, *nodes))
    }

    /// How many distinct taints are not kept.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

/// The most permissive rule of each build's nodes. The rules differ only for hosts newer than the last LTSC, so only these
/// are listed.
fn generations<'n>(windows: impl Iterator<Item = &'n Node>) -> BTreeMap<Build, Generation> {
    let newer = windows.filter_map(|node| Some((node.build.filter(|build| *build > SINGLE_RULE_UP_TO)?, node)));
    let runtimes: BTreeSet<(Build, &str)> = newer.map(|(build, node)| (build, &*node.container_runtime)).collect();
    let mut found = BTreeMap::new();
    for (host, runtime) in runtimes {
        let generation = generation_for(host, runtime);
        let best = found.entry(host).or_insert(generation);
        // The lowest builds differ only in their depth: R1 never rises, R2 rises one LTSC before R3.
        *best = [*best, generation].into_iter().min_by_key(|one| floor(host, *one, &[])).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::model::cluster::node_labels::NodeParts;

    fn node(name: String, labels: BTreeMap<String, String>, os: Option<Os>, parts: &mut NodeParts) -> Node {
        Node { name, os, labels: parts.labels(labels), ..Node::default() }
    }

    #[test]
    fn a_fleet_has_few_kinds_of_nodes() {
        let mut parts = NodeParts::default();
        let labels = |n: usize| {
            [("kubernetes.io/hostname", format!("n{n}")), ("agentpool", format!("pool{}", n % 3))]
                .map(|(key, value)| (key.to_owned(), value))
                .into()
        };
        let all = (0..300).map(|n| node(format!("n{n}"), labels(n), Some(Os::Linux), &mut parts)).collect();
        let nodes = Nodes::new(all);
        assert_eq!(nodes.samples(["agentpool"]).count(), 3);
        assert_eq!(nodes.samples(["agentpool", "kubernetes.io/hostname"]).count(), 300);
        assert_eq!(nodes.samples(["absent"]).count(), 3);
        assert_eq!(nodes.get("n17").unwrap().name, "n17");
        assert!(nodes.get("n170").is_some() && nodes.get("n300").is_none() && nodes.get("").is_none());
    }

    /// Ordinary labels, and the one that is stored separately.
    const KEY: &str = "[a-d]|kubernetes\\.io/hostname";

    proptest! {
        /// The labels and OS of the samples are those of all nodes.
        #[test]
        fn samples_represent_all_nodes(
            all in prop::collection::vec((prop::collection::btree_map(KEY, "[0-2]", 0..5), 0..3_u8), 0..12),
            required in prop::collection::btree_map(KEY, "[0-2]", 0..3),
        ) {
            let mut parts = NodeParts::default();
            let os = |number| [None, Some(Os::Linux), Some(Os::Windows)].get(usize::from(number)).copied().flatten();
            let all = all.into_iter().map(|(labels, number)| node(String::new(), labels, os(number), &mut parts));
            let nodes = Nodes::new(all.collect());
            let fits = |node: &&Node| required.iter().all(|(key, value)| node.labels.get(key) == Some(value.as_str()));
            let found = |nodes: &mut dyn Iterator<Item = &Node>| nodes.filter(fits).map(|node| node.os).collect::<BTreeSet<_>>();
            let samples = found(&mut nodes.samples(required.keys().map(String::as_str)));
            prop_assert_eq!(samples, found(&mut nodes.iter()));
        }
    }
}
