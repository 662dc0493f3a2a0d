//! The kinds of objects that a survey reads.

/// A kind of object that a survey reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SurveyKind {
    /// The value of `kind`.
    pub kind: &'static str,
    /// The name that `kubectl get` accepts.
    pub plural: &'static str,
    /// What is missing in the report without these objects, without a period.
    pub missing: &'static str,
    /// Whether only a plan uses these objects.
    pub only_for_plans: bool,
}

const fn kind(kind: &'static str, plural: &'static str, missing: &'static str) -> SurveyKind {
    SurveyKind { kind, plural, missing, only_for_plans: false }
}

const fn plan_kind(kind: &'static str, plural: &'static str, missing: &'static str) -> SurveyKind {
    SurveyKind { kind, plural, missing, only_for_plans: true }
}

/// The entry in the coverage for objects that a label selector excludes. If there is one, a workload may have pods that were
/// not read.
pub const OTHER_LABELS: &str = "objects with other labels";

/// Every kind, in the order of the coverage.
pub const KINDS: [SurveyKind; 15] = [
    kind("Node", "nodes", "pools, builds, taints, dates, and why pods are stuck"),
    kind("Pod", "pods", "what runs where, what is stuck and what is misplaced"),
    kind("Namespace", "namespaces", "what labels and annotations of namespaces decide"),
    kind("Event", "events", "failures that the status of a pod does not repeat"),
    kind("Deployment", "deployments", "Deployments without pods, and templates as their authors wrote them"),
    kind("ReplicaSet", "replicasets", "ReplicaSets without pods"),
    kind("StatefulSet", "statefulsets", "StatefulSets without pods, and templates as their authors wrote them"),
    kind("DaemonSet", "daemonsets", "the pools that a DaemonSet does not reach"),
    kind("Job", "jobs", "Jobs without pods, and the CronJob that a Job is from"),
    kind("CronJob", "cronjobs", "CronJobs without pods"),
    kind("ReplicationController", "replicationcontrollers", "ReplicationControllers without pods"),
    kind(
        "RuntimeClass",
        "runtimeclasses",
        "what a RuntimeClass adds to its pods, and which pods run in virtual machines",
    ),
    plan_kind("PodDisruptionBudget", "poddisruptionbudgets", "the budgets for which a drain waits"),
    plan_kind("HorizontalPodAutoscaler", "horizontalpodautoscalers", "how many pods a workload has at most"),
    plan_kind("CSINode", "csinodes", "the CSI drivers of the nodes"),
];

/// The plural of a kind that a survey reads.
pub fn plural_of(kind: &str) -> Option<&'static str> {
    KINDS.iter().find(|known| known.kind == kind).map(|known| known.plural)
}
