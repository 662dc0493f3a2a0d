//! The fleet: nodes in pools, by the labels of their provider.

use std::collections::{BTreeMap, HashMap};

use mullion_engine::model::Os;
use mullion_engine::model::cluster::Node;
use mullion_engine::model::declared_features::NodeFeatures;
use mullion_engine::model::names::OS_LABELS;
use mullion_engine::model::windows::{Build, release_name};

use crate::inventory::{Inventory, NodeRecord};
use crate::node_product::NodeProduct;
use crate::report::{NodePool, PoolFeature, PoolTaint, Revision};

/// Labels with the name of a node's pool, the most specific first. Sources: the pages of the providers on node labels, and
/// kubernetes-sigs/karpenter pkg/apis/v1/labels.go.
pub const POOL_LABELS: [&str; 6] = [
    "kubernetes.azure.com/agentpool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "karpenter.sh/nodepool",
    // The label of AKS before 2023, and of aks-engine.
    "agentpool",
];

/// Labels that only nodes of one provider have: the beginning of the key, the value if only the value is specific, the
/// provider.
const PROVIDER_LABELS: [(&str, Option<&str>, &str); 10] = [
    ("kubernetes.azure.com/agentpool", None, "AKS"),
    ("kubernetes.azure.com/os-sku", None, "AKS"),
    ("kubernetes.azure.com/node-image-version", None, "AKS"),
    ("eks.amazonaws.com/", None, "EKS"),
    ("alpha.eksctl.io/", None, "EKS"),
    ("karpenter.k8s.aws/", None, "EKS"),
    ("cloud.google.com/gke-", None, "GKE"),
    ("node.openshift.io/os_id", None, "OpenShift"),
    ("node.kubernetes.io/instance-type", Some("rke2"), "RKE2"),
    ("cattle.io/os", None, "Rancher"),
];

/// The maximum number of declared features of a pool that a report lists. Kubelets of Kubernetes 1.38 declare up to eleven.
const MAX_FEATURES: usize = 64;

/// Nodes in pools.
#[derive(Debug, Default)]
pub struct Fleet<'a> {
    /// All nodes except those of virtual kubelets.
    pub nodes: Vec<FleetNode<'a>>,
    by_name: HashMap<&'a str, usize>,
    /// Nodes of one name, operating system and build are a pool.
    pub pools: Vec<FleetPool>,
    /// Whether the nodes were read.
    pub known: bool,
}

/// A node.
#[derive(Debug)]
pub struct FleetNode<'a> {
    /// What the engine reads of it.
    pub node: &'a Node,
    /// What only reports read of it.
    pub record: Option<&'a NodeRecord>,
    /// What the scheduler reads in its declared features; `None` if that is not known.
    pub(crate) features: Option<NodeFeatures>,
    /// Index into the pools.
    pub pool: usize,
}

/// Nodes of one pool, operating system and build.
#[derive(Debug, Default)]
pub struct FleetPool {
    /// The name of the node pool or group, from its label; else one from the operating system and build.
    pub name: String,
    /// The provider whose label names the pool, as in the tables of facts.
    pub provider: Option<&'static str>,
    /// `None` if a label does not say it.
    pub os: Option<Os>,
    /// The Windows build.
    pub build: Option<Build>,
    /// Windows Server, or another system that its nodes report.
    pub product: NodeProduct,
    /// Indexes into the nodes.
    pub nodes: Vec<usize>,
}

/// Numbers of pods on the nodes of one pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolPods {
    /// Pods of Windows workloads.
    pub(crate) windows: usize,
    pub(crate) others: usize,
    /// Pods of both that the nodes cannot run.
    pub(crate) misplaced: usize,
}

impl<'a> Fleet<'a> {
    /// Groups the nodes of an inventory.
    pub fn new(inventory: &'a Inventory) -> Self {
        let Some(nodes) = &inventory.snapshot.nodes else { return Self::default() };
        let mut fleet = Self { known: true, ..Self::default() };
        let mut pools: BTreeMap<(String, Option<Os>, Option<Build>, NodeProduct), FleetPool> = BTreeMap::new();
        let mut sorted: Vec<&Node> = nodes.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        sorted.dedup_by(|a, b| a.name == b.name);
        let mut keys = Vec::new();
        for node in sorted {
            let record = inventory.nodes.get(node.name.as_str());
            let product = product_of(node, record);
            let name = pool_name(node, product);
            let key = (name.clone(), node.os, node.build, product);
            let pool = pools.entry(key.clone()).or_default();
            if pool.nodes.is_empty() {
                (pool.name, pool.os, pool.build, pool.product) = (name, node.os, node.build, product);
                pool.provider = provider_of(node);
            }
            let at = fleet.nodes.len();
            pool.nodes.push(at);
            fleet.by_name.insert(&node.name, at);
            fleet.nodes.push(FleetNode { node, record, features: nodes.features_of(node), pool: 0 });
            keys.push(key);
        }
        let index: BTreeMap<_, _> = pools.keys().cloned().enumerate().map(|(at, key)| (key, at)).collect();
        for (node, key) in fleet.nodes.iter_mut().zip(&keys) {
            node.pool = index.get(key).copied().unwrap_or_default();
        }
        fleet.pools = pools.into_values().collect();
        fleet
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&FleetNode<'a>> {
        self.by_name.get(name).and_then(|at| self.nodes.get(*at))
    }

    /// The nodes of a pool.
    pub fn nodes_of<'f>(&'f self, pool: &'f FleetPool) -> impl Iterator<Item = &'f FleetNode<'a>> {
        pool.nodes.iter().filter_map(|at| self.nodes.get(*at))
    }

    /// The pools of Windows nodes.
    pub fn windows_pools(&self) -> impl Iterator<Item = &FleetPool> {
        self.pools.iter().filter(|pool| pool.os == Some(Os::Windows))
    }

    /// The name of the first node of a pool, which stands for it in a finding.
    pub(crate) fn first_node_of<'f>(&'f self, pool: &'f FleetPool) -> Option<&'f str> {
        self.nodes_of(pool).next().map(|node| node.node.name.as_str())
    }

    /// Whether the node of that name has Windows.
    pub(crate) fn is_windows(&self, node: &str) -> bool {
        self.node(node).is_some_and(|node| node.node.os == Some(Os::Windows))
    }

    /// Whether the pool of every Windows node is known. Without its build a node can be in another pool of the same name, or in
    /// one that is named after its system.
    pub(crate) fn knows_windows_pools(&self) -> bool {
        self.windows_pools().all(|pool| pool.build.is_some())
    }

    /// Whether there are nodes of that operating system.
    pub(crate) fn has(&self, os: Os) -> bool {
        self.pools.iter().any(|pool| pool.os == Some(os))
    }

    /// The pools as the report has them, without their dates. `pods`: for each pool; `None` if pods were not read.
    pub fn report(&self, pods: Option<&[PoolPods]>) -> Vec<NodePool> {
        let of = |at: usize| pods.and_then(|pods| pods.get(at)).copied();
        self.pools.iter().enumerate().map(|(at, pool)| self.report_pool(pool, of(at))).collect()
    }

    fn report_pool(&self, pool: &FleetPool, pods: Option<PoolPods>) -> NodePool {
        let mut revisions: BTreeMap<u32, usize> = BTreeMap::new();
        let (mut kubelets, mut runtimes, mut taints) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut features: Option<BTreeMap<String, usize>> = None;
        let (mut ready, mut cordoned) = (0, 0);
        for FleetNode { node, record, .. } in self.nodes_of(pool) {
            if let (Some(revision), Some(Os::Windows)) = (record.and_then(|record| record.revision), node.os) {
                *revisions.entry(revision).or_default() += 1;
            }
            if let Some(record) = record.filter(|record| !record.kubelet.is_empty()) {
                *kubelets.entry(record.kubelet.to_string()).or_insert(0) += 1;
            }
            if !node.container_runtime.is_empty() {
                *runtimes.entry(node.container_runtime.to_string()).or_insert(0) += 1;
            }
            // Taints of a node's state are temporary.
            for taint in node.known_taints().iter().filter(|taint| !taint.describes_state()) {
                *taints.entry(taint.to_string()).or_insert(0) += 1;
            }
            if let Some(declared) = record.and_then(|record| record.declared_features.as_ref()) {
                let features = features.get_or_insert_default();
                declared.iter().for_each(|feature| *features.entry(feature.to_string()).or_default() += 1);
            }
            ready += usize::from(record.is_some_and(|record| record.ready));
            cordoned += usize::from(node.unschedulable);
        }
        NodePool {
            name: pool.name.clone(),
            provider: pool.provider.map(str::to_owned),
            os: pool.os.map_or("unknown", Os::name).to_owned(),
            release: pool.release(),
            build: pool.build.map(|build| build.to_string()),
            revisions: revisions.into_iter().rev().map(|(revision, nodes)| Revision { revision, nodes }).collect(),
            kubelets: kubelets.into_keys().collect(),
            runtimes: runtimes.into_keys().collect(),
            taints: taints.into_iter().map(|(taint, nodes)| PoolTaint { taint, nodes }).collect(),
            declared_features: features.map(|features| {
                let features = features.into_iter().map(|(feature, nodes)| PoolFeature { feature, nodes });
                features.take(MAX_FEATURES).collect()
            }),
            nodes: pool.nodes.len(),
            ready,
            cordoned,
            windows_pods: pods.map(|pods| pods.windows),
            other_pods: pods.map(|pods| pods.others),
            misplaced_pods: pods.map(|pods| pods.misplaced),
            ends: Vec::new(),
        }
    }
}

impl FleetPool {
    /// The name of its Windows release: `ltsc2022`, or `Windows 11 24H2` for a client.
    pub(crate) fn release(&self) -> Option<String> {
        self.build.map(|build| release_of(build, self.product))
    }
}

fn release_of(build: Build, product: NodeProduct) -> String {
    product.client_name(build).unwrap_or_else(|| release_name(build, &[]).into_owned())
}

fn product_of(node: &Node, record: Option<&NodeRecord>) -> NodeProduct {
    record.filter(|_| node.os == Some(Os::Windows)).map(|record| record.product).unwrap_or_default()
}

fn pool_name(node: &Node, product: NodeProduct) -> String {
    let label = POOL_LABELS.iter().find_map(|key| node.labels.get(key)).filter(|name| !name.is_empty());
    match (label, node.os, node.build) {
        (Some(name), ..) => name.to_owned(),
        (None, _, Some(build)) => release_of(build, product),
        (None, Some(os), None) => os.name().to_owned(),
        (None, None, None) => {
            OS_LABELS.iter().find_map(|key| node.labels.get(key)).unwrap_or("without an operating system").to_owned()
        }
    }
}

fn provider_of(node: &Node) -> Option<&'static str> {
    let has = |start: &str, wanted: Option<&str>| {
        node.labels.iter().any(|(key, value)| {
            let is_key = if start.ends_with(['/', '-']) { key.starts_with(start) } else { key == start };
            is_key && wanted.is_none_or(|wanted| value == wanted)
        })
    };
    PROVIDER_LABELS.iter().find(|(start, value, _)| has(start, *value)).map(|(.., provider)| *provider)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    /// Labels of real nodes: `windows.md` §5.5.
    #[test]
    fn pools_of_providers() {
        type Case<'c> = (&'c [(&'c str, &'c str)], &'c str, Option<&'c str>);
        let cases: [Case<'_>; 10] = [
            (&[("kubernetes.azure.com/agentpool", "win22"), ("agentpool", "win22")], "win22", Some("AKS")),
            (&[("agentpool", "old"), ("kubernetes.azure.com/os-sku", "Windows2019")], "old", Some("AKS")),
            (&[("eks.amazonaws.com/nodegroup", "ng-1")], "ng-1", Some("EKS")),
            (&[("alpha.eksctl.io/nodegroup-name", "ng-2"), ("alpha.eksctl.io/cluster-name", "c")], "ng-2", Some("EKS")),
            (&[("karpenter.sh/nodepool", "spot"), ("karpenter.k8s.aws/instance-family", "m5")], "spot", Some("EKS")),
            (&[("karpenter.sh/nodepool", "spot")], "spot", None),
            (&[("cloud.google.com/gke-nodepool", "pool-1")], "pool-1", Some("GKE")),
            (&[("node.openshift.io/os_id", "Windows")], "windows", Some("OpenShift")),
            (&[("node.kubernetes.io/instance-type", "rke2"), ("cattle.io/os", "windows")], "windows", Some("RKE2")),
            (&[("cattle.io/os", "windows")], "windows", Some("Rancher")),
        ];
        for (labels, name, provider) in cases {
            let pairs = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let node = Node { os: Some(Os::Windows), labels: pairs.collect(), ..Node::default() };
            assert_eq!(
                (pool_name(&node, NodeProduct::Server).as_str(), provider_of(&node)),
                (name, provider),
                "{labels:?}"
            );
        }
        let node = Node { os: Some(Os::Windows), build: Some(Build::new(26100)), ..Node::default() };
        assert_eq!(pool_name(&node, NodeProduct::Server), "ltsc2025");
        assert_eq!(pool_name(&node, NodeProduct::Client), "Windows 11 24H2");
        assert_eq!(pool_name(&Node { os: Some(Os::Linux), ..Node::default() }, NodeProduct::Server), "linux");
        assert_eq!(pool_name(&Node::default(), NodeProduct::Server), "without an operating system");
    }
}
