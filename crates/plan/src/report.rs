//! The report of a plan, as its JSON has it. [`SCHEMA`] names the version: members are added to it, never renamed.
//!
//! Texts are whole English sentences with a full stop, unless their documentation says otherwise. Names of objects are
//! untrusted text: a format escapes them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use mullion_survey::report::{
    Coverage, Deadline, Header, Knowledge, ObjectRef, PoolWithoutNodes, Unknown, WaitingPods,
};

/// The value of [`PlanReport::schema`].
pub const SCHEMA: &str = "mullion.dev/plan/v1";

/// Everything that a plan reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was read, when, and with what.
    pub header: Header,
    /// Where the fleet moves.
    pub target: Target,
    /// What was read, and what was not.
    pub coverage: Coverage,
    /// The answer: how many workloads run as they are, need another tag, need a rebuild or are unknown; the first date; what
    /// blocks the move.
    pub summary: Vec<String>,
    /// The Windows pools and their part in the move.
    pub pools: Vec<PlanPool>,
    /// Declared pools that have no nodes.
    #[serde(default)]
    pub pools_without_nodes: Vec<PoolWithoutNodes>,
    /// Workloads with waiting pods that no node and no declared pool can run. Empty if no pool is declared, or if nodes or
    /// pods were not read.
    #[serde(default)]
    pub unserved: Vec<WaitingPods>,
    /// What Kubernetes versions and the provider permit.
    pub constraints: Vec<Constraint>,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// The other way, if the provider offers it: old pools change their Windows release in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<InPlaceChange>,
    /// The Windows workloads, by step, namespace, kind and name.
    pub workloads: Vec<PlannedWorkload>,
    /// Objects without pods that change: RuntimeClasses.
    pub objects: Vec<ObjectChange>,
    /// What behaves differently after the move.
    pub changes: Vec<BehaviorChange>,
    /// Dates of the workloads, the next first.
    pub calendar: Vec<CalendarEntry>,
    /// What the plan cannot know, and how to find out.
    pub unknown: Vec<Unknown>,
    /// The tables that the plan used.
    pub tables: Vec<TableVersion>,
}

/// Where a fleet moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Name of the Windows release: `ltsc2025`.
    pub release: String,
    /// Its build: `10.0.26100`.
    pub build: String,
    /// The releases that move, oldest first: `ltsc2022`.
    pub from: Vec<String>,
    /// The provider that the plan is for: `AKS`. Absent: none.
    pub provider: Option<String>,
    /// The minor version of Kubernetes at the end of the move: `1.36`. Absent: the present one.
    pub kubernetes: Option<String>,
    /// The pools to which workloads move.
    pub pools: Vec<TargetPool>,
    /// The taint that keeps these pools closed: `mullion.dev/move=ltsc2025:NoSchedule`.
    pub taint: String,
}

/// A pool to which workloads move, with what its nodes have while it is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetPool {
    /// The name of an existing pool, or a proposed one.
    pub name: String,
    /// Whether it exists.
    pub exists: bool,
    /// The pools whose workloads it takes.
    pub replaces: Vec<String>,
    /// The labels that matter to the workloads: those of Windows, of the provider, and those that workloads select.
    pub labels: BTreeMap<String, String>,
    /// As `kubectl taint` writes them: `os=windows:NoSchedule`.
    pub taints: Vec<String>,
}

/// A Windows pool and its part in the move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanPool {
    /// The name of the pool.
    pub name: String,
    /// Name of the Windows release.
    pub release: String,
    /// Windows build.
    pub build: String,
    /// Versions of the kubelets, as `v1.33.4`.
    pub kubelets: Vec<String>,
    /// Container runtimes with versions.
    pub runtimes: Vec<String>,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of Windows workloads with pods in it. Absent if pods were not read.
    pub workloads: Option<usize>,
    /// Its part in the move.
    pub part: PoolPart,
}

/// The part of a pool in a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PoolPart {
    /// Its workloads move, and it is removed.
    Leaves,
    /// Workloads move to it.
    Target,
    /// It stays as it is.
    Stays,
}

/// Something that a Kubernetes version or the provider permits or refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Constraint {
    /// What holds.
    pub what: String,
    /// Whether the move meets it.
    pub state: ConstraintState,
    /// What to do about it. Empty if it is met.
    pub action: String,
    /// Where it is published.
    pub source: String,
    /// The day of the source.
    pub as_of: Date,
}

/// Whether a move meets a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConstraintState {
    /// It does now.
    Met,
    /// It does after a step of the plan.
    MetByStep,
    /// It does not: the move is not possible in this way.
    NotMet,
    /// Worth knowing: it limits the order, or a source is missing.
    Notice,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// From 1.
    pub number: usize,
    /// What kind of step it is.
    pub kind: StepKind,
    /// A heading without a full stop: `Move the stateless workloads that run as they are`.
    pub title: String,
    /// Why it is here, and what to check before the next one.
    pub why: Vec<String>,
    /// The number of its workloads. [`PlannedWorkload::step`] names them.
    pub workloads: usize,
    /// What the new pool needs for them. Absent if no pod moves.
    pub capacity: Option<Capacity>,
    /// Bytes to pull on each new node, if registries were asked for all images.
    pub pull_bytes: Option<u64>,
    /// What PodDisruptionBudgets permit.
    pub disruptions: Vec<Disruption>,
    /// What to run, in order: the commands that create what its workloads need, then those that change them, at most 20, then
    /// those that check and wait.
    pub commands: Vec<PlanCommand>,
    /// How to go back.
    pub back: Vec<PlanCommand>,
}

/// How the provider changes the Windows release of old pools in place. The steps of the plan do not do it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceChange {
    /// Whether the provider offers it as a preview only.
    pub preview: bool,
    /// What the provider offers.
    pub what: String,
    /// Where it is published.
    pub source: String,
    /// The day of the source.
    pub as_of: Date,
    /// The pools that can change.
    pub pools: Vec<String>,
    /// The other pools that leave: only the steps of the plan are for them.
    pub others: Vec<String>,
    /// What differs from the steps of the plan.
    pub differs: Vec<String>,
    /// What must hold before.
    pub gates: Vec<InPlaceGate>,
    /// What to do, in order, numbered from 1.
    pub steps: Vec<Step>,
    /// The workloads of which something must change before.
    pub workloads: Vec<InPlaceWorkload>,
}

/// What must hold before pools change in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceGate {
    /// What was found.
    pub what: String,
    /// Whether it is met.
    pub state: ConstraintState,
    /// What to do about it. Empty if it is met.
    pub action: String,
}

/// A workload of which something must change before its pool changes in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceWorkload {
    /// Its name.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// Whether nodes of the target run its images; one that does not run as it is needs images that run on both releases.
    pub verdict: Verdict,
    /// The fields that place its pods, field by field.
    pub edits: Vec<FieldEdit>,
    /// How the change is made, if not with commands. Empty otherwise.
    pub instead: String,
    /// The commands that change it.
    pub commands: Vec<PlanCommand>,
    /// How to go back.
    pub back: Vec<PlanCommand>,
}

/// What kind of step it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// Upgrade the control plane.
    ControlPlane,
    /// Create the new pool, closed; or close an existing one.
    NewPool,
    /// DaemonSets, add-ons and drivers that the pool needs.
    Gate,
    /// Stateless workloads that run as they are.
    RunAsIs,
    /// Stateless workloads that need another tag.
    AnotherTag,
    /// Stateless workloads that need a rebuild.
    Rebuild,
    /// Stateless workloads of which something is unknown.
    Unknown,
    /// Workloads with state, group managed service accounts, graphics or HostProcess containers.
    Stateful,
    /// Drain and delete the old pools.
    RemovePools,
    /// Remove the taint of the new pool.
    OpenPool,
    /// Change workloads so that they run on both releases, before a pool changes in place.
    PrepareWorkloads,
    /// Change old pools in place.
    ChangePools,
}

/// What pods need of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// The number of pods.
    pub pods: usize,
    /// Requested processors, in thousandths.
    pub cpu_millis: u64,
    /// Requested memory, in bytes.
    pub memory_bytes: u64,
    /// The number of pods with a container that requests nothing, which the sums do not contain.
    pub without_requests: usize,
    /// How many nodes that takes, of the size of those in the old pools. Absent if their size was not read.
    pub nodes: Option<usize>,
}

/// What a PodDisruptionBudget permits while pods of a workload move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// The budget.
    pub budget: ObjectRef,
    /// The workload whose pods it selects.
    pub workload: ObjectRef,
    /// How many pods may be evicted at once now. Absent if its status was not read.
    pub allowed: Option<u64>,
    /// What that means for a drain.
    pub what: String,
}

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanCommand {
    /// The command, of one or more lines, for a POSIX shell. Words in capitals are for the reader to replace.
    pub run: String,
    /// What to know before it is run. Empty: nothing.
    pub note: String,
    /// What it does to the cluster.
    #[serde(default)]
    pub effect: CommandEffect,
    /// Where it is documented, and the day of the source, for a command of a provider: Mullion's tests do not run those.
    pub source: Option<String>,
    /// The day of the source.
    pub as_of: Option<Date>,
}

/// Words of commands that the reader replaces.
pub const WORDS_TO_REPLACE: [&str; 16] = [
    "CLUSTER",
    "KUBECONFIG",
    "LOCATION",
    "MACHINE_TYPE",
    "NEW-IMAGE",
    "NODE",
    "NODES",
    "OLD_MACHINE_SET",
    "OLD_POOL",
    "OPENSHIFT_VERSION",
    "POOL",
    "REGION",
    "RESOURCE_GROUP",
    "SERVER",
    "TOKEN",
    "VERSION",
];

impl PlanCommand {
    /// The words that the reader replaces before the command is run.
    pub fn words_to_replace(&self) -> Vec<&'static str> {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let words: BTreeSet<&str> = self.run.split(|c: char| !is_inner(c)).collect();
        WORDS_TO_REPLACE.into_iter().filter(|word| words.contains(word)).collect()
    }
}

/// What a command does to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CommandEffect {
    /// It changes nothing.
    Reads,
    /// It changes something, and it can be changed back.
    #[default]
    Changes,
    /// It ends pods, removes something, or nothing undoes it: a drain, a deletion, an upgrade.
    Destroys,
    /// It is for another machine, or a person changes something between its lines.
    ByHand,
}

/// Whether a workload or container runs in the new pool. The order is from best to worst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It runs as it is.
    RunsAsIs,
    /// It needs another tag of a published image.
    AnotherTag,
    /// Nobody knows.
    #[default]
    Unknown,
    /// Its image must be built again.
    Rebuild,
}

impl Verdict {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunsAsIs => "runsAsIs",
            Self::AnotherTag => "anotherTag",
            Self::Unknown => "unknown",
            Self::Rebuild => "rebuild",
        }
    }
}

/// A Windows workload in a move.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedWorkload {
    /// Its name.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// The worst verdict of its containers and image volumes.
    pub verdict: Verdict,
    /// Its containers: init, regular and injected ones.
    pub containers: Vec<PlannedContainer>,
    /// Its image volumes that a container mounts.
    #[serde(default)]
    pub image_volumes: Vec<PlannedContainer>,
    /// The number of pods. Absent if pods were not read.
    pub pods: Option<usize>,
    /// The pools in which its pods are.
    pub pools: Vec<String>,
    /// The number of its step. Absent for a workload that is not in a pool that leaves.
    pub step: Option<usize>,
    /// Whether it is not known that it moves, because its pods or the class that places them were not read. Then it has no
    /// step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub move_not_known: bool,
    /// What makes its move delicate.
    pub risks: Vec<Risk>,
    /// What manages the object.
    pub manager: Option<Manager>,
    /// What to change, field by field. An image that is still to be built or found is `NEW-IMAGE`.
    pub edits: Vec<FieldEdit>,
    /// The strategic merge patch with these edits for `kubectl patch`. Absent if nothing changes, if an image is still to be
    /// built or found, or if the object cannot be patched.
    pub patch: Option<Value>,
    /// How the change is made, if not with [`patch`](Self::patch): the source that its manager reads, or a new object.
    /// Empty otherwise.
    pub instead: String,
    /// What to run before the new pool is created: pods that tolerate every taint would enter it at once.
    pub hold: Vec<PlanCommand>,
    /// The commands that change it.
    pub commands: Vec<PlanCommand>,
    /// How to go back.
    pub back: Vec<PlanCommand>,
    /// The date until which it must have moved.
    pub deadline: Option<Deadline>,
}

impl PlannedWorkload {
    /// Its containers and image volumes.
    pub fn images(&self) -> impl Iterator<Item = (ImageUse, &PlannedContainer)> {
        let containers = self.containers.iter().map(|one| (ImageUse::Container, one));
        containers.chain(self.image_volumes.iter().map(|one| (ImageUse::Volume, one)))
    }
}

/// What a workload uses an image for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageUse {
    /// A container.
    Container,
    /// An image volume.
    Volume,
}

impl ImageUse {
    /// `container` or `volume`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Volume => "volume",
        }
    }
}

/// A container or an image volume in a move.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedContainer {
    /// Its name.
    pub name: String,
    /// Its image, as the workload has it.
    pub image: String,
    /// What added it, if that was not the author: the name of the injector, or `a webhook`.
    pub injected_by: Option<String>,
    /// The Windows builds of the image. Empty if they are unknown.
    pub builds: Vec<String>,
    /// Where the builds are known from.
    pub known_from: Knowledge,
    /// Whether the new pool runs it, or mounts it.
    pub verdict: Verdict,
    /// Why.
    pub because: String,
    /// The image to use instead.
    pub proposal: Option<Proposal>,
    /// The `FROM` line of a rebuild: `FROM mcr.microsoft.com/windows/servercore:ltsc2025`.
    pub from_line: Option<String>,
    /// What else to know: that a tag is frozen, a date, a vendor's recommendation.
    pub notes: Vec<String>,
    /// How to find out what is unknown. Empty: nothing is.
    pub find_out: String,
    /// Bytes to pull for the target, if a registry reported them.
    pub pull_bytes: Option<u64>,
}

/// An image in place of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// Its reference.
    pub image: String,
    /// How sure it is that it exists.
    pub confidence: ProposalConfidence,
    /// The product whose version changes with it: `.NET Framework 4.8 becomes 4.8.1`. Empty if none does. Without a full
    /// stop.
    pub product: String,
    /// Whether the repository is another one.
    pub other_repository: bool,
}

/// How sure it is that an image exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProposalConfidence {
    /// Its registry has it, with an image for the target.
    Registry,
    /// The table of published images has it.
    Table,
    /// Nodes of this cluster run it, whose images run on the target too.
    Running,
    /// It is the old name with the release replaced.
    Guess,
}

/// What makes the move of a workload delicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    /// Stable: `statefulSet`, `driveRootMount`.
    pub name: String,
    /// What it is.
    pub what: String,
    /// The field that shows it: `spec.template.spec.containers[0].volumeMounts[1].mountPath`.
    pub path: String,
}

/// What manages an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manager {
    /// `Helm release shop`, `Argo CD application shop`, `owner Database orders`.
    pub name: String,
    /// Where to change it: `the values or templates of the chart of Helm release shop`.
    pub change: String,
}

/// One changed field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldEdit {
    /// The field: `spec.template.spec.nodeSelector[kubernetes.azure.com/os-sku]`. An index at the end of a list: a new item.
    pub path: String,
    /// The present value. Absent: the field is.
    pub before: Option<Value>,
    /// The new value. Absent: the field is removed.
    pub after: Option<Value>,
    /// Why.
    pub why: String,
    /// For images: how sure it is that the new one exists.
    pub confidence: Option<ProposalConfidence>,
}

/// An object without pods that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// Its name.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// The number of the step whose commands create or change it.
    pub step: usize,
    /// Why.
    pub why: String,
    /// The command that creates or changes it.
    pub command: PlanCommand,
    /// How to go back. Absent: nothing is changed with a command.
    pub back: Option<PlanCommand>,
}

/// Something that behaves differently after the move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BehaviorChange {
    /// A stable name.
    pub name: String,
    /// What changes.
    pub what: String,
    /// What to check or do.
    pub check: String,
    /// When it happens: `with the image`, `with the host`, `with the platform`.
    pub moves: String,
    /// Whether a source states it for containers; otherwise it is likely.
    pub documented: bool,
    /// Why it concerns these workloads. Without a full stop: `they mount an SMB volume`.
    pub because: String,
    /// The workloads that it concerns, at most 50.
    pub workloads: Vec<ObjectRef>,
    /// The number of all of them.
    pub all: usize,
    /// Where it is published.
    pub source: String,
    /// The day of the source.
    pub as_of: Date,
}

/// The date until which workloads must have moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CalendarEntry {
    /// The date, what happens, the source.
    #[serde(flatten)]
    pub deadline: Deadline,
    /// The workloads for which it is the first date, or the first one to come after a first that has passed; at most 50. None
    /// for a date of the Kubernetes version of a pool.
    pub workloads: Vec<ObjectRef>,
    /// The number of all of them.
    pub all: usize,
}

/// A table that a plan used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableVersion {
    /// `dates`, `images`, `constraints`, `changes`, `commands`.
    pub table: String,
    /// `built-in`, or the name of the file.
    pub from: String,
    /// The day on which it was last compared with its sources.
    pub checked: Date,
    /// The number of rows.
    pub rows: usize,
}
