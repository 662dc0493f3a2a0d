//! What is asked: one subject, as it would be written.

use serde_json::Value;

use super::image::KnownImages;
use super::world::Namespace;

/// One question to [`review`](super::review()).
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What is being done to the subject.
    pub operation: Operation,
    /// `ephemeralcontainers`, `status`, …; `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// The object after the operation.
    pub subject: Subject<'a>,
    /// The object before it; on UPDATE and DELETE.
    pub old: Option<&'a Value>,
    /// Whether placement and repairs are wanted inside every pod template (`mutate --templates`), where admission
    /// would leave them to the pods.
    pub into_templates: bool,
    /// Whether it is asked for the last time, when nothing can be changed any more: at `/validate`.
    pub settled: bool,
    /// What registries say of images, by the reference as the subject writes it; `None`: they were not asked.
    pub images: Option<&'a KnownImages>,
    /// The subject's namespace, where it is newer than the world; the world's own goes before it.
    pub namespace: Option<&'a Namespace>,
}

impl<'a> Request<'a> {
    /// Whether the subject may be created, where nothing but the subject is known.
    pub fn creation(subject: Subject<'a>) -> Self {
        Self {
            operation: Operation::Create,
            subresource: None,
            subject,
            old: None,
            into_templates: false,
            settled: false,
            images: None,
            namespace: None,
        }
    }
}

/// A Pod, or an object with a pod template.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its namespace; empty if unknown.
    pub namespace: &'a str,
    /// The whole object, as it was received.
    pub object: &'a Value,
}

/// What is being done to a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It replaces `old`.
    Update,
    /// It goes.
    Delete,
    /// `exec`, `attach`, `portforward`.
    Connect,
}

/// Kinds that are, or carry, a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the Kubernetes kinds of these names")]
pub enum Kind {
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

/// Where the pod sits in each kind: name, and JSON pointer to the object that has the pod's `metadata` and `spec`.
const KINDS: [(Kind, &str, &str); 9] = [
    (Kind::Pod, "Pod", ""),
    (Kind::PodTemplate, "PodTemplate", "/template"),
    (Kind::ReplicationController, "ReplicationController", "/spec/template"),
    (Kind::ReplicaSet, "ReplicaSet", "/spec/template"),
    (Kind::Deployment, "Deployment", "/spec/template"),
    (Kind::StatefulSet, "StatefulSet", "/spec/template"),
    (Kind::DaemonSet, "DaemonSet", "/spec/template"),
    (Kind::Job, "Job", "/spec/template"),
    (Kind::CronJob, "CronJob", "/spec/jobTemplate/spec/template"),
];

impl Kind {
    /// The kind of that name, whatever its API version (`extensions/v1beta1` too).
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

    fn row(self) -> (Self, &'static str, &'static str) {
        KINDS.iter().copied().find(|(kind, ..)| *kind == self).unwrap_or((Self::Pod, "Pod", ""))
    }
}
