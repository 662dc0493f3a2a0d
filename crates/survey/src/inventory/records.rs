//! The compact records of an inventory. Texts that many objects have are shared.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::cluster::{ClusterSnapshot, RuntimeClass};
use mullion_engine::model::scheduling::SchedulingConstraints;

use crate::report::Unread;

/// What a survey keeps of a cluster. [`InventoryReader`](crate::inventory::InventoryReader) builds it.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Nodes, RuntimeClasses and namespaces, as the engine reads them.
    pub(crate) snapshot: ClusterSnapshot,
    /// By name: what the engine does not read of a node.
    pub(crate) nodes: HashMap<Box<str>, NodeRecord>,
    pub(crate) pods: Vec<PodRecord>,
    pub(crate) workloads: Vec<WorkloadRecord>,
    /// The labels that templates select, by selector or affinity.
    pub(crate) selected: BTreeSet<String>,
    /// One pod of each owner, and every pod without one, as text: index into `pods`.
    pub(crate) samples: HashMap<usize, Box<str>>,
    /// Events about pods and about objects that create pods.
    pub(crate) events: HashMap<ObjectKey, Vec<EventRecord>>,
    /// Numbers of objects by kind, of those in [`KINDS`](crate::inventory::KINDS).
    pub(crate) counts: BTreeMap<&'static str, usize>,
    /// The number of objects of other kinds, and of things that are no objects.
    pub(crate) others: usize,
    /// The number of objects that occur again.
    pub(crate) repeated: usize,
    /// What could not be read.
    pub(crate) unread: Vec<Unread>,
    /// Newest time of each input, in its order; inputs without a time left out.
    pub(crate) times: Vec<(String, Box<str>)>,
    /// The version of the API server.
    pub(crate) kubernetes: Option<String>,
}

impl Inventory {
    /// When the objects were read: the newest time in any input, as RFC 3339.
    pub fn taken_at(&self) -> Option<&str> {
        self.times.iter().map(|(_, time)| &**time).max()
    }

    /// The RuntimeClass of that name, if it was read.
    pub(crate) fn runtime_class(&self, name: Option<&str>) -> Option<&RuntimeClass> {
        self.snapshot.runtime_class(name?)
    }

    /// The number of objects that were read.
    pub fn len(&self) -> usize {
        self.counts.values().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Namespace, kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// What the engine does not read of a node.
#[derive(Debug, Clone)]
pub(crate) struct NodeRecord {
    /// The fourth number of the kernel version.
    pub(crate) revision: Option<u32>,
    pub(crate) kubelet: Arc<str>,
    pub(crate) ready: bool,
}

/// The controller of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct OwnerKey {
    pub(crate) kind: Arc<str>,
    pub(crate) name: Arc<str>,
    /// The Deployment of a ReplicaSet, from the label `pod-template-hash`, which only Deployments write.
    pub(crate) deployment: Option<Arc<str>>,
}

/// A pod.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct PodRecord {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) owner: Option<Arc<OwnerKey>>,
    /// The node it is bound to.
    pub(crate) node: Option<Arc<str>>,
    /// The node that its affinity names: a pod of a DaemonSet.
    pub(crate) target: Option<Arc<str>>,
    pub(crate) shape: Arc<PodShape>,
    /// Condition `Ready`.
    pub(crate) ready: bool,
    /// Phase `Succeeded` or `Failed`.
    pub(crate) ended: bool,
    /// Whether the scheduler found no node for it.
    pub(crate) unschedulable: bool,
    /// Whether one of its containers ran at any time.
    pub(crate) started: bool,
    /// Indexes into the containers of the shape: those that are ready, or that ended with exit code 0.
    pub(crate) running: Box<[u16]>,
    /// What its status reports.
    pub(crate) problems: Box<[StatusText]>,
}

/// A reason and a message of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusText {
    /// The field: `status.containerStatuses[0].state.waiting.message`.
    pub(crate) path: Box<str>,
    pub(crate) reason: Arc<str>,
    pub(crate) message: Box<str>,
    /// Index into the containers of the shape.
    pub(crate) container: Option<u16>,
    pub(crate) exit_code: Option<i64>,
}

/// What many pods have in common.
#[derive(Debug, Default)]
pub(crate) struct PodShape {
    pub(crate) containers: Vec<ContainerShape>,
    /// Without the name of a node.
    pub(crate) constraints: SchedulingConstraints,
    pub(crate) runtime_class: Option<String>,
    pub(crate) host_process: bool,
}

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerShape {
    pub(crate) name: Arc<str>,
    pub(crate) image: Arc<str>,
}

/// An object with a pod template, or one that owns such an object.
#[derive(Debug)]
pub(crate) struct WorkloadRecord {
    pub(crate) key: ObjectKey,
    pub(crate) kind: WorkloadKind,
    pub(crate) owner: Option<Arc<OwnerKey>>,
    /// The stripped object. Empty if nothing is judged by it: an old ReplicaSet of a Deployment.
    pub(crate) text: Box<str>,
}

/// An Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRecord {
    pub(crate) reason: Arc<str>,
    pub(crate) message: Box<str>,
    /// When it was last seen, as RFC 3339.
    pub(crate) time: Box<str>,
}
