//! Builds an inventory, object by object.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use mullion_engine::model::declared_features::{DeclaredFeature, needed_features};
use mullion_engine::model::names::{EPHEMERAL_CONTAINERS, WINDOWS_BUILD_LABEL};
use mullion_engine::model::pod_view::{Container, ImageVolume, Pod};
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::text::prefix;
use mullion_engine::model::windows::Build;
use mullion_engine::model::{WorkloadKind, controller_reference};
use mullion_engine::node::facts::is_virtual;
use mullion_policy::matching::LabelSelector;
use mullion_snapshot::ImagePlatforms;
use mullion_snapshot::dump::DumpReader;
use mullion_snapshot::lists::expand;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::inventory::constraints::{constraints_of, selected_labels};
use crate::inventory::disruption::{read_budget, read_node_size};
use crate::inventory::kinds::{IMAGE_PLATFORMS, is_of_known_group, kind_of_plural, plural_of};
use crate::inventory::node_pools::{read_node_class, read_node_pool};
use crate::inventory::records::{
    ContainerShape, EventRecord, Inventory, NetworkPolicyRecord, NodeRecord, ObjectKey, OwnerKey, PodRecord, PodShape,
    VolumeShape, WorkloadRecord,
};
use crate::inventory::status::read_status;
use crate::inventory::strip::strip;
use crate::node_product::NodeProduct;
use crate::report::Unread;

/// The maximum number of Events that are kept for one object.
const EVENTS_OF_ONE: usize = 6;

/// The kind of the last line of a saved inventory: what the objects alone do not contain.
const SAVED: &str = "SavedInventory";

/// The length of the longest name of an object.
pub(crate) const LONGEST_NAME: usize = 253;

/// The name of an input, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadInput {
    /// The name as the user passed it.
    pub name: String,
    /// What cannot be read: one line each.
    pub problems: Vec<String>,
}

/// Builds an [`Inventory`]: for each input [`begin_input`](Self::begin_input), [`add`](Self::add) for each object,
/// [`end_input`](Self::end_input).
#[derive(Debug)]
pub struct InventoryReader {
    inventory: Inventory,
    objects: DumpReader<'static>,
    images: ImagePlatforms,
    texts: HashSet<Arc<str>>,
    shapes: HashMap<Box<str>, Arc<PodShape>>,
    owners: HashSet<Arc<OwnerKey>>,
    /// Sets of features, which the nodes of a pool share.
    features: HashSet<Arc<BTreeSet<Arc<str>>>>,
    sampled: HashSet<(Arc<str>, Arc<OwnerKey>)>,
    /// Hashes of namespace, kind and name of every object.
    seen: HashSet<u64>,
    hasher: RandomState,
    input: ReadInput,
    newest: String,
}

impl Default for InventoryReader {
    fn default() -> Self {
        Self {
            inventory: Inventory::default(),
            objects: DumpReader::new("the dump"),
            images: ImagePlatforms::default(),
            texts: HashSet::new(),
            shapes: HashMap::new(),
            owners: HashSet::new(),
            features: HashSet::new(),
            sampled: HashSet::new(),
            seen: HashSet::new(),
            hasher: RandomState::new(),
            input: ReadInput { name: String::new(), problems: Vec::new() },
            newest: String::new(),
        }
    }
}

/// The maximum number of problems of one input that are kept.
const MAX_PROBLEMS: usize = 20;

impl InventoryReader {
    /// Begins an input: a file, or a cluster.
    pub fn begin_input(&mut self, name: &str) {
        self.input = ReadInput { name: name.to_owned(), problems: Vec::new() };
        self.newest.clear();
    }

    /// Ends the input, and returns what is wrong with its objects.
    pub fn end_input(&mut self) -> ReadInput {
        let input = std::mem::replace(&mut self.input, ReadInput { name: String::new(), problems: Vec::new() });
        if !self.newest.is_empty() {
            self.inventory.times.push((input.name.clone(), self.newest.as_str().into()));
        }
        input
    }

    /// Adds one object, or a List. `kind` is that of the list around it, because items of a typed list have none of
    /// their own. `save` gets the object as it is stored, for a saved inventory.
    pub fn add(&mut self, object: Value, kind: Option<&str>, save: &mut dyn FnMut(&Value)) {
        for (object, kind) in expand(object, kind.unwrap_or_default()).objects {
            self.add_object(&object, &kind, save);
        }
    }

    /// Records that all objects of a kind were listed, even if there are none. `plural`: the name that `kubectl get`
    /// accepts.
    pub fn listed(&mut self, plural: &str) {
        if let Some(kind) = kind_of_plural(plural) {
            self.inventory.counts.entry(kind.plural).or_default();
        }
    }

    /// Records objects that could not be read.
    pub fn unread(&mut self, unread: Unread) {
        self.inventory.unread.push(unread);
    }

    /// Records when the objects were read, as RFC 3339 in UTC with whole seconds. Without it, the newest time in the
    /// objects counts.
    pub fn taken_at(&mut self, time: &str) {
        self.note_time(time);
    }

    /// Records the version of the API server.
    pub fn kubernetes(&mut self, version: &str) {
        self.inventory.kubernetes = Some(version.to_owned());
    }

    /// The number of objects that were added.
    pub fn len(&self) -> usize {
        self.inventory.len() + self.inventory.others
    }

    /// Whether no object was added.
    pub fn is_empty(&self) -> bool {
        self.objects_read() == 0
    }

    /// The number of objects that were added, without values that have no kind and so are no objects.
    pub fn objects_read(&self) -> usize {
        self.len() - self.inventory.without_kind
    }

    /// The last line of a saved inventory.
    pub fn saved_end(&self) -> Value {
        let inventory = &self.inventory;
        json!({
            "apiVersion": "mullion.dev/v1alpha1",
            "kind": SAVED,
            "takenAt": inventory.taken_at(),
            "kubernetes": inventory.kubernetes,
            "kinds": inventory.counts.keys().collect::<Vec<_>>(),
            "others": inventory.others,
            "unread": inventory.unread,
        })
    }

    /// The inventory of all objects.
    pub fn finish(mut self) -> Inventory {
        self.inventory.snapshot = self.objects.finish().snapshot;
        self.inventory.add_images(self.images);
        self.inventory.workloads.shrink_to_fit();
        self.inventory.pods.shrink_to_fit();
        self.inventory
    }

    fn add_object(&mut self, object: &Value, kind: &str, save: &mut dyn FnMut(&Value)) {
        if kind == SAVED {
            self.add_saved_end(object);
            return;
        }
        let version = object.get("apiVersion").and_then(Value::as_str);
        let kept = if is_of_known_group(kind, version) { strip(kind, object) } else { None };
        let Some(kept) = kept else {
            self.inventory.others += 1;
            self.inventory.without_kind += usize::from(kind.is_empty());
            return;
        };
        if let Err(problem) = self.add_kept(kind, &kept) {
            if self.input.problems.len() < MAX_PROBLEMS {
                self.input.problems.push(problem);
            }
            return;
        }
        save(&kept);
    }

    fn add_saved_end(&mut self, object: &Value) {
        if let Some(time) = object.get("takenAt").and_then(Value::as_str) {
            self.note_time(time);
        }
        if let Some(version) = object.get("kubernetes").and_then(Value::as_str) {
            self.kubernetes(version);
        }
        for plural in object.get("kinds").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            self.listed(plural);
        }
        let others = object.get("others").and_then(Value::as_u64).unwrap_or_default();
        self.inventory.others = self.inventory.others.saturating_add(usize::try_from(others).unwrap_or_default());
        let unread = object.get("unread").cloned().unwrap_or_default();
        self.inventory.unread.extend(Vec::<Unread>::deserialize(unread).unwrap_or_default());
    }

    /// Keeps the newest time: RFC 3339 in UTC with whole seconds, as the API server writes it, sorts as text.
    fn note_time(&mut self, time: &str) {
        let shape = |(at, byte): (usize, u8)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            13 | 16 => byte == b':',
            19 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        };
        if time.len() == 20 && time.bytes().enumerate().all(shape) && *time > *self.newest {
            time.clone_into(&mut self.newest);
        }
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        share(&mut self.texts, text)
    }

    fn add_kept(&mut self, kind: &str, object: &Value) -> Result<(), String> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let name = text("/metadata/name").unwrap_or_default().to_owned();
        let namespace = text("/metadata/namespace").unwrap_or_default().to_owned();
        if name.is_empty() && kind != IMAGE_PLATFORMS {
            return Err(format!("{kind} without a name: metadata.name is missing or not text"));
        }
        if kind != IMAGE_PLATFORMS && !self.seen.insert(self.hasher.hash_one((kind, &namespace, &name))) {
            self.inventory.repeated += 1;
            return Ok(());
        }
        for pointer in
            ["/metadata/creationTimestamp", "/lastTimestamp", "/eventTime", "/status/conditions/0/lastHeartbeatTime"]
        {
            if let Some(time) = text(pointer) {
                self.note_time(time);
            }
        }
        let namespaced = WorkloadKind::from_name(kind).is_some()
            || matches!(kind, "PodDisruptionBudget" | "HorizontalPodAutoscaler" | "NetworkPolicy");
        let namespace = if namespaced && namespace.is_empty() { "default".to_owned() } else { namespace };
        match kind {
            "Node" => self.read_node(&name, object)?,
            "Namespace" | "RuntimeClass" => self.read_snapshot(object, kind)?,
            IMAGE_PLATFORMS => {
                let reported = ImagePlatforms::from_value(object);
                let reported = reported.map_err(|error| format!("ImagePlatforms cannot be read: {error}"))?;
                self.images.extend(reported);
            }
            "Pod" => self.read_pod(&namespace, &name, object),
            "Event" => self.read_event(object),
            "PodDisruptionBudget" => self.read_budget(&namespace, &name, object)?,
            "HorizontalPodAutoscaler" => self.read_autoscaler(&namespace, object),
            "CSINode" => self.read_drivers(&name, object),
            "NetworkPolicy" => self.read_network_policy(&namespace, &name, object)?,
            "PersistentVolumeClaim" | "PersistentVolume" | "StorageClass" | "CSIDriver" => {
                let texts = &mut self.texts;
                self.inventory.storage.add(kind, object, |text| share(texts, prefix(text, LONGEST_NAME)));
            }
            "NodePool" => {
                let name = self.text(&name);
                self.inventory.node_pools.push(read_node_pool(name, object));
            }
            "EC2NodeClass" | "AKSNodeClass" => {
                let class = (self.text(kind), self.text(&name));
                self.inventory.node_classes.insert(class, read_node_class(object));
            }
            _ => {
                if let Some(workload) = WorkloadKind::from_name(kind) {
                    self.read_workload(workload, &namespace, &name, object);
                }
            }
        }
        if let Some(plural) = plural_of(kind) {
            *self.inventory.counts.entry(plural).or_default() += 1;
        }
        Ok(())
    }

    fn read_snapshot(&mut self, object: &Value, kind: &str) -> Result<(), String> {
        self.objects.object(object, kind).map_err(|problem| problem.message)
    }

    fn read_node(&mut self, name: &str, object: &Value) -> Result<(), String> {
        self.read_snapshot(object, "Node")?;
        let labels = object.pointer("/metadata/labels").cloned().unwrap_or_default();
        let labels = BTreeMap::deserialize(labels).unwrap_or_default();
        let taints = object.pointer("/spec/taints").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if is_virtual(&labels, taints) {
            self.inventory.virtual_nodes.insert(name.into());
            return Ok(());
        }
        let info = |key: &str| {
            object
                .pointer("/status/nodeInfo")
                .and_then(|info| info.get(key))
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let ready = object.pointer("/status/conditions/0/status").and_then(Value::as_str) == Some("True");
        let kernel = Build::from_kernel_version(info("kernelVersion"));
        let label = object.pointer("/metadata/labels").and_then(|labels| labels.get(WINDOWS_BUILD_LABEL)?.as_str());
        let product = if info("kernelVersion").is_empty() && info("osImage").is_empty() {
            NodeProduct::of_label(label.and_then(Build::from_label))
        } else {
            NodeProduct::of(info("osImage"), kernel.map(|(build, _)| build))
        };
        let record = NodeRecord {
            revision: kernel.and_then(|(_, revision)| revision),
            kubelet: self.text(info("kubeletVersion")),
            product,
            ready,
            allocatable: read_node_size(object),
            declared_features: self.declared_features(object),
        };
        self.inventory.nodes.insert(name.into(), record);
        Ok(())
    }

    /// `status.declaredFeatures`, if the object has it.
    fn declared_features(&mut self, node: &Value) -> Option<Arc<BTreeSet<Arc<str>>>> {
        let names = node.pointer("/status/declaredFeatures").and_then(Value::as_array)?;
        let names = names.iter().filter_map(Value::as_str).map(|name| share(&mut self.texts, name));
        let features: BTreeSet<Arc<str>> = names.collect();
        Some(share(&mut self.features, features))
    }

    fn read_network_policy(&mut self, namespace: &str, name: &str, object: &Value) -> Result<(), String> {
        let Some(spec) = object.get("spec").filter(|spec| spec.is_object()) else { return Ok(()) };
        // Without a selector it selects every pod of its namespace (Kubernetes 1.34).
        let selector = spec.get("podSelector").filter(|selector| !selector.is_null());
        let selector = selector.map(LabelSelector::deserialize).transpose().map_err(|error| {
            format!("NetworkPolicy {namespace}/{name}: spec.podSelector is not a label selector: {error}")
        })?;
        // A name is part of the findings about every workload that the policy selects.
        let name = self.text(prefix(name, LONGEST_NAME));
        let policy = NetworkPolicyRecord { name, selector: selector.unwrap_or_default() };
        let namespace = self.text(namespace);
        self.inventory.network_policies.entry(namespace).or_default().push(policy);
        Ok(())
    }

    fn read_budget(&mut self, namespace: &str, name: &str, object: &Value) -> Result<(), String> {
        let name = self.text(name);
        let budget = read_budget(Arc::clone(&name), object).map_err(|error| {
            format!("PodDisruptionBudget {namespace}/{name}: spec.selector is not a label selector: {error}")
        })?;
        let namespace = self.text(namespace);
        self.inventory.budgets.entry(namespace).or_default().push(budget);
        Ok(())
    }

    fn read_autoscaler(&mut self, namespace: &str, object: &Value) {
        let target = |name: &str| object.pointer("/spec/scaleTargetRef").and_then(|target| target.get(name)?.as_str());
        let (Some(kind), Some(name)) = (target("kind"), target("name")) else { return };
        let most = object.pointer("/spec/maxReplicas").and_then(Value::as_u64).unwrap_or_default();
        let key = ObjectKey { namespace: self.text(namespace), kind: self.text(kind), name: self.text(name) };
        let known = self.inventory.scaled_to.entry(key).or_default();
        *known = most.max(*known);
    }

    fn read_drivers(&mut self, node: &str, object: &Value) {
        let drivers = object.pointer("/spec/drivers").and_then(Value::as_array).into_iter().flatten();
        let names = drivers.filter_map(|driver| driver.get("name")?.as_str());
        let names = names.map(|name| share(&mut self.texts, name)).collect();
        self.inventory.drivers.insert(node.into(), names);
    }

    fn owner(&mut self, object: &Value) -> Option<Arc<OwnerKey>> {
        let owner = controller_reference(object)?;
        let text = |key: &str| owner.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (kind, name) = (text("kind")?, text("name")?);
        // A static pod.
        if kind == "Node" {
            return None;
        }
        let hash = object.pointer("/metadata/labels/pod-template-hash").and_then(Value::as_str);
        let deployment = hash.filter(|hash| kind == "ReplicaSet" && !hash.is_empty());
        // The controller cuts the name of the Deployment in a name of that length (pkg/controller/deployment/sync.go).
        let deployment = deployment.filter(|_| name.len() < LONGEST_NAME);
        let deployment = deployment.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
        let deployment = deployment.filter(|name| !name.is_empty()).map(str::to_owned);
        let deployment = deployment.map(|name| self.text(&name));
        let owner = OwnerKey { kind: self.text(kind), name: self.text(name), deployment };
        Some(share(&mut self.owners, owner))
    }

    fn read_workload(&mut self, kind: WorkloadKind, namespace: &str, name: &str, object: &Value) {
        let owner = self.owner(object);
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64);
        // Each Deployment keeps ten old ReplicaSets.
        let judged = owner.is_none() || (kind != WorkloadKind::Job && replicas != Some(0));
        let key = ObjectKey { namespace: self.text(namespace), kind: self.text(kind.name()), name: name.into() };
        let text = if judged { object.to_string().into() } else { Box::default() };
        if !judged && kind == WorkloadKind::Job && !is_finished_job(object) {
            self.inventory.owned_jobs.insert(key.clone(), object.to_string().into());
        }
        if let Some(pod) = Pod::of(kind, object).filter(|_| judged) {
            self.select(&constraints_of(pod));
        }
        self.inventory.workloads.push(WorkloadRecord { key, kind, owner, text });
    }

    /// Records the labels that constraints refer to.
    fn select(&mut self, constraints: &SchedulingConstraints) {
        let selected = &mut self.inventory.selected;
        for label in selected_labels(constraints) {
            if !selected.contains(label) {
                selected.insert(label.to_owned());
            }
        }
    }

    fn read_pod(&mut self, namespace: &str, name: &str, object: &Value) {
        let (shape, target) = self.shape(object);
        let owner = self.owner(object);
        let node = object.pointer("/spec/nodeName").and_then(Value::as_str).filter(|node| !node.is_empty());
        let namespace = self.text(namespace);
        let first = owner.as_ref().is_none_or(|owner| self.sampled.insert((Arc::clone(&namespace), Arc::clone(owner))));
        if first {
            let mut sample = object.clone();
            if let Some(members) = sample.as_object_mut() {
                members.remove("status");
            }
            self.inventory.samples.insert(self.inventory.pods.len(), sample.to_string().into());
        }
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let mut record = PodRecord {
            namespace,
            name: name.into(),
            uid: text("/metadata/uid").unwrap_or_default().into(),
            deleted_at: text("/metadata/deletionTimestamp").map(Into::into),
            owner,
            node: node.map(|node| self.text(node)),
            target: target.map(|target| self.text(&target)),
            shape,
            ..PodRecord::default()
        };
        let status = object.get("status").unwrap_or(&Value::Null);
        read_status(&mut record, status, |text| share(&mut self.texts, text));
        self.inventory.pods.push(record);
    }

    /// What the pod shares with others, and the node in its affinity.
    fn shape(&mut self, object: &Value) -> (Arc<PodShape>, Option<String>) {
        let spec = |name: &str| object.pointer("/spec").and_then(|spec| spec.get(name)).cloned().unwrap_or_default();
        let mut affinity = json!({"nodeAffinity": object.pointer("/spec/affinity/nodeAffinity")});
        let target = take_target(&mut affinity);
        let pod = Pod::of(WorkloadKind::Pod, object);
        let host_process = pod.is_some_and(|pod| pod.host_process());
        let needed: Vec<&'static DeclaredFeature> = pod.into_iter().flat_map(needed_features).collect();
        let volumes = pod.map(|pod| pod.image_volumes()).unwrap_or_default();
        let containers: Vec<(&str, &str, bool, Vec<u16>)> =
            pod.map(|pod| containers_of(pod, &volumes)).unwrap_or_default();
        let parts = json!({
            "containers": containers,
            "volumes": volumes.iter().map(|volume| (volume.name, volume.reference)).collect::<Vec<_>>(),
            "constraints": {
                "nodeSelector": spec("nodeSelector"), "affinity": affinity, "tolerations": spec("tolerations"),
            },
            "class": spec("runtimeClassName"),
            "hostProcess": host_process,
            "features": needed.iter().map(|feature| feature.name).collect::<Vec<_>>(),
        });
        let key = parts.to_string();
        if let Some(known) = self.shapes.get(key.as_str()) {
            return (Arc::clone(known), target);
        }
        let constraints = parts.get("constraints").cloned().unwrap_or_default();
        let containers = containers.into_iter().map(|(name, image, ephemeral, mounts)| ContainerShape {
            name: share(&mut self.texts, name),
            image: share(&mut self.texts, image),
            ephemeral,
            mounts: mounts.into(),
        });
        let containers = containers.collect();
        let image_volumes = volumes.iter().map(|volume| VolumeShape {
            name: share(&mut self.texts, volume.name),
            image: share(&mut self.texts, volume.reference),
        });
        let shape = Arc::new(PodShape {
            containers,
            image_volumes: image_volumes.collect(),
            // The API server cannot have accepted a field of another type.
            constraints: SchedulingConstraints::deserialize(constraints).unwrap_or_default(),
            runtime_class: parts.get("class").and_then(Value::as_str).map(str::to_owned),
            host_process,
            needed_features: needed,
        });
        self.select(&shape.constraints);
        self.shapes.insert(key.into(), Arc::clone(&shape));
        (shape, target)
    }

    fn read_event(&mut self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if text("/type") == "Normal" && text("/reason") != "BackOff" {
            return;
        }
        // events.k8s.io/v1 has other names for the same fields.
        let is_later = object.get("regarding").is_some();
        let (about, message) = if is_later { ("regarding", "/note") } else { ("involvedObject", "/message") };
        let of = |name: &str| object.get(about).and_then(|about| about.get(name)?.as_str()).unwrap_or_default();
        let (namespace, kind, name) = (of("namespace"), of("kind"), of("name"));
        let key = ObjectKey { namespace: self.text(namespace), kind: self.text(kind), name: self.text(name) };
        let time = [text("/lastTimestamp"), text("/eventTime")].into_iter().find(|time| !time.is_empty());
        let record = EventRecord {
            reason: self.text(text("/reason")),
            message: text(message).into(),
            time: time.unwrap_or_default().into(),
            uid: of("uid").into(),
        };
        let events = self.inventory.events.entry(key).or_default();
        // The same message replaces the earlier one; otherwise the oldest is removed.
        if let Some(same) = events.iter_mut().find(|event| event.message == record.message && event.uid == record.uid) {
            if same.time < record.time {
                *same = record;
            }
            return;
        }
        events.push(record);
        if events.len() > EVENTS_OF_ONE
            && let Some(oldest) = (0..events.len()).min_by_key(|at| events.get(*at).map(|event| event.time.clone()))
        {
            events.remove(oldest);
        }
    }
}

/// The containers of a pod: name, image, whether it is ephemeral, and the positions of the image volumes that it mounts.
fn containers_of<'p>(pod: Pod<'p>, volumes: &[ImageVolume<'p>]) -> Vec<(&'p str, &'p str, bool, Vec<u16>)> {
    let named = volumes.iter().enumerate().filter_map(|(at, volume)| Some((volume.name, u16::try_from(at).ok()?)));
    let positions: HashMap<&str, u16> = named.collect();
    let of = |container: Container<'p>| {
        let mounts = container.items("/volumeMounts").iter().filter(|_| !positions.is_empty());
        let mounts: BTreeSet<u16> =
            mounts.filter_map(|mount| positions.get(mount.get("name")?.as_str()?).copied()).collect();
        let image = container.image().unwrap_or_default();
        (container.name(), image, container.list == EPHEMERAL_CONTAINERS, mounts.into_iter().collect())
    };
    pod.containers().map(of).collect()
}

/// Whether the status of a Job states that it has ended. Its pods may be gone, and a dump may have no status.
pub fn is_finished_job(job: &Value) -> bool {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is = |condition: &Value, key: &str, values: &[&str]| {
        condition.get(key).and_then(Value::as_str).is_some_and(|value| values.contains(&value))
    };
    conditions.into_iter().any(|one| is(one, "type", &["Complete", "Failed"]) && is(one, "status", &["True"]))
}

/// The value that is equal to `value`, stored once.
fn share<T: ?Sized + Eq + Hash>(known: &mut HashSet<Arc<T>>, value: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
    if let Some(known) = known.get(value.borrow()) {
        return Arc::clone(known);
    }
    let value = value.into();
    known.insert(Arc::clone(&value));
    value
}

/// Removes the requirements for one node's name, which the DaemonSet controller writes, and returns the name.
fn take_target(affinity: &mut Value) -> Option<String> {
    let terms = affinity
        .pointer_mut("/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms")?
        .as_array_mut()?;
    let mut target = None;
    for term in terms.iter_mut() {
        let fields = term.get_mut("matchFields").map(Value::take);
        let name = fields.as_ref().and_then(|fields| {
            let first = fields.get(0)?;
            let is = |key: &str, value: &str| first.get(key).and_then(Value::as_str) == Some(value);
            first
                .pointer("/values/0")
                .and_then(Value::as_str)
                .filter(|_| is("key", "metadata.name") && is("operator", "In"))
        });
        target = target.or(name.map(str::to_owned));
        if let (Some(term), None) = (term.as_object_mut(), name) {
            term.insert("matchFields".to_owned(), fields.unwrap_or_default());
        }
    }
    if target.is_some() {
        // A term without requirements matches no node.
        let empty = |term: &Value| term.get("matchExpressions").and_then(Value::as_array).is_none_or(Vec::is_empty);
        if terms.iter().all(empty) {
            *affinity = Value::Null;
        }
    }
    target
}
