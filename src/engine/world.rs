//! What may be known of the cluster, as plain data.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::image::KnownImages;
use super::labels::Labels;
use super::limits;
use super::rules::openshift;
use super::windows::Build;

/// Everything a review may know beside the subject and the policies.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// `None`: nothing is known of nodes (the command line without `--world`).
    pub nodes: Option<Nodes>,
    /// By name; `None`: nothing is known of them, which is not the same as none.
    pub runtime_classes: Option<BTreeMap<String, RuntimeClass>>,
    /// By name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Taints ever seen on Windows nodes, those gone included.
    pub seen_taints: BTreeSet<Taint>,
    /// Builds of Windows nodes ever seen.
    pub seen_builds: BTreeSet<Build>,
    /// What registries said of images when the world was written down; empty for a live one, whose registries are asked
    /// by whoever asks for the review.
    pub images: KnownImages,
}

/// The cluster's nodes, indexed once so that no review walks them without need. Build with [`Nodes::new`], or with
/// [`Nodes::shared`] where the nodes outlive one world.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    all: Vec<Arc<Node>>,
    /// Places in `all`, by name.
    by_name: Vec<usize>,
    /// Places in `all`, of the first node of each kind: those of one kind have the same OS, and the same labels but for
    /// keys in `individual`.
    kinds: Vec<usize>,
    /// Keys of labels that some node alone has with its value.
    individual: BTreeSet<String>,
    linux_taints: BTreeSet<Taint>,
    windows_taints: BTreeSet<Taint>,
    windows_builds: BTreeSet<Build>,
    has_windows: bool,
    has_unknown: bool,
}

/// One node, without what no decision needs. Virtual-kubelet nodes are never part of a world.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// Label `kubernetes.io/os`, else `beta.kubernetes.io/os`; `None` if neither says `windows` or `linux`.
    pub os: Option<Os>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.taints`.
    pub taints: Arc<[Taint]>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Label `node.kubernetes.io/windows-build`, else the first three numbers of `status.nodeInfo.kernelVersion`.
    pub build: Option<Build>,
    /// `status.nodeInfo.containerRuntimeVersion`.
    pub container_runtime: Arc<str>,
    /// `metadata.uid`, where the world is a live one: another node may come under the same name.
    pub uid: Option<Box<str>>,
}

/// An operating system a node can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "they are what they say")]
pub enum Os {
    Linux,
    Windows,
}

/// A node's taint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the Kubernetes fields of these names")]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

/// A namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`, those that Mullion reads: see [`Namespace::ANNOTATIONS`].
    pub annotations: BTreeMap<String, String>,
}

/// A RuntimeClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeClass {
    /// `handler`.
    pub handler: String,
    /// `scheduling.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `scheduling.tolerations`, raw JSON as in a pod spec.
    pub tolerations: Vec<Value>,
    /// `overhead.podFixed`: quantities; empty where the class has none.
    pub overhead: BTreeMap<String, String>,
    /// Whether Mullion made it: label `app.kubernetes.io/managed-by: mullion`.
    pub ours: bool,
}

/// How containerd names its handlers on Windows: `runhcs-wcow-process`, `runhcs-wcow-hypervisor` and its kin.
const WINDOWS_HANDLERS: &str = "runhcs-";

/// Handlers that only Linux runtimes have, as their own guides name them (kubernetes.io/docs/concepts/containers/runtime-class,
/// gvisor.dev, katacontainers.io, the NVIDIA container toolkit); Kata adds its hypervisor: `kata-qemu`, `kata-clh`.
const LINUX_HANDLERS: [&str; 7] = ["runc", "crun", "youki", "runsc", "gvisor", "kata", "nvidia"];

impl RuntimeClass {
    /// The operating system whose nodes have that handler, where its name tells.
    pub fn handler_os(&self) -> Option<Os> {
        if self.handler.starts_with(WINDOWS_HANDLERS) {
            return Some(Os::Windows);
        }
        let linux = LINUX_HANDLERS.contains(&self.handler.as_str()) || self.handler.starts_with("kata-");
        linux.then_some(Os::Linux)
    }

    /// Whether its handler puts a pod into a virtual machine of its own build.
    pub fn is_hypervisor(&self) -> bool {
        self.handler.contains("hypervisor")
    }
}

impl Namespace {
    /// The annotations that matter to a review.
    pub const ANNOTATIONS: [&'static str; 8] = [
        "mullion.dev/os",
        "mullion.dev/ignore",
        limits::NODE_SELECTORS[0],
        limits::NODE_SELECTORS[1],
        limits::WHITELIST,
        openshift::UID_RANGE,
        openshift::GROUPS,
        openshift::LEVEL,
    ];
}

impl Os {
    /// The one that it is not.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Linux => Self::Windows,
            Self::Windows => Self::Linux,
        }
    }

    /// `windows` or `linux`, as label values and `spec.os.name` have them; anything else is no OS Mullion knows.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "linux" => Some(Self::Linux),
            "windows" => Some(Self::Windows),
            _ => None,
        }
    }

    /// `windows` or `linux`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
        }
    }

    /// `Windows` or `Linux`, for sentences.
    pub fn title(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Windows => "Windows",
        }
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect)
    }
}

impl Taint {
    /// Reads `key=value:Effect`, `key:Effect`; `None` without an effect Kubernetes knows.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, effect) = text.rsplit_once(':')?;
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let known = matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute");
        (known && !key.is_empty()).then(|| Self {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        })
    }
}

impl Nodes {
    /// Indexes `all`. Of nodes with the same name the last is found by name.
    pub fn new(all: Vec<Node>) -> Self {
        Self::shared(all.into_iter().map(Arc::new).collect())
    }

    /// Indexes `all` without copying a node: a world is rebuilt for every change of one of 20,000.
    pub fn shared(all: Vec<Arc<Node>>) -> Self {
        let name = |at: &usize| all.get(*at).map(|node| node.name.as_str());
        let mut by_name: Vec<usize> = (0..all.len()).collect();
        by_name.sort_by(|a, b| name(a).cmp(&name(b)));
        let mut individual = BTreeSet::new();
        let (mut looked_at, mut known) = (HashSet::new(), HashSet::new());
        let mut kinds = Vec::new();
        for (at, node) in all.iter().enumerate() {
            if !looked_at.insert((node.os, node.labels.but_for_host())) {
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
        let taints = |os| of(os).flat_map(|node| node.taints.iter().cloned()).collect();
        Self {
            by_name,
            kinds,
            individual,
            linux_taints: taints(Os::Linux),
            windows_taints: taints(Os::Windows),
            windows_builds: of(Os::Windows).filter_map(|node| node.build).collect(),
            has_windows: of(Os::Windows).next().is_some(),
            has_unknown: all.iter().any(|node| node.os.is_none() && !node.unschedulable),
            all,
        }
    }

    /// Every node.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.all.iter().map(Arc::as_ref)
    }

    /// How many there are.
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

    /// As few nodes as tell of all what their OS and the labels of these keys are: the nodes of a pool are alike, and a
    /// review asks about one of them in place of thousands.
    pub fn samples<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> impl Iterator<Item = &Node> {
        let all = keys.into_iter().any(|key| self.individual.contains(key));
        let kinds = self.kinds.iter().filter_map(|at| self.all.get(*at));
        let (all, kinds) = if all { (Some(self.all.iter()), None) } else { (None, Some(kinds)) };
        all.into_iter().flatten().chain(kinds.into_iter().flatten()).map(Arc::as_ref)
    }

    /// Distinct taints of all Linux nodes.
    pub fn linux_taints(&self) -> &BTreeSet<Taint> {
        &self.linux_taints
    }

    /// Distinct taints of all Windows nodes.
    pub fn windows_taints(&self) -> &BTreeSet<Taint> {
        &self.windows_taints
    }

    /// Distinct builds of all Windows nodes.
    pub fn windows_builds(&self) -> &BTreeSet<Build> {
        &self.windows_builds
    }

    /// Whether there is a Windows node now.
    pub fn has_windows(&self) -> bool {
        self.has_windows
    }

    /// Whether a schedulable node has no OS label, or one Mullion does not know: no safe place for a default.
    pub fn has_unknown_os(&self) -> bool {
        self.has_unknown
    }
}

impl World {
    /// The RuntimeClass of that name, where it is known.
    pub fn runtime_class(&self, name: &str) -> Option<&RuntimeClass> {
        self.runtime_classes.as_ref()?.get(name)
    }

    /// Whether the cluster has or had Windows nodes; unknown counts as yes.
    pub fn mixed(&self) -> bool {
        !self.seen_builds.is_empty()
            || !self.seen_taints.is_empty()
            || self.nodes.as_ref().is_none_or(Nodes::has_windows)
    }

    /// Builds of Windows nodes, now or before.
    pub fn windows_builds(&self) -> BTreeSet<Build> {
        let live = self.nodes.iter().flat_map(Nodes::windows_builds);
        live.chain(&self.seen_builds).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::super::labels::NodeParts;
    use super::*;

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

    /// Labels like any other, and the one that is kept apart.
    const KEY: &str = "[a-d]|kubernetes\\.io/hostname";

    proptest! {
        /// What samples say of labels and OS is what all nodes say.
        #[test]
        fn samples_tell_all(
            all in prop::collection::vec((prop::collection::btree_map(KEY, "[0-2]", 0..5), 0..3_u8), 0..12),
            asked in prop::collection::btree_map(KEY, "[0-2]", 0..3),
        ) {
            let mut parts = NodeParts::default();
            let os = |number| [None, Some(Os::Linux), Some(Os::Windows)].get(usize::from(number)).copied().flatten();
            let all = all.into_iter().map(|(labels, number)| node(String::new(), labels, os(number), &mut parts));
            let nodes = Nodes::new(all.collect());
            let fits = |node: &&Node| asked.iter().all(|(key, value)| node.labels.get(key) == Some(value.as_str()));
            let found = |nodes: &mut dyn Iterator<Item = &Node>| nodes.filter(fits).map(|node| node.os).collect::<BTreeSet<_>>();
            let samples = found(&mut nodes.samples(asked.keys().map(String::as_str)));
            prop_assert_eq!(samples, found(&mut nodes.iter()));
        }
    }
}
