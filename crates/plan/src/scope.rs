//! What moves where: the target, the pools that leave, and the new pool.

use std::collections::{BTreeMap, BTreeSet};

use mullion_engine::model::Os;
use mullion_engine::model::cluster::{Fact, Node, Taint};
use mullion_engine::model::names::{OS_LABEL, WINDOWS_BUILD_LABEL, WINDOWS_RELEASE_LABEL};
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::windows::{Build, provider_release, provider_release_labels, release_name};

use crate::context::PlanContext;
use crate::report::{PlanPool, PoolPart, Target, TargetPool};
use mullion_survey::analysis::{Fleet, FleetPool, HOST_NAME, POOL_LABELS};
use mullion_survey::inventory::Inventory;
use mullion_survey::report::NodePool;

/// The key of the taint that keeps the new pool closed. It is not one of Mullion's own marks, and no pattern of
/// `windowsTaints` may match it, because then Mullion would let every Windows pod in.
const MOVE_TAINT: &str = "mullion.dev/move";

/// What moves where.
pub(crate) struct MoveScope {
    pub(crate) target: Build,
    /// Name of the target: `ltsc2025`.
    pub(crate) release: String,
    pub(crate) provider: Option<String>,
    /// The taint that keeps the new pools closed.
    pub(crate) taint: Taint,
    /// Whether pods were read. Without them, it is not known what moves.
    pub(crate) pods_known: bool,
    /// Where workloads move; never empty.
    pub(crate) new_pools: Vec<NewPool>,
    /// Whether these are the pools that leave, changed in place.
    pub(crate) in_place: bool,
    /// The builds that leave, oldest first.
    pub(crate) leaving_builds: BTreeSet<Build>,
    /// The values that Windows nodes have of the labels that name a pool or a release.
    pins: PinValues,
    /// By pool of the fleet; `None` for those that are not Windows.
    parts: Vec<Option<PoolPart>>,
    /// By pool of the fleet.
    builds: Vec<Option<Build>>,
}

/// The values of labels that name a pool or a release, by label.
#[derive(Default)]
struct PinValues {
    /// Of nodes that leave.
    leaving: BTreeMap<&'static str, BTreeSet<String>>,
    /// Of the other Windows nodes.
    others: BTreeMap<&'static str, BTreeSet<String>>,
}

/// Labels and taints that all nodes of a pool have.
type CommonMarks = (BTreeMap<String, String>, Vec<Taint>);

/// A pool of nodes of the target.
pub(crate) struct NewPool {
    /// The name of an existing pool, or a proposed one.
    pub(crate) name: String,
    /// Index of the existing pool.
    pub(crate) existing: Option<usize>,
    /// The pools whose workloads it takes.
    pub(crate) replaces: Vec<usize>,
    /// A node of it while it is closed.
    pub(crate) node: Node,
    /// The values that its nodes have of the labels that workloads and RuntimeClasses select.
    values: BTreeMap<String, BTreeSet<String>>,
}

impl NewPool {
    /// The values that its nodes have of a label.
    pub(crate) fn values<'p>(&'p self, key: &str) -> impl Iterator<Item = &'p str> {
        let of_node = self.node.labels.get(key);
        let others = self.values.get(key).into_iter().flatten().map(String::as_str);
        of_node.into_iter().chain(others.filter(move |value| Some(*value) != of_node))
    }
}

/// The label that names a release or a pool, if `key` is one.
pub(crate) fn pin_label(key: &str) -> Option<&'static str> {
    let all = provider_release_labels().chain(POOL_LABELS).chain([WINDOWS_BUILD_LABEL, WINDOWS_RELEASE_LABEL]);
    all.into_iter().find(|label| *label == key)
}

/// The label of the nodes of an AKS pool of spot machines, and the key and value of their taint. AKS sets both. Source:
/// MicrosoftDocs/azure-aks-docs articles/aks/spot-node-pool.md.
pub(crate) const SPOT: (&str, &str) = ("kubernetes.azure.com/scalesetpriority", "spot");

/// Whether AKS sets this taint on pools of spot machines.
pub(crate) fn is_spot_taint(taint: &Taint) -> bool {
    (taint.key.as_str(), taint.value.as_str()) == SPOT
}

impl MoveScope {
    pub(crate) fn new(fleet: &Fleet<'_>, inventory: &Inventory, context: PlanContext<'_>) -> Self {
        let release = release_name(context.target, &context.survey.policies.nodes.releases).into_owned();
        let part = |pool: &FleetPool| {
            let build = pool.build.filter(|_| pool.os == Some(Os::Windows))?;
            Some(match context.from {
                _ if build == context.target => PoolPart::Target,
                Some(from) if from != build => PoolPart::Stays,
                None if build > context.target => PoolPart::Stays,
                _ => PoolPart::Leaves,
            })
        };
        let parts: Vec<Option<PoolPart>> = fleet.pools.iter().map(part).collect();
        let provider = match context.provider {
            Some(provider) => Some(provider).filter(|provider| !provider.is_empty()),
            None => fleet.windows_pools().find_map(|pool| pool.provider),
        };
        let taint = Taint { key: MOVE_TAINT.to_owned(), value: release.clone(), effect: "NoSchedule".to_owned() };
        let mut scope = Self {
            target: context.target,
            release,
            provider: provider.map(str::to_owned),
            taint,
            pods_known: inventory.counts.contains_key("pods"),
            new_pools: Vec::new(),
            in_place: false,
            leaving_builds: BTreeSet::new(),
            pins: PinValues::default(),
            parts,
            builds: fleet.pools.iter().map(|pool| pool.build).collect(),
        };
        scope.read_pins(fleet);
        scope.new_pools = scope.find_new_pools(fleet, inventory);
        scope
    }

    /// The same move, in which only these pools leave, and each of them is its own new pool: with its name and taints, and
    /// with nodes of the target.
    pub(crate) fn in_place(
        fleet: &Fleet<'_>,
        inventory: &Inventory,
        context: PlanContext<'_>,
        pools: &BTreeSet<usize>,
    ) -> Self {
        let mut scope = Self::new(fleet, inventory, context);
        scope.in_place = true;
        for (at, part) in scope.parts.iter_mut().enumerate() {
            if *part == Some(PoolPart::Leaves) && !pools.contains(&at) {
                *part = Some(PoolPart::Stays);
            }
        }
        scope.leaving_builds.clear();
        scope.pins = PinValues::default();
        scope.read_pins(fleet);
        let selected = &selected(inventory);
        let changed = |at: &usize| {
            let pool = fleet.pools.get(*at)?;
            let (labels, taints) = Self::common(fleet, pool, selected);
            let node = scope.proposed_node(&pool.name, labels, taints);
            let values = label_values(fleet, pool, |key| selected.contains(key) && pin_label(key).is_none());
            Some(NewPool { name: pool.name.clone(), existing: None, replaces: vec![*at], node, values })
        };
        scope.new_pools = pools.iter().filter_map(changed).collect();
        scope
    }

    fn read_pins(&mut self, fleet: &Fleet<'_>) {
        for (at, pool) in fleet.pools.iter().enumerate() {
            let Some(part) = self.part(at) else { continue };
            let leaves = part == PoolPart::Leaves;
            let values = if leaves { &mut self.pins.leaving } else { &mut self.pins.others };
            let mut add = |key: &str, value: &str| {
                if let Some(label) = pin_label(key) {
                    let known = values.entry(label).or_default();
                    if !known.contains(value) {
                        known.insert(value.to_owned());
                    }
                }
            };
            if let Some(build) = pool.build {
                add(WINDOWS_BUILD_LABEL, &build.to_string());
                if leaves {
                    self.leaving_builds.insert(build);
                }
            }
            for node in fleet.nodes_of(pool) {
                node.node.labels.iter().for_each(|(key, value)| add(key, value));
            }
        }
    }

    /// A new pool for the leaving pools that are alike to the authors of workloads.
    fn find_new_pools(&self, fleet: &Fleet<'_>, inventory: &Inventory) -> Vec<NewPool> {
        let selected = &selected(inventory);
        let mut groups: BTreeMap<CommonMarks, Vec<usize>> = BTreeMap::new();
        for (at, pool) in self.pools_of(fleet, PoolPart::Leaves) {
            groups.entry(Self::common(fleet, pool, selected)).or_default().push(at);
        }
        if groups.is_empty() {
            groups.insert((BTreeMap::new(), Vec::new()), Vec::new());
        }
        let mut existing: Vec<(usize, &FleetPool)> = self.pools_of(fleet, PoolPart::Target).collect();
        let mut new_pools = Vec::new();
        for ((labels, taints), replaces) in groups {
            let has_labels = |(_, pool): &(usize, &FleetPool)| {
                let (own, _) = Self::common(fleet, pool, selected);
                labels.iter().all(|(key, value)| own.get(key) == Some(value))
            };
            let found = existing.iter().position(has_labels).map(|at| existing.remove(at));
            let name = found.map_or_else(|| self.free_name(fleet, &new_pools), |(_, pool)| pool.name.clone());
            let node = match found.and_then(|(_, pool)| fleet.nodes_of(pool).next()) {
                Some(node) => self.closed(node.node.clone()),
                None => self.closed(self.proposed_node(&name, labels, taints)),
            };
            let values = found.map(|(_, pool)| label_values(fleet, pool, |key| selected.contains(key)));
            new_pools.push(NewPool {
                name,
                existing: found.map(|(at, _)| at),
                replaces,
                node,
                values: values.unwrap_or_default(),
            });
        }
        new_pools
    }

    /// The selected labels and the lasting taints that all nodes of a pool have, without those that name pool and release.
    fn common(fleet: &Fleet<'_>, pool: &FleetPool, selected: &BTreeSet<&str>) -> CommonMarks {
        let named = |key: &str| pin_label(key).is_some() || key == HOST_NAME;
        let mut nodes = fleet.nodes_of(pool);
        let Some(first) = nodes.next() else { return Default::default() };
        let selected = first.node.labels.iter().filter(|(key, _)| selected.contains(*key) && !named(key));
        let mut labels: BTreeMap<String, String> =
            selected.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut taints: Vec<Taint> =
            first.node.known_taints().iter().filter(|taint| !taint.describes_state()).cloned().collect();
        for node in nodes {
            labels.retain(|key, value| node.node.labels.get(key) == Some(value.as_str()));
            taints.retain(|taint| node.node.known_taints().contains(taint));
        }
        taints.sort_unstable();
        (labels, taints)
    }

    fn proposed_node(&self, name: &str, mut labels: BTreeMap<String, String>, taints: Vec<Taint>) -> Node {
        labels.insert(OS_LABEL.to_owned(), Os::Windows.name().to_owned());
        labels.insert(WINDOWS_BUILD_LABEL.to_owned(), self.target.to_string());
        let provider = self.provider.as_deref();
        let (pool, release) = match provider {
            Some("AKS") => (Some("kubernetes.azure.com/agentpool"), Some("kubernetes.azure.com/os-sku")),
            Some("EKS") => (Some("eks.amazonaws.com/nodegroup"), None),
            Some("GKE") => (Some("cloud.google.com/gke-nodepool"), Some("cloud.google.com/gke-windows-os-version")),
            _ => (None, None),
        };
        if let Some(key) = pool {
            labels.insert(key.to_owned(), name.to_owned());
        }
        if let Some((key, value)) = release.and_then(|key| Some((key, provider_release(key, self.target)?))) {
            labels.insert(key.to_owned(), value.to_owned());
        }
        if provider == Some("AKS") {
            labels.insert("agentpool".to_owned(), name.to_owned());
            if taints.iter().any(is_spot_taint) {
                labels.insert(SPOT.0.to_owned(), SPOT.1.to_owned());
            }
        }
        // The other labels of this kind that the present nodes have: of eksctl, Karpenter, Mullion.
        for key in self.pins.leaving.keys().copied() {
            let value = match key {
                WINDOWS_RELEASE_LABEL => Some(self.release.as_str()),
                _ if POOL_LABELS.contains(&key) => Some(name),
                _ => provider_release(key, self.target),
            };
            if let (Some(value), false) = (value, labels.contains_key(key)) {
                labels.insert(key.to_owned(), value.to_owned());
            }
        }
        Node {
            name: name.to_owned(),
            os: Some(Os::Windows),
            build: Some(self.target),
            labels: labels.into_iter().collect(),
            taints: Fact::Parsed(taints.into()),
            ..Node::default()
        }
    }

    fn closed(&self, mut node: Node) -> Node {
        let own = node.known_taints().iter();
        let own = own.filter(|taint| !taint.describes_state() && taint.key != self.taint.key);
        node.taints = Fact::Parsed(own.cloned().chain([self.taint.clone()]).collect());
        node.unschedulable = false;
        node
    }

    /// `win25`, or the first of `win25b`, `win25c` that is free: AKS permits six characters.
    fn free_name(&self, fleet: &Fleet<'_>, new_pools: &[NewPool]) -> String {
        let year = self.release.strip_prefix("ltsc20").unwrap_or(&self.release);
        let is_taken = |name: &str| {
            fleet.pools.iter().any(|pool| pool.name == name) || new_pools.iter().any(|pool| pool.name == name)
        };
        let names = [""].into_iter().map(str::to_owned).chain(('b'..='z').map(String::from));
        let mut names = names.map(|suffix| format!("win{year}{suffix}"));
        names.find(|name| !is_taken(name)).unwrap_or_else(|| format!("win{year}"))
    }

    /// The part of a pool; `None` for one that is not Windows.
    pub(crate) fn part(&self, pool: usize) -> Option<PoolPart> {
        self.parts.get(pool).copied().flatten()
    }

    /// The pools of a part, with their indexes.
    pub(crate) fn pools_of<'f>(
        &self,
        fleet: &'f Fleet<'_>,
        part: PoolPart,
    ) -> impl Iterator<Item = (usize, &'f FleetPool)> {
        fleet.pools.iter().enumerate().filter(move |(at, _)| self.part(*at) == Some(part))
    }

    /// The builds of those of these pools that leave, oldest first.
    pub(crate) fn leaving_builds_of(&self, pools: &BTreeSet<usize>) -> BTreeSet<Build> {
        let leaving = pools.iter().filter(|pool| self.part(**pool) == Some(PoolPart::Leaves));
        leaving.filter_map(|pool| self.builds.get(*pool).copied().flatten()).collect()
    }

    /// Whether a pool leaves.
    pub(crate) fn leaves(&self) -> bool {
        self.parts.contains(&Some(PoolPart::Leaves))
    }

    /// Whether nodes that leave have that value of a label that names a pool or a release.
    pub(crate) fn leaves_with(&self, label: &str, value: &str) -> bool {
        self.pins.leaving.get(label).is_some_and(|values| values.contains(value))
    }

    /// Where the workloads of these pools move.
    pub(crate) fn new_pool(&self, pools: impl IntoIterator<Item = usize>) -> Option<&NewPool> {
        let of = |pool: usize| self.new_pools.iter().find(|new| new.replaces.contains(&pool));
        pools.into_iter().find_map(of).or_else(|| self.new_pools.first())
    }

    /// The existing pool that is closed, of these pools.
    pub(crate) fn closed_pool(&self, pools: &BTreeSet<usize>) -> Option<&NewPool> {
        let is_one = |new: &&NewPool| new.existing.is_some_and(|at| pools.contains(&at));
        self.new_pools.iter().find(is_one).filter(|_| self.leaves())
    }

    /// Whether the taint that keeps the new pool closed does not keep these pods off.
    pub(crate) fn is_tolerated_by(&self, constraints: &SchedulingConstraints) -> bool {
        constraints.tolerates(&self.taint)
    }

    pub(crate) fn report_target(&self, context: PlanContext<'_>, fleet: &Fleet<'_>) -> Target {
        Target {
            release: self.release.clone(),
            build: self.target.to_string(),
            from: self.leaving_builds.iter().map(|build| release_name(*build, &[]).into_owned()).collect(),
            provider: self.provider.clone(),
            kubernetes: context.kubernetes.map(str::to_owned),
            pools: self.new_pools.iter().filter(|_| self.leaves()).map(|pool| pool.report(fleet)).collect(),
            taint: self.taint.to_string(),
        }
    }

    /// The Windows pools. `workloads`: how many have pods in a pool.
    pub(crate) fn report_pools(&self, fleet: &Fleet<'_>, workloads: impl Fn(usize) -> usize) -> Vec<PlanPool> {
        let pools = fleet.report(None).into_iter().enumerate();
        let pool = |(at, pool): (usize, NodePool)| {
            Some(PlanPool {
                part: self.part(at)?,
                workloads: self.pods_known.then(|| workloads(at)),
                name: pool.name,
                release: pool.release?,
                build: pool.build?,
                kubelets: pool.kubelets,
                runtimes: pool.runtimes,
                nodes: pool.nodes,
            })
        };
        pools.filter_map(pool).collect()
    }
}

impl NewPool {
    fn report(&self, fleet: &Fleet<'_>) -> TargetPool {
        let name = |at: &usize| fleet.pools.get(*at).map(|pool| pool.name.clone());
        TargetPool {
            name: self.name.clone(),
            exists: self.existing.is_some(),
            replaces: self.replaces.iter().filter_map(name).collect(),
            labels: self.node.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            taints: self.node.known_taints().iter().map(ToString::to_string).collect(),
        }
    }
}

/// The values that the nodes of a pool have of some labels.
fn label_values(
    fleet: &Fleet<'_>,
    pool: &FleetPool,
    is_one: impl Fn(&str) -> bool,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in fleet.nodes_of(pool) {
        for (key, value) in node.node.labels.iter().filter(|(key, _)| is_one(key)) {
            values.entry(key.to_owned()).or_default().insert(value.to_owned());
        }
    }
    values
}

/// The labels that workloads or RuntimeClasses select.
fn selected(inventory: &Inventory) -> BTreeSet<&str> {
    let classes = inventory.snapshot.runtime_classes.iter().flat_map(BTreeMap::values);
    let of_classes = classes.flat_map(|class| class.node_selector.keys());
    inventory.selected.iter().chain(of_classes).map(String::as_str).collect()
}
