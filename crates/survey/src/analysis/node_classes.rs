//! Nodes that are equal for the scheduler, and what keeps a pod off all of them.
//!
//! Since Kubernetes 1.34 the messages of the scheduler no longer contain the taint, so taints, selectors and affinity
//! are computed here. The nodes of a pool are alike, so a pod is compared with one of each kind instead of with 20,000.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mullion_engine::model::Os;
use mullion_engine::model::cluster::{Node, RuntimeClass, Taint};
use mullion_engine::model::declared_features::{DeclaredFeature, NodeFeatures};
use mullion_engine::model::scheduling::SchedulingConstraints;

use crate::analysis::fleet::{Fleet, FleetNode};
use crate::inventory::{Inventory, selected_labels};

/// The label that differs on every node. A pod that requires it is compared with all nodes.
pub const HOST_NAME: &str = "kubernetes.io/hostname";

/// The maximum number of comparisons with single nodes in one survey.
const MAX_SINGLE: usize = 20_000_000;

/// One node of each kind.
#[derive(Debug, Default)]
pub struct NodeClasses<'a> {
    classes: Vec<NodeClass<'a>>,
    /// Every node.
    single: Vec<NodeClass<'a>>,
    /// Indexes into `single`, by the label with the host name.
    by_host: HashMap<&'a str, usize>,
    left: Cell<usize>,
}

/// Nodes that are alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeClass<'a> {
    pub(crate) node: &'a Node,
    features: Option<NodeFeatures>,
    pub(crate) pool: usize,
    pub(crate) count: usize,
}

/// What keeps a pod off every node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// No node has these labels; each with the values that nodes have instead.
    Selector(Vec<(String, Vec<String>)>),
    /// No node satisfies selector and affinity together; the labels that they refer to.
    Labels(Vec<String>),
    /// The nodes that fit do not declare these features; the number of nodes.
    Features(Vec<&'static DeclaredFeature>, usize),
    /// It is not known whether the nodes that fit declare the features that the pod needs; their number.
    UnknownFeatures(usize),
    /// Taints of the nodes that fit, with the number of nodes.
    Taints(Vec<(Taint, usize)>),
    /// The nodes that fit are cordoned or not ready; their number.
    Unavailable(usize),
    /// No computed obstacle; the number of nodes that fit.
    Room(usize),
}

impl<'a> NodeClasses<'a> {
    /// The classes, by the labels that pods, templates and RuntimeClasses of the cluster select.
    pub fn new(fleet: &Fleet<'a>, inventory: &Inventory) -> Self {
        let of_classes =
            inventory.snapshot.runtime_classes.iter().flatten().flat_map(|(_, class)| class.node_selector.keys());
        let selected = inventory.selected.iter().chain(of_classes).map(String::as_str);
        // A label that no node has does not distinguish nodes, and authors may select any number of these.
        let present: HashSet<&str> =
            fleet.nodes.iter().flat_map(|one| one.node.labels.iter().map(|(key, _)| key)).collect();
        let keys: BTreeSet<&str> = selected.filter(|key| *key != HOST_NAME && present.contains(key)).collect();
        let mut classes: HashMap<_, NodeClass<'a>> = HashMap::new();
        let mut single = Vec::new();
        for one in &fleet.nodes {
            let values: Vec<Option<&str>> = keys.iter().map(|key| one.node.labels.get(key)).collect();
            let class = NodeClass::of(one);
            let key = (one.pool, &one.node.taints, one.node.unschedulable, one.features, values);
            classes.entry(key).and_modify(|known| known.count += 1).or_insert(class);
            single.push(class);
        }
        let mut classes: Vec<NodeClass<'a>> = classes.into_values().collect();
        classes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
        let host = |(at, class): (usize, &NodeClass<'a>)| Some((class.node.labels.get(HOST_NAME)?, at));
        let by_host = single.iter().enumerate().filter_map(host).collect();
        Self { classes, single, by_host, left: MAX_SINGLE.into() }
    }

    /// The classes that decide for these constraints; `None` if too many pods require host names by affinity.
    fn of(&self, constraints: &SchedulingConstraints) -> Option<&[NodeClass<'a>]> {
        if let Some(host) = constraints.node_selector.as_ref().and_then(|selector| selector.get(HOST_NAME)) {
            let at = self.by_host.get(host.as_str());
            return Some(at.and_then(|at| self.single.get(*at..=*at)).unwrap_or_default());
        }
        if !selected_labels(constraints).any(|key| key == HOST_NAME) {
            return Some(&self.classes);
        }
        let left = self.left.get().checked_sub(self.single.len())?;
        self.left.set(left);
        Some(&self.single)
    }

    /// Nodes of that operating system on which the scheduler may put a pod at some time, because cordons and taints of
    /// a node's state are temporary.
    pub(crate) fn admitting(&self, constraints: &SchedulingConstraints, os: Os) -> Option<&NodeClass<'a>> {
        self.of(constraints)?.iter().find(|class| {
            class.node.os == Some(os)
                && fits(constraints, class.node)
                && blocking(constraints, class.node).all(Taint::describes_state)
        })
    }

    /// Whether a node of one of these pools satisfies selector and affinity; `None` if that takes too long to compute.
    pub fn fit(&self, constraints: &SchedulingConstraints, pools: impl Fn(usize) -> bool) -> Option<bool> {
        Some(self.of(constraints)?.iter().any(|class| pools(class.pool) && fits(constraints, class.node)))
    }

    /// The pools with a node that satisfies selector and affinity, and whose lasting taints the pod tolerates; if the pod
    /// tolerates none of them, those with a node that satisfies selector and affinity. Empty also if that takes too long to
    /// compute.
    pub fn homes(&self, constraints: &SchedulingConstraints, pools: impl Fn(usize) -> bool) -> BTreeSet<usize> {
        let all = self.of(constraints).unwrap_or_default();
        let fitting: Vec<&NodeClass<'_>> =
            all.iter().filter(|class| pools(class.pool) && fits(constraints, class.node)).collect();
        let enters = |class: &&&NodeClass<'_>| blocking(constraints, class.node).all(Taint::describes_state);
        let entered: BTreeSet<usize> = fitting.iter().filter(enters).map(|class| class.pool).collect();
        if entered.is_empty() { fitting.iter().map(|class| class.pool).collect() } else { entered }
    }

    /// What keeps a pod off every node; `None` if that takes too long. `needed`: the features that the scheduler requires.
    /// `target`: the one node for a pod of a DaemonSet.
    pub(crate) fn obstacle(
        &self,
        constraints: &SchedulingConstraints,
        needed: &[&'static DeclaredFeature],
        target: Option<&FleetNode<'_>>,
    ) -> Option<Obstacle> {
        let only = target.map(|node| [NodeClass::of(node)]);
        let classes = match &only {
            Some(only) => &only[..],
            None => self.of(constraints)?,
        };
        let mut fitting: Vec<&NodeClass<'_>> = classes.iter().filter(|class| fits(constraints, class.node)).collect();
        if fitting.is_empty() {
            return Some(unmatched(constraints, classes));
        }
        let nodes = fitting.iter().map(|class| class.count).sum();
        let lacks = |class: &NodeClass<'_>, feature| class.features.is_some_and(|features| !features.has(feature));
        let is_lacked = |feature: &&'static DeclaredFeature| fitting.iter().any(|class| lacks(class, feature));
        let lacked: Vec<_> = needed.iter().copied().filter(is_lacked).collect();
        fitting.retain(|class| !lacked.iter().any(|feature| lacks(class, feature)));
        if fitting.is_empty() {
            return Some(Obstacle::Features(lacked, nodes));
        }
        let is_unknown = |class: &&NodeClass<'_>| !needed.is_empty() && class.features.is_none();
        let unknown: usize = fitting.iter().copied().filter(is_unknown).map(|class| class.count).sum();
        fitting.retain(|class| !is_unknown(class));
        let mut taints: BTreeMap<Taint, usize> = BTreeMap::new();
        let (mut unavailable, mut free) = (0, 0);
        for class in fitting {
            let mut lasting = blocking(constraints, class.node).filter(|taint| !taint.describes_state()).peekable();
            if lasting.peek().is_some() {
                for taint in lasting {
                    *taints.entry(taint.clone()).or_default() += class.count;
                }
            } else if class.node.unschedulable || blocking(constraints, class.node).next().is_some() {
                unavailable += class.count;
            } else {
                free += class.count;
            }
        }
        Some(if free > 0 {
            Obstacle::Room(free)
        } else if unknown > 0 {
            Obstacle::UnknownFeatures(unknown)
        } else if unavailable > 0 {
            Obstacle::Unavailable(unavailable)
        } else {
            Obstacle::Taints(taints.into_iter().collect())
        })
    }
}

impl<'a> NodeClass<'a> {
    fn of(node: &FleetNode<'a>) -> Self {
        Self { node: node.node, features: node.features, pool: node.pool, count: 1 }
    }
}

/// Whether selector and affinity match the node.
pub(crate) fn fits(constraints: &SchedulingConstraints, node: &Node) -> bool {
    constraints.fits(&node.name, |key| node.labels.get(key))
}

/// The taints of a node that keep the pod off. Taints that are too large to use are no known obstacle.
pub(crate) fn blocking<'n>(constraints: &SchedulingConstraints, node: &'n Node) -> impl Iterator<Item = &'n Taint> {
    node.known_taints().iter().filter(|taint| taint.effect != "PreferNoSchedule" && !constraints.tolerates(taint))
}

/// The constraints with what the RuntimeClass of the pod adds. A class that contradicts the pod adds nothing, because
/// the API server rejects such a pod.
pub(crate) fn with_class(constraints: &SchedulingConstraints, class: Option<&RuntimeClass>) -> SchedulingConstraints {
    let mut all = constraints.clone();
    if class.is_some_and(|class| !all.takes_over(class)) {
        return constraints.clone();
    }
    all
}

/// The maximum number of values of a label that are listed.
const MAX_VALUES: usize = 5;

fn unmatched(constraints: &SchedulingConstraints, classes: &[NodeClass<'_>]) -> Obstacle {
    let mut missing = Vec::new();
    for (key, wanted) in constraints.node_selector.iter().flatten() {
        let values: BTreeSet<&str> = classes.iter().filter_map(|class| class.node.labels.get(key)).collect();
        if !values.contains(wanted.as_str()) {
            let have = values.into_iter().take(MAX_VALUES).map(str::to_owned).collect();
            missing.push((format!("{key}={wanted}"), have));
        }
    }
    if missing.is_empty() {
        let keys: BTreeSet<&str> = selected_labels(constraints).collect();
        return Obstacle::Labels(keys.into_iter().map(str::to_owned).collect());
    }
    Obstacle::Selector(missing)
}
