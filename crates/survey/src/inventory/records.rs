//! The compact records of an inventory. Texts that many objects have are shared.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::cluster::{ClusterSnapshot, RuntimeClass};
use mullion_engine::model::declared_features::DeclaredFeature;
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::windows::Build;
use mullion_policy::matching::LabelSelector;
use mullion_snapshot::ImagePlatforms;

use crate::inventory::node_pools::NodePoolRecord;
use crate::inventory::storage::StorageRecords;
use crate::node_product::NodeProduct;
use crate::report::Unread;

/// The data that a survey stores about a cluster. [`InventoryReader`](crate::inventory::InventoryReader) builds it.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Nodes, RuntimeClasses and namespaces, as the engine reads them.
    pub snapshot: ClusterSnapshot,
    /// Names of the nodes of virtual kubelets, which are in no pool.
    pub(crate) virtual_nodes: BTreeSet<Box<str>>,
    /// The members of nodes that the engine does not read, by name.
    pub nodes: HashMap<Box<str>, NodeRecord>,
    /// All pods.
    pub pods: Vec<PodRecord>,
    pub(crate) workloads: Vec<WorkloadRecord>,
    /// The stripped Jobs of other objects that have not ended. Nothing else reads them: their owner is reviewed.
    pub(crate) owned_jobs: HashMap<ObjectKey, Box<str>>,
    /// The labels that templates select, by selector or affinity.
    pub selected: BTreeSet<String>,
    /// One pod of each owner, and every pod without one, as text, by index into `pods`.
    pub samples: HashMap<usize, Box<str>>,
    /// Events about pods and about objects that create pods.
    pub(crate) events: HashMap<ObjectKey, Vec<EventRecord>>,
    /// PodDisruptionBudgets, by namespace.
    pub budgets: HashMap<Arc<str>, Vec<BudgetRecord>>,
    /// The maximum number of pods to which a HorizontalPodAutoscaler scales an object.
    pub scaled_to: HashMap<ObjectKey, u64>,
    /// Names of CSI drivers, by node.
    pub drivers: HashMap<Box<str>, BTreeSet<Arc<str>>>,
    /// NetworkPolicies, by namespace.
    pub(crate) network_policies: HashMap<Arc<str>, Vec<NetworkPolicyRecord>>,
    /// Claims, volumes, classes and CSI drivers.
    pub(crate) storage: StorageRecords,
    /// NodePools of Karpenter.
    pub(crate) node_pools: Vec<NodePoolRecord>,
    /// The Windows builds that node classes of Karpenter name, by kind and name; `None` for another system.
    pub(crate) node_classes: BTreeMap<(Arc<str>, Arc<str>), Option<Build>>,
    /// Numbers of objects by kind, for the kinds in [`KINDS`](crate::inventory::KINDS) and
    /// [`PROVISIONER_KINDS`](crate::inventory::PROVISIONER_KINDS).
    pub counts: BTreeMap<&'static str, usize>,
    /// The number of objects of other kinds, and of values that are not objects.
    pub(crate) others: usize,
    /// How many of them have no kind, and so are no objects.
    pub(crate) without_kind: usize,
    /// The number of objects that occur again.
    pub(crate) repeated: usize,
    /// What could not be read.
    pub(crate) unread: Vec<Unread>,
    /// Newest time of each input, in its order; inputs without a time left out.
    pub(crate) times: Vec<(String, Box<str>)>,
    /// The version of the API server.
    pub kubernetes: Option<String>,
    /// What registries reported, except the platforms, which are in the snapshot.
    pub reported_images: ImagePlatforms,
}

impl Inventory {
    /// Why something of the coverage was not read; `None` if it was, or was not requested. `kind`: in the plural.
    pub fn why_unread(&self, kind: &str) -> Option<&str> {
        self.unread.iter().find(|unread| unread.kind == kind).map(|unread| unread.reason.as_str())
    }

    /// The Events about the name of a pod.
    pub(crate) fn events_of(&self, pod: &PodRecord) -> impl Iterator<Item = &EventRecord> {
        self.events.get(&pod.key()).into_iter().flatten()
    }

    /// When the objects were read: the newest time in any input, as RFC 3339.
    pub fn taken_at(&self) -> Option<&str> {
        self.times.iter().map(|(_, time)| &**time).max()
    }

    /// Adds what registries reported.
    pub fn add_images(&mut self, reported: ImagePlatforms) {
        let all = &mut self.reported_images;
        all.images = mem::take(&mut self.snapshot.images);
        all.extend(reported);
        self.snapshot.images = mem::take(&mut all.images);
    }

    /// Whether a registry need not be queried about an image: its platforms are known, and the bytes that a node of
    /// `host` pulls.
    pub fn is_image_known(&self, image: &str, host: Build) -> bool {
        let platforms = self.snapshot.images.get(image);
        platforms.is_some_and(|platforms| self.pull_bytes(image, host).is_some() || platforms.entry_for(host).is_none())
    }

    /// The compressed bytes that a node of that build pulls, if a registry reported them.
    pub fn pull_bytes(&self, image: &str, host: Build) -> Option<u64> {
        self.reported_images.sizes.get(image)?.get(&host).copied()
    }

    /// The RuntimeClass of that name, if it was read.
    pub fn runtime_class(&self, name: Option<&str>) -> Option<&RuntimeClass> {
        self.snapshot.runtime_class(name?)
    }

    /// The number of objects that were read.
    pub fn len(&self) -> usize {
        self.counts.values().sum()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Namespace, kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for an object of the cluster.
    pub namespace: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// The members of a node that the engine does not read.
#[derive(Debug, Clone)]
pub struct NodeRecord {
    /// The fourth number of the kernel version.
    pub revision: Option<u32>,
    /// `status.nodeInfo.kubeletVersion`.
    pub kubelet: Arc<str>,
    pub(crate) product: NodeProduct,
    pub(crate) ready: bool,
    /// `status.allocatable`, if it has all three members.
    pub allocatable: Option<NodeSize>,
    /// `status.declaredFeatures`. `None` if the object does not have it: a kubelet that declares nothing, and an inventory that
    /// was saved without it, look the same.
    pub(crate) declared_features: Option<Arc<BTreeSet<Arc<str>>>>,
}

/// A NetworkPolicy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkPolicyRecord {
    pub(crate) name: Arc<str>,
    /// The pods of its namespace that it is about. One without requirements selects all of them.
    pub(crate) selector: LabelSelector,
}

/// The resources that a node has for pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeSize {
    /// In thousandths of a processor.
    pub cpu_millis: u64,
    /// In bytes.
    pub memory_bytes: u64,
    /// The number of pods that its kubelet accepts.
    pub pods: u64,
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRecord {
    /// Its name.
    pub name: Arc<str>,
    /// `None` if it selects no pod. A selector without requirements selects every pod of the namespace.
    pub selector: Option<LabelSelector>,
    /// `2` or `50%`.
    pub min_available: Option<Box<str>>,
    /// `2` or `50%`.
    pub max_unavailable: Option<Box<str>>,
    /// `None` if the controller has not written the status.
    pub status: Option<BudgetStatus>,
}

/// The status of a PodDisruptionBudget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetStatus {
    /// The number of pods that can be evicted now.
    pub disruptions_allowed: u64,
    /// The number of its pods that are ready.
    pub current_healthy: u64,
    /// The number of ready pods that it requires.
    pub desired_healthy: u64,
    /// The number of pods that it selects.
    pub expected_pods: u64,
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
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct PodRecord {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Box<str>,
    /// When the grace of its deletion ends, as RFC 3339, if it is being deleted.
    pub(crate) deleted_at: Option<Box<str>>,
    pub(crate) owner: Option<Arc<OwnerKey>>,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// The node in its affinity, for a pod of a DaemonSet.
    pub(crate) target: Option<Arc<str>>,
    /// The part that it shares with other pods.
    pub shape: Arc<PodShape>,
    /// Whether it has a status. Without one, it is not known whether it runs.
    pub reported: bool,
    /// Condition `Ready`.
    pub(crate) ready: bool,
    /// Phase `Succeeded` or `Failed`.
    pub ended: bool,
    /// Whether the scheduler found no node for it.
    pub(crate) unschedulable: bool,
    /// Whether one of its containers ran at any time.
    pub(crate) started: bool,
    /// Whether the status of each of its containers is there, and shows whether it ran.
    pub(crate) is_start_known: bool,
    /// When the kubelet accepted it, as RFC 3339.
    pub(crate) accepted_at: Option<Box<str>>,
    /// The containers that started, whether or not they still run.
    pub(crate) running: Vec<RunningContainer>,
    /// The problems that its status reports.
    pub(crate) problems: Vec<StatusText>,
}

impl PodRecord {
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey { namespace: Arc::clone(&self.namespace), kind: "Pod".into(), name: Arc::clone(&self.name) }
    }

    /// Whether it is on a node, and nothing is known of what runs there.
    pub fn is_unreported(&self) -> bool {
        self.node.is_some() && !self.reported
    }
}

/// A container that started on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningContainer {
    /// Index into the containers of the shape.
    pub(crate) container: u16,
    /// The digest that was pulled, if the container runtime reports it: `r.example/web@sha256:…`. An index has one
    /// digest for all its builds.
    pub(crate) image_id: Option<Arc<str>>,
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

/// The data that many pods share.
#[derive(Debug, Default)]
pub struct PodShape {
    /// Its containers, init and ephemeral containers included.
    pub containers: Vec<ContainerShape>,
    /// Its image volumes that a container mounts.
    pub image_volumes: Vec<VolumeShape>,
    /// The constraints, without the name of a node.
    pub(crate) constraints: SchedulingConstraints,
    /// `spec.runtimeClassName`.
    pub runtime_class: Option<String>,
    pub(crate) host_process: bool,
    /// The features that the scheduler requires of its node.
    pub(crate) needed_features: Vec<&'static DeclaredFeature>,
}

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerShape {
    /// Its name.
    pub name: Arc<str>,
    /// Its image, as the pod names it.
    pub image: Arc<str>,
    /// Whether it is an ephemeral container, which no template has.
    pub(crate) ephemeral: bool,
    /// The image volumes that it mounts: indexes into those of the shape.
    pub(crate) mounts: Box<[u16]>,
}

/// An image volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeShape {
    /// Its name.
    pub name: Arc<str>,
    /// Its image, as the pod names it.
    pub image: Arc<str>,
}

impl PodShape {
    /// The image volumes that the container mounts.
    pub(crate) fn volumes_of(&self, container: &ContainerShape) -> impl Iterator<Item = &VolumeShape> {
        container.mounts.iter().filter_map(|at| self.image_volumes.get(usize::from(*at)))
    }
}

/// An object with a pod template, or one that owns such an object.
#[derive(Debug)]
pub(crate) struct WorkloadRecord {
    pub(crate) key: ObjectKey,
    pub(crate) kind: WorkloadKind,
    pub(crate) owner: Option<Arc<OwnerKey>>,
    /// The stripped object. Empty if nothing is reviewed by it: an old ReplicaSet of a Deployment.
    pub(crate) text: Box<str>,
}

/// An Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRecord {
    pub(crate) reason: Arc<str>,
    pub(crate) message: Box<str>,
    /// When it was last seen, as RFC 3339.
    pub(crate) time: Box<str>,
    /// The uid of the object that it is about: another object may get its name. Empty if the Event has none.
    pub(crate) uid: Box<str>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::inventory::{InventoryReader, read_yaml};

    #[test]
    fn reports_of_registries_in_a_dump_are_kept_and_saved() {
        let text = "\
apiVersion: mullion.dev/v1alpha1
kind: ImagePlatforms
takenAt: 2026-11-23T10:00:00Z
images:
  a:1: {index: [{os: windows, os.version: 10.0.26100.1}]}
  b:1: {index: [{os: windows, os.version: 10.0.17763.1}]}
sizes:
  a:1: {10.0.26100: 7}
absent: ['c:1']
unanswered:
  d:1: late
";
        let read = |text: &str| {
            let mut reader = InventoryReader::default();
            let mut saved = String::new();
            reader.begin_input("dump");
            let problems = read_yaml(text, &mut |object, kind| {
                reader.add(object, kind, &mut |kept| saved = kept.to_string());
            });
            assert!(problems.is_empty() && reader.end_input().problems.is_empty(), "{text}");
            (reader.finish(), saved)
        };
        let (_, saved) = read(text);
        let (inventory, _) = read(&saved);
        let host = Build::new(26100);
        assert_eq!(inventory.pull_bytes("a:1", host), Some(7));
        assert!(
            inventory.reported_images.absent.contains("c:1")
                && inventory.reported_images.unanswered.contains_key("d:1")
        );
        assert_eq!(inventory.taken_at(), None, "the time of the dump is another one");
        // Such a node takes no entry of b:1, so there is no size to query.
        let known = ["a:1", "b:1", "c:1", "d:1"].map(|image| inventory.is_image_known(image, host));
        assert_eq!(known, [true, true, false, false]);
        assert!(!inventory.is_image_known("a:1", Build::new(27000)), "its size for that build is not known");
    }
}
