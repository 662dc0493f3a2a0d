//! A workload in the form that the analysis uses: its object without what Mullion added, the decision about it, and its
//! images.

use std::collections::BTreeSet;
use std::sync::Arc;

use mullion_engine::admission::{RequestCategory, Review, denies_its_pods, effective_action, review, review_pods};
use mullion_engine::detect::image_facts;
use mullion_engine::model::image::{ImageOs, Platforms};
use mullion_engine::model::json_pointer::member;
use mullion_engine::model::names::EPHEMERAL_CONTAINERS;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::scheduling::SchedulingConstraints;
use mullion_engine::model::settings::{Action, ImagePatterns};
use mullion_engine::model::windows::{Build, ExtraRelease, runs};
use mullion_engine::model::{Basis, Cause, DetectedOs, Os, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::patch::{decision_reason, restore_authored};
use mullion_policy::PolicySet;
use serde_json::Value;

use crate::analysis::fleet::Fleet;
use crate::analysis::images::{RunningImages, is_process_isolated, stated_by};
use crate::analysis::managers::{ObjectManager, manager};
use crate::analysis::node_classes::with_class;
use crate::analysis::owners::OwnedPods;
use crate::inventory::{Inventory, PodRecord, PodShape, constraints_of};
use crate::report::{ContainerBuilds, Knowledge, ObjectRef};

/// The maximum number of containers of a workload that are reported, and of its image volumes.
const MAX_REPORTED: usize = 100;

/// The context for reading a workload.
#[derive(Clone, Copy)]
pub struct ViewContext<'a> {
    /// The objects of the cluster.
    pub inventory: &'a Inventory,
    /// Its nodes in pools.
    pub fleet: &'a Fleet<'a>,
    /// What running containers prove about images.
    pub running: &'a RunningImages,
    /// The policies under which workloads are reviewed.
    pub policies: &'a PolicySet,
}

/// A workload.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct WorkloadView<'a> {
    /// Its kind, namespace and name.
    pub object: ObjectRef,
    /// Its pods.
    pub pods: Vec<&'a PodRecord>,
    /// The kind of [`value`](Self::value), and JSON pointer to its pod.
    pub kind: WorkloadKind,
    /// The object as its author wrote it; null if none was read.
    pub value: Value,
    /// The operating system, including what running containers prove.
    pub os: DetectedOs,
    pub(crate) because: String,
    /// The operating system that author, policy or images state, unless running containers contradict it.
    pub(crate) intended: Option<Os>,
    /// Whether a list with its pods was not read, or the status of one.
    pub(crate) has_unread_pods: bool,
    /// Whether nothing states the operating system, and containers that started show it.
    pub(crate) is_known_from_pods: bool,
    /// Whether nothing states the operating system, and whether containers show another one is not known.
    pub(crate) is_unverified: bool,
    /// Whether a pod is reviewed in place of its owner, which was not read.
    pub(crate) is_stand_in: bool,
    /// Its containers, init containers included.
    pub containers: Vec<ViewContainer>,
    /// Its image volumes that a container mounts.
    pub image_volumes: Vec<ViewContainer>,
    /// The constraints of its pods; if it has no pods, those of its template.
    pub constraints: SchedulingConstraints,
    /// The constraints of its author.
    pub(crate) authored: SchedulingConstraints,
    /// The RuntimeClass of its author.
    pub runtime_class: Option<String>,
    /// Whether that RuntimeClass was not read.
    pub has_unread_class: bool,
    /// Whether a container is a HostProcess container.
    pub host_process: bool,
    pub(crate) process_isolated: bool,
    /// Findings of rules: code, name and action.
    pub(crate) rules: BTreeSet<(&'static str, &'static str, &'static str)>,
    pub(crate) floating: Vec<FloatingTag>,
    /// Whether Mullion reviews it, and would place its pods.
    pub(crate) judged: bool,
    pub(crate) placed: bool,
    /// What manages it, from its labels and annotations.
    pub managed_by: Option<ObjectManager>,
    /// The image patterns of the policies.
    patterns: ImagePatterns,
}

/// A container or an image volume with the facts about its image.
pub struct ViewContainer {
    /// What the report shows.
    pub report: ContainerBuilds,
    /// The operating system of its image.
    pub os: ImageOs,
    pub(crate) builds: Vec<Build>,
    /// [`ViewImage::is_index`].
    is_index: bool,
    /// Where it stands in the pod.
    pub place: ContainerPlace,
}

impl ViewContainer {
    /// Whether a policy, a registry or the name of the image states that no host of that build runs it. That it started
    /// on other builds excludes none.
    pub(crate) fn excludes(&self, host: Build, fleet: &FleetRules<'_>) -> bool {
        self.report.known_from != Knowledge::Running && self.lacks(host, fleet)
    }

    /// Whether its registry states that a host of that build finds no entry to pull.
    pub(crate) fn has_no_entry_for(&self, host: Build, fleet: &FleetRules<'_>) -> bool {
        self.is_index && self.lacks(host, fleet)
    }

    /// Whether builds of the image are known, and a host of that build runs none of them.
    pub(crate) fn lacks(&self, host: Build, fleet: &FleetRules<'_>) -> bool {
        !self.builds.is_empty() && !fleet.runs(host, &self.builds)
    }
}

/// The place of a container or an image volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerPlace {
    /// In the object: list and position.
    Object(&'static str, usize),
    /// Only in its pods: a webhook added it.
    Pods,
    /// An ephemeral container of a pod.
    Ephemeral,
    /// A volume of the object: position.
    Volume(usize),
    /// A volume that is only in its pods.
    VolumeOfPods,
}

/// The facts about an image.
pub struct ViewImage {
    /// Its operating system.
    pub os: ImageOs,
    /// The builds it is for; empty if they are unknown.
    pub builds: Vec<Build>,
    /// What proves its builds.
    pub known_from: Knowledge,
    /// What its registry reports.
    pub platforms: Option<Arc<Platforms>>,
}

impl ViewImage {
    /// Whether its registry states that it is an index, from whose entries a node chooses.
    pub(crate) fn is_index(&self) -> bool {
        self.platforms.as_ref().is_some_and(|platforms| platforms.index)
    }
}

/// A finding of the rule about floating tags.
pub(crate) struct FloatingTag {
    pub(crate) path: String,
    pub(crate) image: String,
    pub(crate) message: String,
    pub(crate) help: String,
}

/// The rule whose findings are also findings of a survey.
const FLOATING: &str = "floating-windows-tag";

impl<'a> WorkloadView<'a> {
    /// Reviews a workload.
    pub fn new(owned: &OwnedPods<'a>, context: ViewContext<'a>) -> Self {
        let ViewContext { inventory, fleet, running, policies } = context;
        let object = ObjectRef {
            namespace: owned.key.namespace.to_string(),
            kind: owned.key.kind.to_string(),
            name: owned.key.name.to_string(),
        };
        let pods: Vec<&PodRecord> = owned.pods.iter().filter_map(|at| inventory.pods.get(*at)).collect();
        let (kind, text) = owned.object.unwrap_or((WorkloadKind::Pod, ""));
        let mut value: Value = serde_json::from_str(text).unwrap_or_default();
        let managed_by = manager(&value);
        restore_authored(kind, &mut value, &inventory.snapshot);
        // The scheduler, and not the author of the owner, chose the node.
        if kind == WorkloadKind::Pod
            && &*owned.key.kind != "Pod"
            && let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.remove("nodeName");
        }
        let mut view = Self {
            object,
            pods,
            kind,
            value: Value::Null,
            os: DetectedOs::Undecided,
            because: "nothing".to_owned(),
            intended: None,
            is_known_from_pods: false,
            has_unread_pods: false,
            is_unverified: false,
            is_stand_in: kind == WorkloadKind::Pod && &*owned.key.kind != "Pod",
            containers: Vec::new(),
            image_volumes: Vec::new(),
            constraints: SchedulingConstraints::default(),
            authored: SchedulingConstraints::default(),
            runtime_class: None,
            has_unread_class: false,
            host_process: false,
            process_isolated: true,
            rules: BTreeSet::new(),
            floating: Vec::new(),
            judged: false,
            placed: false,
            managed_by,
            patterns: ImagePatterns::default(),
        };
        view.patterns = view.judge(&value, policies, inventory);
        view.read_spec(&value, inventory);
        view.value = value;
        view.read_containers(running, inventory);
        view.read_image_volumes(running, inventory);
        view.compare_with_pods(fleet);
        view.check_default(fleet, inventory);
        view
    }

    /// Reviews the object as if it were created now. Returns the patterns for its images.
    fn judge(&mut self, value: &Value, policies: &PolicySet, inventory: &Inventory) -> ImagePatterns {
        let namespace = self.object.namespace.as_str();
        let request = ReviewRequest::creation(WorkloadObject { kind: self.kind, namespace, object: value });
        let snapshot = &inventory.snapshot;
        let settings = policies.resolve(&request, snapshot);
        let reviewed = review(&request, snapshot, &settings);
        self.judged = reviewed.category.not_reviewed().is_none() && !value.is_null();
        self.os = reviewed.decision.os;
        self.because = decision_reason(&reviewed.decision);
        if matches!(reviewed.decision.basis, Basis::Intent) {
            self.intended = reviewed.decision.decided();
        }
        self.is_unverified = reviewed.decision.basis == Basis::Default;
        for finding in &reviewed.findings {
            if finding.rule == FLOATING {
                let image = member(value, &finding.pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                self.floating.push(FloatingTag {
                    path: finding.path.clone(),
                    image,
                    message: finding.message.to_string(),
                    help: finding.help.to_string(),
                });
            }
            let action = match effective_action(&reviewed, finding) {
                _ if denies_its_pods(&reviewed, finding) => "Deny",
                Action::Deny => "Deny",
                Action::Repair => "Repair",
                Action::Warn => "Warn",
                Action::Allow => continue,
            };
            self.rules.insert((finding.code, finding.rule, action));
        }
        let is_placed = |review: &Review| {
            review.changes.iter().any(|change| {
                let pointer = change.edit.pointer();
                matches!(change.cause, Cause::Placement(_))
                    && pointer.contains("/spec/")
                    && !pointer.starts_with("/metadata/")
            })
        };
        self.placed = self.judged
            && match reviewed.category {
                RequestCategory::Template { .. } => is_placed(&review_pods(&request, snapshot, &settings)),
                _ => is_placed(&reviewed),
            };
        settings.new.images.clone()
    }

    fn read_spec(&mut self, value: &Value, inventory: &Inventory) {
        let pod = Pod::of(self.kind, value);
        self.authored = pod.map(constraints_of).unwrap_or_default();
        self.authored.node_name = None;
        self.runtime_class = pod.and_then(|pod| pod.text("/spec/runtimeClassName")).map(str::to_owned);
        self.has_unread_class =
            self.runtime_class.is_some() && inventory.runtime_class(self.runtime_class.as_deref()).is_none();
        self.host_process = pod.is_some_and(|pod| pod.host_process());
        if let Some(first) = self.pods.first() {
            self.constraints = first.shape.constraints.clone();
            self.host_process |= first.shape.host_process;
            self.process_isolated = is_process_isolated(&first.shape, inventory);
        } else {
            self.constraints = self.placed_constraints(inventory);
            let shape = PodShape {
                runtime_class: self.runtime_class.clone(),
                host_process: self.host_process,
                ..PodShape::default()
            };
            self.process_isolated = is_process_isolated(&shape, inventory);
        }
    }

    /// The constraints of its author with those of the RuntimeClass.
    pub(crate) fn placed_constraints(&self, inventory: &Inventory) -> SchedulingConstraints {
        with_class(&self.authored, inventory.runtime_class(self.runtime_class.as_deref()))
    }

    fn read_containers(&mut self, running: &RunningImages, inventory: &Inventory) {
        let mut all: Vec<(String, String, ContainerPlace)> = Vec::new();
        let mut known = BTreeSet::new();
        if let Some(pod) = Pod::of(self.kind, &self.value) {
            for container in pod.containers() {
                let image = container.image().unwrap_or_default().to_owned();
                let place = match container.list {
                    EPHEMERAL_CONTAINERS => ContainerPlace::Ephemeral,
                    list => ContainerPlace::Object(list, container.index),
                };
                all.push((container.name().to_owned(), image, place));
            }
        }
        known.extend(all.iter().map(|(name, ..)| name.clone()));
        // Containers that a webhook added to its pods.
        for container in self.sample_pod().into_iter().flat_map(|pod| &pod.shape.containers) {
            if known.insert(container.name.to_string()) {
                let place = if container.ephemeral { ContainerPlace::Ephemeral } else { ContainerPlace::Pods };
                all.push((container.name.to_string(), container.image.to_string(), place));
            }
        }
        let all = all.into_iter().take(MAX_REPORTED);
        self.containers = all.map(|one| self.with_facts(one, running, inventory)).collect();
    }

    fn read_image_volumes(&mut self, running: &RunningImages, inventory: &Inventory) {
        let volumes = Pod::of(self.kind, &self.value).map(|pod| pod.image_volumes()).unwrap_or_default();
        let known: BTreeSet<&str> = volumes.iter().map(|volume| volume.name).collect();
        let of_object = volumes
            .iter()
            .map(|volume| (volume.name.to_owned(), volume.reference.to_owned(), ContainerPlace::Volume(volume.index)));
        let sample = self.sample_pod().into_iter().flat_map(|pod| &pod.shape.image_volumes);
        let of_pods = sample
            .filter(|volume| !known.contains(&*volume.name))
            .map(|volume| (volume.name.to_string(), volume.image.to_string(), ContainerPlace::VolumeOfPods));
        let all: Vec<_> = of_object.chain(of_pods).take(MAX_REPORTED).collect();
        self.image_volumes = all.into_iter().map(|one| self.with_facts(one, running, inventory)).collect();
    }

    /// A pod that shows what webhooks add. A pod that ended may be of an older template.
    fn sample_pod(&self) -> Option<&'a PodRecord> {
        self.pods.iter().find(|pod| !pod.ended).or(self.pods.first()).copied()
    }

    fn with_facts(
        &self,
        (name, image, place): (String, String, ContainerPlace),
        running: &RunningImages,
        inventory: &Inventory,
    ) -> ViewContainer {
        let found = self.image(&image, running, inventory);
        let is_index = found.is_index();
        let ViewImage { os, builds, known_from, .. } = found;
        let report =
            ContainerBuilds { name, image, builds: builds.iter().map(ToString::to_string).collect(), known_from };
        ViewContainer { report, os, builds, is_index, place }
    }

    /// The facts about an image of its pods.
    pub fn image(&self, image: &str, running: &RunningImages, inventory: &Inventory) -> ViewImage {
        let facts = image_facts(image, &self.patterns, inventory.snapshot.images.get(image));
        let (builds, known_from) = match facts.os {
            ImageOs::Linux => (Vec::new(), stated_by(&facts)),
            _ => running.builds(image, &facts),
        };
        ViewImage { os: facts.os, builds, known_from, platforms: facts.platforms }
    }

    /// Running containers prove the operating system, if nothing else states it, and they disprove a wrong name.
    fn compare_with_pods(&mut self, fleet: &Fleet<'_>) {
        if self.pods.iter().any(|pod| pod.is_unreported()) {
            return;
        }
        let mut systems = BTreeSet::new();
        let mut first = None;
        for pod in self.pods.iter().filter(|pod| !pod.running.is_empty()) {
            let node = pod.node.as_deref().and_then(|name| fleet.node(name));
            if let Some((node, os)) = node.and_then(|node| Some((node.node, node.node.os?))) {
                systems.insert(os);
                first.get_or_insert(node);
            }
        }
        let mut found = systems.iter();
        let (Some(os), None, Some(node)) = (found.next(), found.next(), first) else { return };
        if self.intended.is_none() || self.intended != Some(*os) {
            if self.os != DetectedOs::Conflict && self.os != DetectedOs::from(*os) {
                self.because = format!("its containers run on {} node {}", os.title(), node.name);
                self.os = (*os).into();
            }
            self.intended = None;
            self.is_known_from_pods = true;
        }
    }

    /// The Linux default is a fact only if no container shows something else.
    fn check_default(&mut self, fleet: &Fleet<'_>, inventory: &Inventory) {
        let is_read = |plural: &str| inventory.counts.contains_key(plural);
        // The pods of a CronJob are those of its Jobs.
        self.has_unread_pods = !is_read("pods")
            || self.object.kind == "CronJob" && !is_read("jobs")
            || self.pods.iter().any(|pod| pod.is_unreported());
        let is_compared = fleet.known && !self.has_unread_class && !self.has_unread_pods;
        self.is_unverified &= !self.is_known_from_pods && !is_compared;
        if self.is_unverified {
            self.os = DetectedOs::Undecided;
            "nothing specifies the operating system, and where its containers run is not known"
                .clone_into(&mut self.because);
        }
    }

    /// Whether it counts as a Windows workload.
    pub fn is_windows(&self) -> bool {
        self.os == DetectedOs::Windows
    }

    /// Whether it counts as a Windows workload, and every pod that could show another system was read.
    pub(crate) fn is_known_windows(&self) -> bool {
        self.is_windows() && !self.has_unread_pods
    }

    /// The first container whose image excludes hosts of that build.
    pub(crate) fn misfit(&self, host: Build, fleet: &FleetRules<'_>) -> Option<&ViewContainer> {
        self.containers.iter().find(|container| container.excludes(host, fleet))
    }

    /// Its containers and image volumes.
    pub fn images(&self) -> impl Iterator<Item = &ViewContainer> + Clone {
        self.containers.iter().chain(&self.image_volumes)
    }

    /// The field with the image of a container or a volume.
    pub fn image_path(&self, image: &ViewContainer) -> String {
        let name = &image.report.name;
        match image.place {
            ContainerPlace::Object(list, at) => self.path(&format!("spec.{list}[{at}].image")),
            ContainerPlace::Volume(at) => self.path(&format!("spec.volumes[{at}].image.reference")),
            ContainerPlace::Pods | ContainerPlace::Ephemeral => {
                format!("spec.containers of its pods, image of container {name}")
            }
            ContainerPlace::VolumeOfPods => format!("spec.volumes of its pods, image of volume {name}"),
        }
    }

    /// Path of a field of the pod: `spec.template.spec.nodeSelector`.
    pub fn path(&self, below: &str) -> String {
        // The kind of the topmost owner, even if one of its pods was read instead.
        let kind = WorkloadKind::from_name(&self.object.kind).unwrap_or(self.kind);
        let before = kind.pod_pointer().trim_start_matches('/').replace('/', ".");
        if before.is_empty() { below.to_owned() } else { format!("{before}.{below}") }
    }

    /// How to set a selector, as the beginning of a sentence: `Set a: b in spec.template.spec.nodeSelector`.
    pub(crate) fn set_selector(&self, label: &str, value: &str) -> String {
        let then = match self.object.kind.as_str() {
            // Neither a pod nor the template of a Job can be changed.
            "Pod" => ", and create the pod again",
            "Job" => ", and create the Job again",
            // It waits for its pods, one after the other.
            "StatefulSet" => ", and delete the pods that are stuck",
            _ => "",
        };
        format!("Set {label}: {value} in {}{then}.", self.path("spec.nodeSelector"))
    }

    /// The builds for which there are images of all containers; several for indexes with several.
    pub(crate) fn common_builds(&self) -> Vec<Build> {
        let mut known = self.containers.iter().map(|container| &container.builds).filter(|builds| !builds.is_empty());
        let Some(first) = known.next() else { return Vec::new() };
        let mut common: BTreeSet<Build> = first.iter().copied().collect();
        let mut newest = first.iter().max().copied();
        for builds in known {
            newest = newest.max(builds.iter().max().copied());
            common.retain(|build| builds.contains(build));
        }
        if common.is_empty() { newest.into_iter().collect() } else { common.into_iter().collect() }
    }
}

/// Which host runs which image, by the nodes of the fleet and the releases that policies add.
pub struct FleetRules<'a> {
    /// The objects of the cluster, for the generation of containerd on its nodes.
    pub inventory: &'a Inventory,
    /// The releases that the policies add.
    pub releases: &'a [ExtraRelease],
}

impl FleetRules<'_> {
    /// Whether a host runs one of these builds.
    pub fn runs(&self, host: Build, builds: &[Build]) -> bool {
        let generation = self.inventory.snapshot.nodes.as_ref().map(|nodes| nodes.generation(host)).unwrap_or_default();
        builds.iter().any(|build| runs(host, *build, generation, self.releases))
    }
}
