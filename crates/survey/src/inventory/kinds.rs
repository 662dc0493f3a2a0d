//! The kinds of objects that a survey reads, and the members of each that it stores.

use mullion_engine::model::WorkloadKind;

use crate::inventory::kept_members::{self as members, KeptMember};

/// What uses the objects of a kind, and where they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindReading {
    /// A survey and a plan, from clusters and from dumps.
    Everywhere,
    /// Only a plan, from clusters and from dumps.
    OnlyForPlans,
    /// Only findings of a survey that other kinds do not have. They are read from dumps: a survey needs no rights for them, so a
    /// cluster is not asked.
    OnlyInDumps,
}

/// A kind of object that a survey reads.
#[derive(Debug, Clone, Copy)]
pub struct SurveyKind {
    /// The value of `kind`.
    pub kind: &'static str,
    /// The name that `kubectl get` accepts.
    pub plural: &'static str,
    /// What is missing in the report without these objects, without a period.
    pub missing: &'static str,
    /// What uses these objects, and where they are read.
    pub reading: KindReading,
    /// The members of its objects that are kept.
    kept: &'static [KeptMember],
}

const fn kind(
    kind: &'static str,
    plural: &'static str,
    kept: &'static [KeptMember],
    missing: &'static str,
) -> SurveyKind {
    SurveyKind { kind, plural, missing, reading: KindReading::Everywhere, kept }
}

const fn plan_kind(
    kind: &'static str,
    plural: &'static str,
    kept: &'static [KeptMember],
    missing: &'static str,
) -> SurveyKind {
    SurveyKind { reading: KindReading::OnlyForPlans, ..self::kind(kind, plural, kept, missing) }
}

const fn dump_kind(
    kind: &'static str,
    plural: &'static str,
    kept: &'static [KeptMember],
    missing: &'static str,
) -> SurveyKind {
    SurveyKind { reading: KindReading::OnlyInDumps, ..self::kind(kind, plural, kept, missing) }
}

impl SurveyKind {
    /// Whether its objects are in namespaces.
    pub fn is_namespaced(&self) -> bool {
        !matches!(
            self.kind,
            "Node" | "Namespace" | "RuntimeClass" | "CSINode" | "PersistentVolume" | "StorageClass" | "CSIDriver"
        ) && !PROVISIONER_KINDS.iter().any(|(_, kind)| kind.kind == self.kind)
    }

    /// Whether its objects are pods, or have a pod template.
    pub fn is_workload(&self) -> bool {
        WorkloadKind::from_name(self.kind).is_some()
    }
}

/// The entry in the coverage for objects of namespaces that are not selected.
pub const OTHER_NAMESPACES: &str = "other namespaces";

/// The entry in the coverage for what inputs that cannot be read would have contained.
pub const BROKEN_INPUTS: &str = "inputs that cannot be read";

/// The entry in the coverage for objects that occur in more than one place.
pub(crate) const REPEATED: &str = "objects that occur again";

/// The entry in the coverage for pods without a status, of which it is not known whether they run.
pub(crate) const STATUSES: &str = "statuses of pods";

/// The entry in the coverage for inputs of different times.
pub(crate) const OTHER_TIMES: &str = "inputs of one time";

/// The entry in the coverage for objects that a label selector excludes. If there is one, a workload may have pods that were
/// not read.
pub const OTHER_LABELS: &str = "objects with other labels";

/// The entry in the coverage for the policies in force, if the cluster may have some that were not read.
pub const POLICIES_IN_FORCE: &str = "policies in force";

/// Every kind, in the order of the coverage.
pub const KINDS: [SurveyKind; 20] = [
    kind("Node", "nodes", members::NODE, "pools, builds, taints, dates, and why pods are stuck"),
    kind("Pod", "pods", members::POD, "what runs where, what is stuck and what is misplaced"),
    kind("Namespace", "namespaces", members::NAMESPACE, "what labels and annotations of namespaces decide"),
    kind("Event", "events", members::EVENT, "failures that the status of a pod does not repeat"),
    kind(
        "Deployment",
        "deployments",
        members::DEPLOYMENT,
        "Deployments without pods, and templates as their authors wrote them",
    ),
    kind("ReplicaSet", "replicasets", members::REPLICA_SET, "ReplicaSets without pods"),
    kind(
        "StatefulSet",
        "statefulsets",
        members::STATEFUL_SET,
        "StatefulSets without pods, and templates as their authors wrote them",
    ),
    kind("DaemonSet", "daemonsets", members::DAEMON_SET, "the pools that a DaemonSet does not reach"),
    kind("Job", "jobs", members::JOB, "Jobs without pods, and the CronJob that a Job is from"),
    kind("CronJob", "cronjobs", members::CRON_JOB, "CronJobs without pods"),
    kind(
        "ReplicationController",
        "replicationcontrollers",
        members::REPLICA_SET,
        "ReplicationControllers without pods",
    ),
    kind(
        "RuntimeClass",
        "runtimeclasses",
        members::RUNTIME_CLASS,
        "what a RuntimeClass adds to its pods, and which pods run in virtual machines",
    ),
    plan_kind(
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        members::POD_DISRUPTION_BUDGET,
        "the budgets for which a drain waits",
    ),
    plan_kind(
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        members::HORIZONTAL_POD_AUTOSCALER,
        "how many pods a workload has at most",
    ),
    kind("CSINode", "csinodes", members::CSI_NODE, "the CSI drivers of the nodes"),
    dump_kind(
        "NetworkPolicy",
        "networkpolicies",
        members::NETWORK_POLICY,
        "NetworkPolicies that nothing enforces on Windows nodes",
    ),
    dump_kind(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        members::PERSISTENT_VOLUME_CLAIM,
        "the CSI drivers of the volumes of pods",
    ),
    dump_kind(
        "PersistentVolume",
        "persistentvolumes",
        members::PERSISTENT_VOLUME,
        "the CSI drivers of the volumes of pods",
    ),
    dump_kind("StorageClass", "storageclasses", members::STORAGE_CLASS, "the CSI drivers of claims without a volume"),
    dump_kind(
        "CSIDriver",
        "csidrivers",
        members::CSI_DRIVER,
        "whether the scheduler keeps pods off nodes without their CSI driver",
    ),
];

/// The kinds of Karpenter, each with the group of its API. Few clusters have them, so a cluster without them lacks
/// nothing.
pub const PROVISIONER_KINDS: [(&str, SurveyKind); 3] = [
    (
        "karpenter.sh",
        kind("NodePool", "nodepools.karpenter.sh", members::NODE_POOL, "the pools that Karpenter can start"),
    ),
    (
        "karpenter.k8s.aws",
        kind(
            "EC2NodeClass",
            "ec2nodeclasses.karpenter.k8s.aws",
            members::NODE_CLASS,
            "the Windows builds of the pools that Karpenter can start",
        ),
    ),
    (
        "karpenter.azure.com",
        kind(
            "AKSNodeClass",
            "aksnodeclasses.karpenter.azure.com",
            members::NODE_CLASS,
            "the systems of the pools that Karpenter can start",
        ),
    ),
];

fn all_kinds() -> impl Iterator<Item = SurveyKind> {
    KINDS.into_iter().chain(PROVISIONER_KINDS.into_iter().map(|(_, kind)| kind))
}

/// The plural of a kind that a survey reads.
pub fn plural_of(kind: &str) -> Option<&'static str> {
    all_kinds().find(|known| known.kind == kind).map(|known| known.plural)
}

/// The kind with that plural.
pub(crate) fn kind_of_plural(plural: &str) -> Option<SurveyKind> {
    all_kinds().find(|known| known.plural == plural)
}

/// Whether an object is of a kind that a survey reads and not a custom resource of the same name. Items of a typed list have
/// no `apiVersion`.
pub(crate) fn is_of_known_group(kind: &str, api_version: Option<&str>) -> bool {
    let group = api_version.and_then(|version| version.split_once('/')).map(|(group, _)| group);
    if let Some((own, _)) = PROVISIONER_KINDS.iter().find(|(_, known)| known.kind == kind) {
        return group == Some(own);
    }
    kind == IMAGE_PLATFORMS || !group.is_some_and(|group| group.contains('.') && !group.ends_with(".k8s.io"))
}

/// Whether the objects of a kind, by its plural, are read only from dumps.
pub(crate) fn is_only_in_dumps(plural: &str) -> bool {
    KINDS.iter().any(|kind| kind.plural == plural && kind.reading == KindReading::OnlyInDumps)
}

/// Mullion's own object with what registries report about images. It is part of no cluster, so it is not in [`KINDS`].
pub(crate) const IMAGE_PLATFORMS: &str = "ImagePlatforms";

/// The members of a kind that are kept; `None` for a kind that a survey does not read.
pub(crate) fn kept_members_of(kind: &str) -> Option<&'static [KeptMember]> {
    if kind == IMAGE_PLATFORMS {
        return Some(members::IMAGE_PLATFORMS);
    }
    all_kinds().find(|known| known.kind == kind).map(|known| known.kept)
}
