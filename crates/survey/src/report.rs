//! The report of a survey, in the form of its JSON. [`SCHEMA`] is the version: members are added to it, never renamed.
//!
//! Lists are sorted: by namespace, kind and name where these exist; findings by severity and code before that. Texts
//! are whole English sentences with a period, unless their documentation specifies otherwise. Names of objects and
//! messages of a cluster are untrusted text: a format escapes them.

use std::fmt;

use jiff::civil::Date;
use mullion_engine::model::text::full_name;
use serde::{Deserialize, Serialize};

use crate::facts::dates::LifecycleDate;

/// The value of [`SurveyReport::schema`].
pub const SCHEMA: &str = "mullion.dev/survey/v1";

/// Everything that a survey reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SurveyReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was surveyed, when, and with what.
    pub header: Header,
    /// What was read, and what was not.
    pub coverage: Coverage,
    /// The summary: at most five sentences, the most important first.
    pub summary: Vec<String>,
    /// The pools of nodes.
    pub pools: Vec<NodePool>,
    /// Declared pools that have no nodes.
    #[serde(default)]
    pub pools_without_nodes: Vec<PoolWithoutNodes>,
    /// Workloads with waiting pods that no node and no declared pool can run. Empty if no pool is declared, or if nodes or
    /// pods were not read.
    #[serde(default)]
    pub unserved: Vec<WaitingPods>,
    /// Windows workloads by the build of their images, ascending; unknown builds last.
    pub image_builds: Vec<ImageBuild>,
    /// Every workload: pods of controllers under their topmost owner, other pods by themselves.
    pub workloads: Vec<Workload>,
    /// What is wrong or fragile.
    pub findings: Vec<SurveyFinding>,
    /// DaemonSets for Windows nodes, and the pools where they have no pod.
    pub daemon_sets: Vec<DaemonSetPools>,
    /// What Mullion would change and deny.
    pub changes: Vec<NamespaceChanges>,
    /// Dates, the next first, including those that have passed.
    pub deadlines: Vec<Deadline>,
    /// What the survey cannot know.
    pub unknown: Vec<Unknown>,
}

/// What was surveyed, when, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The context of the kubeconfig, or the names of the files.
    pub cluster: String,
    /// The source of the objects.
    pub source: Source,
    /// When the objects were read: for a dump, the newest time in it, as RFC 3339. Absent if a dump contains no time.
    pub taken_at: Option<String>,
    /// The version of Mullion that wrote the report.
    pub mullion: String,
    /// The version of the API server, as `v1.33.4`. Absent in a dump.
    pub kubernetes: Option<String>,
    /// The day on which the report counts dates as passed.
    pub today: Date,
    /// The day on which the tables of dates were last compared with their sources.
    pub dates_as_of: Date,
    /// Whether names are replaced.
    pub redacted: bool,
}

/// The source of the objects of a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// A live cluster.
    Cluster,
    /// Files.
    Dump,
}

/// What was read, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// Numbers of objects that were read.
    pub read: Vec<KindCount>,
    /// What could not be read, or was not in the dump.
    pub unread: Vec<Unread>,
}

/// A number of objects of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindCount {
    /// In the plural, as `kubectl get` accepts it: `daemonsets`.
    pub kind: String,
    /// The number of objects.
    pub objects: usize,
}

/// Objects that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unread {
    /// In the plural, as `kubectl get` accepts it.
    pub kind: String,
    /// The namespace, if other namespaces were read.
    pub namespace: Option<String>,
    /// Why, in a few words without a period: `forbidden`.
    pub reason: String,
    /// What the report cannot contain without them.
    pub missing: String,
}

impl Unread {
    /// Objects of all namespaces.
    pub fn new(kind: &str, reason: impl Into<String>, missing: &str) -> Self {
        Self { kind: kind.to_owned(), namespace: None, reason: reason.into(), missing: missing.to_owned() }
    }
}

/// Nodes that belong together: of one pool, operating system and build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// The name of the pool or group, from the labels of its provider; otherwise `linux` or the release.
    pub name: String,
    /// `AKS`, `EKS`, `GKE`, `RKE2`, `OpenShift`, if the labels reveal it.
    pub provider: Option<String>,
    /// `windows`, `linux`, or the value on the nodes.
    pub os: String,
    /// Name of the Windows release: `ltsc2022`.
    pub release: Option<String>,
    /// Windows build: `10.0.20348`.
    pub build: Option<String>,
    /// Revisions of the build, the newest first.
    pub revisions: Vec<Revision>,
    /// Versions of the kubelets, as `v1.33.4`.
    pub kubelets: Vec<String>,
    /// Container runtimes with versions, as `containerd://1.7.29`.
    pub runtimes: Vec<String>,
    /// Taints that all or some of the nodes have.
    pub taints: Vec<PoolTaint>,
    /// Features that kubelets declare (`status.declaredFeatures`), at most 64. Absent if no node has the member.
    #[serde(default)]
    pub declared_features: Option<Vec<PoolFeature>>,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of them that are ready.
    pub ready: usize,
    /// The number of them that are cordoned.
    pub cordoned: usize,
    /// The number of pods of Windows workloads on them. Absent if pods were not read, like the next two.
    pub windows_pods: Option<usize>,
    /// The number of pods of other workloads on them.
    pub other_pods: Option<usize>,
    /// The number of pods on them that they cannot run, because of the operating system or the build.
    pub misplaced_pods: Option<usize>,
    /// When support of the release ends, the next date first.
    pub ends: Vec<Deadline>,
}

/// A pool that is declared and has no nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolWithoutNodes {
    /// The name of the NodePool; for a pool of `expectedPools`, that in its labels, otherwise its release.
    pub pool: String,
    /// The kind that declares it: `NodePool` of Karpenter, or `NodePolicy`.
    pub declared_by: String,
    /// `windows` or `linux`. Absent if neither is declared.
    pub os: Option<String>,
    /// Name of the Windows release: `ltsc2022`.
    pub release: Option<String>,
    /// Windows build: `10.0.20348`. Absent if it is not declared.
    pub build: Option<String>,
    /// The labels that its nodes have as declared, at most 20, as `key=value`; several values of a requirement are separated by
    /// `|`.
    pub labels: Vec<String>,
    /// The taints of its nodes, in the format of `kubectl taint`.
    pub taints: Vec<String>,
    /// The workloads with waiting pods whose constraints its nodes satisfy as declared, at most 100. Absent if pods were not
    /// read.
    pub starts: Option<Vec<WaitingPods>>,
}

/// Pods of one workload for which the scheduler finds no node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingPods {
    /// The workload.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// The number of the pods.
    pub pods: usize,
    /// Whether nodes of the pool can run their images. If not, such a node is started for nothing.
    pub runs: bool,
}

/// Nodes with one revision of a Windows build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// The fourth number of the version: 2655.
    pub revision: u32,
    /// The number of nodes.
    pub nodes: usize,
}

/// A taint in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolTaint {
    /// In the format of `kubectl taint`: `os=windows:NoSchedule`.
    pub taint: String,
    /// The number of nodes that have it.
    pub nodes: usize,
}

/// A feature that nodes of a pool declare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolFeature {
    /// `RestartAllContainersOnContainerExits`.
    pub feature: String,
    /// The number of nodes that declare it.
    pub nodes: usize,
}

/// Windows workloads whose images have one build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageBuild {
    /// The builds that run them all: `10.0.20348`. Absent if they are unknown.
    pub build: Option<String>,
    /// The number of workloads.
    pub workloads: usize,
    /// The number of their pods. Absent if pods were not read.
    pub pods: Option<usize>,
    /// The number of their images.
    pub images: usize,
}

/// A namespaced object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Empty for objects without a namespace, such as nodes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `Deployment`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// An object without a namespace.
    pub fn cluster_wide(kind: &str, name: impl Into<String>) -> Self {
        Self { namespace: String::new(), kind: kind.to_owned(), name: name.into() }
    }

    /// `shop/web`; without a namespace, `win-1`.
    pub fn full_name(&self) -> String {
        full_name(&self.namespace, &self.name)
    }
}

/// `Deployment shop/web`, or `Node win-1`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.full_name())
    }
}

/// A workload with its pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Its name.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// `windows`, `linux`, `undecided` or `conflict`.
    pub os: String,
    /// Why, without a period: `spec.template.spec.nodeSelector["kubernetes.io/os"] is windows`.
    pub because: String,
    /// Its containers: init, regular and ephemeral, and those that are only in its pods.
    pub containers: Vec<ContainerBuilds>,
    /// Its image volumes that a container mounts.
    #[serde(default)]
    pub image_volumes: Vec<ContainerBuilds>,
    /// The number of pods that have not ended. Absent if pods were not read.
    pub pods: Option<usize>,
    /// The number of them that are ready. Absent if pods were not read.
    pub ready: Option<usize>,
    /// The pools in which its pods are: [`NodePool::name`].
    pub pools: Vec<String>,
    /// The numbers of its pods in these pools: the numbers of a pool are the sums over all workloads.
    #[serde(default)]
    pub placement: Vec<PodPlacement>,
    /// What manages the object: `Helm release shop`, `Argo CD application shop`, `Flux Kustomization shop`.
    pub managed_by: Option<String>,
    /// Codes of its findings, each once.
    pub findings: Vec<String>,
}

impl Workload {
    /// Its containers and image volumes.
    pub fn images(&self) -> impl Iterator<Item = &ContainerBuilds> {
        self.containers.iter().chain(&self.image_volumes)
    }
}

/// The pods of a workload in one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPlacement {
    /// The position of the pool in [`SurveyReport::pools`], from 0.
    pub pool: usize,
    /// The number of pods on its nodes.
    pub pods: usize,
    /// The number of them that the nodes cannot run.
    pub misplaced_pods: usize,
}

/// A container or an image volume of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerBuilds {
    /// Its name.
    pub name: String,
    /// Its image, as the workload has it.
    pub image: String,
    /// The Windows builds of the image. Empty if they are unknown, and for Linux images.
    pub builds: Vec<String>,
    /// The source of the builds.
    pub known_from: Knowledge,
}

/// The source of the builds of an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Knowledge {
    /// A policy.
    Policy,
    /// A registry.
    Registry,
    /// A container that started on a node of known build: the image has other builds too, if it is an index.
    Running,
    /// The name or tag of the image.
    Name,
    /// The builds are not known.
    #[default]
    Unknown,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It does not work now.
    Problem,
    /// It is fragile, or will stop working at a known date.
    Warning,
    /// It is worth knowing.
    Notice,
}

impl Severity {
    /// `problem`, `warning` or `notice`, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// Something that is wrong or fragile. Pods of one workload with the same cause are one finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SurveyFinding {
    /// A stable code: `SUR201`.
    pub code: String,
    /// The name of the finding, as on its page: `image-build-mismatch`. In the JSON, `name` is the name of the object.
    #[serde(rename = "finding")]
    pub name: String,
    /// How much it matters.
    pub severity: Severity,
    /// The workload, node or DaemonSet that it is about.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// The field that has the problem, as the API server writes paths:
    /// `status.containerStatuses[0].state.waiting.message`, with the pod that contains it if that is another object.
    pub path: String,
    /// A pod that has the problem. Absent if the workload itself has it.
    pub pod: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub action: String,
    /// The original text of the cluster for a translated message, at most 1 KiB.
    pub raw: Option<String>,
    /// The number of pods that have the problem.
    pub pods: usize,
    /// The nodes of these pods, at most 16.
    pub nodes: Vec<String>,
    /// Other objects that the message names: NetworkPolicies, a CSI driver and a claim, a DaemonSet.
    #[serde(default)]
    pub related: Vec<ObjectRef>,
}

/// A DaemonSet for Windows nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetPools {
    /// Its name.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// The number of Windows nodes with a pod of it.
    pub nodes: usize,
    /// The pools without a pod.
    pub missing: Vec<MissingPool>,
}

/// A pool in which a DaemonSet has no pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingPool {
    /// [`NodePool::name`].
    pub pool: String,
    /// The number of its nodes without a pod.
    pub nodes: usize,
    /// Why: the selector, affinity or taint that excludes it.
    pub because: String,
}

/// What Mullion would do in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceChanges {
    /// The namespace.
    pub namespace: String,
    /// The number of workloads.
    pub workloads: usize,
    /// The number of workloads for which Mullion would place pods: selectors, tolerations, builds, RuntimeClass.
    pub placed: usize,
    /// Rules with their effects.
    pub rules: Vec<RuleCount>,
}

/// The effect of one rule in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleCount {
    /// `MUL201`.
    pub code: String,
    /// `run-as-user`.
    pub rule: String,
    /// `Deny`, `Repair` or `Warn`.
    pub action: String,
    /// The number of workloads.
    pub workloads: usize,
}

/// A date after which something is not supported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deadline {
    /// The last day, or the day of the change.
    pub date: Date,
    /// What happens, without a period: `AKS deletes the node images of Windows Server 2019`.
    pub what: String,
    /// The objects of the cluster that it concerns, as a sentence: `3 nodes of pool win19.`
    pub concerns: String,
    /// Where the date is published: a page, or a repository with its file.
    pub source: String,
    /// The day of that publication, or on which it was read.
    pub as_of: Date,
}

impl Deadline {
    /// That of a row. `concerns`: as in the report.
    pub fn of(row: &LifecycleDate, concerns: String) -> Self {
        let LifecycleDate { date, what, source, as_of, .. } = row;
        Self { date: *date, what: what.clone(), concerns, source: source.clone(), as_of: *as_of }
    }
}

/// Something that the survey cannot know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unknown {
    /// What is not known.
    pub what: String,
    /// How to find out.
    pub resolve: String,
    /// Objects that it is about, at most [`MAX_OBJECTS`].
    pub objects: Vec<ObjectRef>,
    /// The number of all these objects.
    pub all: usize,
}

/// The maximum number of objects that an entry of a report lists.
pub const MAX_OBJECTS: usize = 50;

/// The first [`MAX_OBJECTS`] of some objects, and the number of all of them.
#[derive(Debug, Default)]
pub struct FirstObjects {
    /// The first ones.
    pub objects: Vec<ObjectRef>,
    /// The number of all.
    pub all: usize,
}

impl FirstObjects {
    /// Counts an object, and lists it if it is one of the first.
    pub fn add(&mut self, object: &ObjectRef) {
        self.all += 1;
        if self.objects.len() < MAX_OBJECTS {
            self.objects.push(object.clone());
        }
    }
}

impl FromIterator<ObjectRef> for FirstObjects {
    fn from_iter<I: IntoIterator<Item = ObjectRef>>(all: I) -> Self {
        let mut rest = all.into_iter();
        let objects: Vec<ObjectRef> = rest.by_ref().take(MAX_OBJECTS).collect();
        Self { all: objects.len() + rest.count(), objects }
    }
}

impl Unknown {
    /// What is not known of objects; `None` if there are none.
    pub fn of(what: impl Into<String>, resolve: impl Into<String>, about: FirstObjects) -> Option<Self> {
        let FirstObjects { objects, all } = about;
        (all > 0).then(|| Self { what: what.into(), resolve: resolve.into(), objects, all })
    }
}
