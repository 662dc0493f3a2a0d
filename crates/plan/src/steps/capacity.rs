//! What pods need of the new pools, in nodes of the size of those in the old ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::edits;
use crate::needs::ClusterNeed;
use crate::report::Capacity;
use crate::steps::step_input::StepInput;
use crate::workload_move::WorkloadMove;
use mullion_survey::inventory::NodeSize;

/// Parts of a node that are added up.
const PARTS: u128 = 1_000_000_000;

/// What a node of each new pool has for pods.
pub(crate) struct NodeRooms<'m> {
    /// By new pool: the smallest node of the pools that it replaces, without what DaemonSets request. `None`: no size was
    /// read.
    rooms: Vec<Option<NodeSize>>,
    /// By pool of the fleet: the new pool to which its workloads move.
    new_pools: Vec<Option<usize>>,
    /// The new pools, keys and values of labels whose nodes take no other pods.
    own_nodes: BTreeSet<(usize, &'m str, &'m str)>,
}

/// Nodes that share no pods with others: a new pool, or those of its nodes that have these labels, with a taint that keeps
/// other pods off.
type NodeGroup<'w> = (usize, BTreeSet<(&'w str, &'w str)>);

impl<'m> NodeRooms<'m> {
    pub(crate) fn new(moves: &'m [WorkloadMove], input: StepInput<'_>) -> Self {
        let mut new_pools = vec![None; input.fleet.pools.len()];
        for (at, new) in input.scope.new_pools.iter().enumerate() {
            for pool in &new.replaces {
                if let Some(place) = new_pools.get_mut(*pool) {
                    *place = Some(at);
                }
            }
        }
        let size = |replaces: &[usize]| {
            let pools = replaces.iter().filter_map(|pool| input.fleet.pools.get(*pool));
            let nodes = pools.flat_map(|pool| input.fleet.nodes_of(pool));
            nodes.filter_map(|node| node.record?.allocatable).reduce(|a, b| NodeSize {
                cpu_millis: a.cpu_millis.min(b.cpu_millis),
                memory_bytes: a.memory_bytes.min(b.memory_bytes),
                pods: a.pods.min(b.pods),
            })
        };
        let mut rooms: Vec<_> = input.scope.new_pools.iter().map(|new| size(&new.replaces)).collect();
        for one in moves.iter().filter(|one| one.is_daemon_set() && !one.stays_behind) {
            let targets: BTreeSet<usize> =
                one.homes.iter().filter_map(|pool| new_pools.get(*pool).copied().flatten()).collect();
            for at in targets {
                let Some(Some(room)) = rooms.get_mut(at) else { continue };
                room.cpu_millis = room.cpu_millis.saturating_sub(one.demand.cpu_millis);
                room.memory_bytes = room.memory_bytes.saturating_sub(one.demand.memory_bytes);
                room.pods = room.pods.saturating_sub(1);
            }
        }
        let mut found = Self { rooms, new_pools, own_nodes: BTreeSet::new() };
        let labels = moves.iter().flat_map(|one| labels(one).map(|(key, value)| (found.target(one), key, value)));
        // Many workloads need the same label, and the nodes are searched for each label.
        let labels: BTreeSet<_> = labels.collect();
        let keeps_others_off = |&(at, key, value): &(usize, &str, &str)| {
            let new = input.scope.new_pools.get(at);
            new.is_some_and(|new| edits::keeps_others_off(input.fleet, new, (key, value)))
        };
        found.own_nodes = labels.into_iter().filter(keeps_others_off).collect();
        found
    }

    /// The new pool to which a workload moves.
    fn target(&self, one: &WorkloadMove) -> usize {
        one.homes.iter().find_map(|pool| self.new_pools.get(*pool).copied().flatten()).unwrap_or_default()
    }

    /// The nodes to which a workload moves.
    fn group<'w>(&self, one: &'w WorkloadMove) -> NodeGroup<'w> {
        let at = self.target(one);
        (at, labels(one).filter(|(key, value)| self.own_nodes.contains(&(at, *key, *value))).collect())
    }

    /// How many pods of a workload a node takes. `None`: the size is not known.
    fn pods_per_node(&self, one: &WorkloadMove) -> Option<u64> {
        let room = (*self.rooms.get(self.target(one))?)?;
        let by = |all: u64, each: u64| all.checked_div(each).unwrap_or(u64::MAX);
        let by_requests =
            by(room.cpu_millis, one.demand.cpu_millis).min(by(room.memory_bytes, one.demand.memory_bytes));
        Some(by_requests.min(room.pods))
    }

    /// Whether no node of the old size takes a pod of this workload.
    pub(crate) fn is_too_large(&self, one: &WorkloadMove) -> bool {
        self.pods_per_node(one) == Some(0)
    }

    /// What these workloads need. DaemonSets do not count: their part of each node is subtracted from its room.
    pub(crate) fn capacity<'w>(&self, moves: impl Iterator<Item = &'w WorkloadMove>) -> Option<Capacity> {
        let mut all = Capacity { pods: 0, cpu_millis: 0, memory_bytes: 0, without_requests: 0, nodes: Some(0) };
        let mut parts: BTreeMap<NodeGroup<'w>, u128> = BTreeMap::new();
        for one in moves.filter(|one| !one.is_daemon_set() && one.demand.pods > 0) {
            let demand = &one.demand;
            let pods = u64::try_from(demand.pods).unwrap_or(u64::MAX);
            all.pods = all.pods.saturating_add(demand.pods);
            all.cpu_millis = all.cpu_millis.saturating_add(demand.cpu_millis.saturating_mul(pods));
            all.memory_bytes = all.memory_bytes.saturating_add(demand.memory_bytes.saturating_mul(pods));
            if demand.without_requests {
                all.without_requests = all.without_requests.saturating_add(demand.pods);
            }
            let Some(per_node) = self.pods_per_node(one) else {
                all.nodes = None;
                continue;
            };
            let nodes = (u128::from(pods) * PARTS).checked_div(u128::from(per_node));
            let part = parts.entry(self.group(one)).or_default();
            *part = part.saturating_add(nodes.unwrap_or(u128::from(pods) * PARTS));
        }
        let nodes = parts.into_values().map(|part| part.div_ceil(PARTS)).fold(0, u128::saturating_add);
        all.nodes = all.nodes.map(|_| usize::try_from(nodes).unwrap_or(usize::MAX));
        (all.pods > 0).then_some(all)
    }

    /// How many nodes a new pool needs for all these workloads.
    pub(crate) fn nodes_of(&self, new_pool: usize, moves: &[WorkloadMove]) -> Option<usize> {
        let of_pool = moves.iter().filter(|one| one.moves && self.target(one) == new_pool);
        self.capacity(of_pool)?.nodes.map(|nodes| nodes.max(1))
    }
}

/// The labels of nodes that a workload needs.
fn labels(one: &WorkloadMove) -> impl Iterator<Item = (&str, &str)> {
    one.needs.iter().filter_map(|need| match need {
        ClusterNeed::Label { key, value, .. } => Some((key.as_str(), value.as_str())),
        ClusterNeed::RuntimeClass { .. } => None,
    })
}
