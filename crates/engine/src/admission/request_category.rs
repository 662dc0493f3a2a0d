//! The category of a request: which kind of workload, and which operation.

use serde_json::Value;

use crate::model::json_pointer::member;
use crate::model::pod_view::Pod;
use crate::model::{Operation, ReviewRequest, WorkloadKind};

/// The kubelet's mark on the API object of a static pod; a changed one would not match the pod that runs.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Which kind of workload, and which operation: the rows of the outcome table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestCategory {
    /// A request that Mullion does not review: an unknown subresource, a mirror pod, a ReplicaSet of a Deployment or a
    /// Job of a CronJob, an opted-out namespace, a disabled policy.
    Skipped,
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
        /// Whether it is an UPDATE: only findings that the old object lacks deny it.
        update: bool,
    },
    /// UPDATE of `pods/ephemeralcontainers`.
    EphemeralContainers,
    /// UPDATE of a DaemonSet that only drops what Mullion had put there: that is restored without a warning.
    Rewrite,
    /// UPDATE of `pods/resize`.
    Resize,
    /// Any other UPDATE.
    OtherUpdate,
}

impl RequestCategory {
    /// The category of a request; `pod`: its workload's.
    pub fn of(request: &ReviewRequest<'_>, pod: &Pod<'_>) -> Self {
        let workload = &request.workload;
        match (workload.kind, request.operation, request.subresource) {
            (WorkloadKind::Pod, Operation::Update, Some("ephemeralcontainers")) => RequestCategory::EphemeralContainers,
            (WorkloadKind::Pod, Operation::Update, Some("resize")) => RequestCategory::Resize,
            (_, _, Some(_)) | (_, Operation::Delete | Operation::Connect, None) => RequestCategory::Skipped,
            (WorkloadKind::Pod, Operation::Create, None) => {
                if pod.annotation(MIRROR).is_some() {
                    return RequestCategory::Skipped;
                }
                match controller(workload.object) {
                    Some(by) => RequestCategory::OwnedPod { by },
                    None => RequestCategory::Pod,
                }
            }
            (WorkloadKind::Pod, Operation::Update, None) => RequestCategory::OtherUpdate,
            // The objects that a Deployment or CronJob creates were judged with their template; to deny them here would
            // only make their controllers try again forever. Any other object that names a built-in controller comes
            // from an operator.
            (WorkloadKind::ReplicaSet, ..) if controller(workload.object) == Some(WorkloadKind::Deployment) => {
                RequestCategory::Skipped
            }
            (WorkloadKind::Job, ..) if controller(workload.object) == Some(WorkloadKind::CronJob) => {
                RequestCategory::Skipped
            }
            (of, Operation::Create, None) => RequestCategory::Template { of, update: false },
            (of, Operation::Update, None) => {
                let same = request.old.is_some_and(|old| same_at(of.pod_pointer(), old, workload.object));
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
