//! A workload: a Pod, or an object with a pod template.

use serde_json::Value;

/// A Pod, or an object with a pod template.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadObject<'a> {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its namespace; empty if unknown.
    pub namespace: &'a str,
    /// The whole object, as it was received.
    pub object: &'a Value,
}

/// Kinds that are a pod or contain a pod template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the Kubernetes kinds of these names")]
pub enum WorkloadKind {
    Pod,
    PodTemplate,
    ReplicationController,
    ReplicaSet,
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
}

/// The position of the pod in each kind: name, and JSON pointer to the object that has the pod's `metadata` and `spec`.
const KINDS: [(WorkloadKind, &str, &str); 9] = [
    (WorkloadKind::Pod, "Pod", ""),
    (WorkloadKind::PodTemplate, "PodTemplate", "/template"),
    (WorkloadKind::ReplicationController, "ReplicationController", "/spec/template"),
    (WorkloadKind::ReplicaSet, "ReplicaSet", "/spec/template"),
    (WorkloadKind::Deployment, "Deployment", "/spec/template"),
    (WorkloadKind::StatefulSet, "StatefulSet", "/spec/template"),
    (WorkloadKind::DaemonSet, "DaemonSet", "/spec/template"),
    (WorkloadKind::Job, "Job", "/spec/template"),
    (WorkloadKind::CronJob, "CronJob", "/spec/jobTemplate/spec/template"),
];

/// API groups whose kinds [`WorkloadKind`] names. A custom resource can have the same name (Volcano's `Job`).
const GROUPS: [&str; 4] = ["", "apps", "batch", "extensions"];

impl WorkloadKind {
    /// The kind of that name in an API group; `None` if it contains no pod, or not in the form that Kubernetes uses.
    pub fn in_group(group: &str, name: &str) -> Option<Self> {
        GROUPS.contains(&group).then(|| Self::from_name(name)).flatten()
    }

    /// The kind of an object with that `apiVersion` and `kind`.
    pub fn of_object(api_version: &str, kind: &str) -> Option<Self> {
        Self::in_group(api_version.split_once('/').map_or("", |(group, _)| group), kind)
    }

    /// The kind of that name in any API version (`extensions/v1beta1` too).
    pub fn from_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind)
    }

    /// `Pod`, `DaemonSet`, …
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// JSON pointer to the object that has the pod's `metadata` and `spec`; empty for a Pod.
    pub fn pod_pointer(self) -> &'static str {
        self.row().2
    }

    /// The `apiVersion` of its objects, and of references to it (`controllerKind` in each controller of pkg/controller). No
    /// other version of them exists from Kubernetes 1.25 on.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Pod | Self::PodTemplate | Self::ReplicationController => "v1",
            Self::ReplicaSet | Self::Deployment | Self::StatefulSet | Self::DaemonSet => "apps/v1",
            Self::Job | Self::CronJob => "batch/v1",
        }
    }

    fn row(self) -> (Self, &'static str, &'static str) {
        KINDS.iter().copied().find(|(kind, ..)| *kind == self).unwrap_or((Self::Pod, "Pod", ""))
    }
}
