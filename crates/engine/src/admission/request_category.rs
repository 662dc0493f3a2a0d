//! Whose workload a request is about, and what is done to it.

use serde_json::Value;

use crate::model::json_pointer::member;
use crate::model::pod_view::Pod;
use crate::model::review_request::{Operation, ReviewRequest};
use crate::model::workload::WorkloadKind;

/// The kubelet's mark on the API object of a static pod; a changed one would not match the pod that runs.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whose workload it is, and what is done to it: the columns of the answer table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestCategory {
    /// Nothing Mullion speaks to: an unknown subresource, a mirror pod, a ReplicaSet of a Deployment or a Job of a CronJob,
    /// an opted-out namespace, a disabled policy.
    NotOurs,
    /// CREATE of a bare pod, or of a pod whose owner has no template Mullion judges.
    Pod,
    /// CREATE of a pod of a built-in controller.
    OwnedPod {
        /// That controller's kind.
        by: WorkloadKind,
    },
    /// CREATE of an object with a pod template, or UPDATE that changes the template.
    Template {
        /// The object's kind.
        of: WorkloadKind,
        /// Whether it is an UPDATE: only findings that the old object lacks refuse.
        update: bool,
    },
    /// UPDATE of `pods/ephemeralcontainers`.
    EphemeralContainers,
    /// UPDATE of a DaemonSet that drops nothing but what Mullion had put there: that is put back, and nothing is said.
    Rewrite,
    /// UPDATE of `pods/resize`.
    Resize,
    /// Any other UPDATE.
    OtherUpdate,
}

impl RequestCategory {
    /// That of a request; `pod`: its workload's.
    pub fn of(request: &ReviewRequest<'_>, pod: &Pod<'_>) -> Self {
        let subject = &request.workload;
        match (subject.kind, request.operation, request.subresource) {
            (WorkloadKind::Pod, Operation::Update, Some("ephemeralcontainers")) => RequestCategory::EphemeralContainers,
            (WorkloadKind::Pod, Operation::Update, Some("resize")) => RequestCategory::Resize,
            (_, _, Some(_)) | (_, Operation::Delete | Operation::Connect, None) => RequestCategory::NotOurs,
            (WorkloadKind::Pod, Operation::Create, None) => {
                if pod.annotation(MIRROR).is_some() {
                    return RequestCategory::NotOurs;
                }
                match controller(subject.object) {
                    Some(by) => RequestCategory::OwnedPod { by },
                    None => RequestCategory::Pod,
                }
            }
            (WorkloadKind::Pod, Operation::Update, None) => RequestCategory::OtherUpdate,
            // What a Deployment or CronJob makes was judged when they were written; refusing it here would only make
            // their controllers try again for ever. Whatever else names a built-in as its controller an operator made.
            (WorkloadKind::ReplicaSet, ..) if controller(subject.object) == Some(WorkloadKind::Deployment) => {
                RequestCategory::NotOurs
            }
            (WorkloadKind::Job, ..) if controller(subject.object) == Some(WorkloadKind::CronJob) => {
                RequestCategory::NotOurs
            }
            (of, Operation::Create, None) => RequestCategory::Template { of, update: false },
            (of, Operation::Update, None) => {
                let same = request.old.is_some_and(|old| same_at(of.pod_pointer(), old, subject.object));
                if same { RequestCategory::OtherUpdate } else { RequestCategory::Template { of, update: true } }
            }
        }
    }
}

fn same_at(pointer: &str, old: &Value, new: &Value) -> bool {
    member(old, pointer) == member(new, pointer)
}

/// Kinds whose templates Mullion judges, with the API group their owner references name.
const CONTROLLERS: [(WorkloadKind, &str); 7] = [
    (WorkloadKind::ReplicationController, ""),
    (WorkloadKind::ReplicaSet, "apps"),
    (WorkloadKind::Deployment, "apps"),
    (WorkloadKind::StatefulSet, "apps"),
    (WorkloadKind::DaemonSet, "apps"),
    (WorkloadKind::Job, "batch"),
    (WorkloadKind::CronJob, "batch"),
];

/// The built-in controller that owns the object.
fn controller(object: &Value) -> Option<WorkloadKind> {
    let owners = member(object, "/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    let text = |name| owner.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = WorkloadKind::from_name(text("kind"))?;
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    CONTROLLERS.contains(&(kind, group)).then_some(kind)
}
