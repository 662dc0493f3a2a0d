//! The category of a request: the kind of workload and the operation.

use serde_json::Value;

use crate::admission::not_reviewed::NotReviewed;
use crate::model::json_pointer::member;
use crate::model::pod_view::Pod;
use crate::model::{Operation, Requester, ReviewRequest, WorkloadKind, controller_reference};

/// The kubelet's annotation on the API object of a static pod. A change to the object would not match the pod that
/// runs.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The kind of workload and the operation: the rows of the outcome table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestCategory {
    /// A request that Mullion does not review.
    Skipped(NotReviewed),
    /// CREATE of a bare pod, of a pod whose owner has no template that Mullion reviews, or of a pod whose owner
    /// reference is not confirmed.
    Pod,
    /// CREATE of a pod of a built-in controller, by that controller.
    OwnedPod {
        /// That controller's kind.
        by: WorkloadKind,
    },
    /// CREATE of an object with a pod template, or UPDATE that changes the template.
    Template {
        /// The object's kind.
        of: WorkloadKind,
        /// Whether it is an UPDATE: then only findings that the old object does not have deny it.
        update: bool,
        /// Whether a user copied it from a stored template: a Job that names a CronJob as its owner. Mullion only warns
        /// about it.
        copied: bool,
    },
    /// UPDATE of `pods/ephemeralcontainers`.
    EphemeralContainers,
    /// UPDATE of a DaemonSet that only drops what Mullion added. Mullion restores it without a warning.
    Rewrite,
    /// UPDATE of `pods/resize`.
    Resize,
    /// Any other UPDATE.
    OtherUpdate,
}

impl RequestCategory {
    /// The category of a request; `pod`: the pod of the request's workload.
    pub fn of(request: &ReviewRequest<'_>, pod: &Pod<'_>) -> Self {
        let workload = &request.workload;
        let owner = built_in_owner(workload.object);
        let creator = owner.filter(|_| request.requester != Requester::Other);
        match (workload.kind, request.operation, request.subresource) {
            (WorkloadKind::Pod, Operation::Update, Some("ephemeralcontainers")) => RequestCategory::EphemeralContainers,
            (WorkloadKind::Pod, Operation::Update, Some("resize")) => RequestCategory::Resize,
            (_, _, Some(_)) | (_, Operation::Delete | Operation::Connect, None) => {
                RequestCategory::Skipped(NotReviewed::OtherRequest)
            }
            (WorkloadKind::Pod, Operation::Create, None) => {
                if pod.annotation(MIRROR).is_some() {
                    return RequestCategory::Skipped(NotReviewed::MirrorPod);
                }
                match creator {
                    Some(by) => RequestCategory::OwnedPod { by },
                    None => RequestCategory::Pod,
                }
            }
            (WorkloadKind::Pod, Operation::Update, None) => RequestCategory::OtherUpdate,
            // Objects that a Deployment or CronJob creates were reviewed with their template. If they were denied here,
            // their controllers would retry forever. Any other object that names a built-in controller comes from an
            // operator.
            (WorkloadKind::ReplicaSet, ..) if creator == Some(WorkloadKind::Deployment) => {
                RequestCategory::Skipped(NotReviewed::Owner(WorkloadKind::Deployment))
            }
            (WorkloadKind::Job, ..) if creator == Some(WorkloadKind::CronJob) => {
                RequestCategory::Skipped(NotReviewed::Owner(WorkloadKind::CronJob))
            }
            // `kubectl create job --from` copies the template of a CronJob, which can be older than Mullion, and names
            // the CronJob as the owner (`createJobFromCronJob`, kubectl pkg/cmd/create/create_job.go).
            (of, Operation::Create, None) => {
                let copied = of == WorkloadKind::Job && owner == Some(WorkloadKind::CronJob);
                RequestCategory::Template { of, update: false, copied }
            }
            (of, Operation::Update, None) => {
                let same = request.old.is_some_and(|old| same_at(of.pod_pointer(), old, workload.object));
                if same {
                    RequestCategory::OtherUpdate
                } else {
                    RequestCategory::Template { of, update: true, copied: false }
                }
            }
        }
    }

    /// Why the request is not reviewed; `None` if it is.
    pub fn not_reviewed(self) -> Option<NotReviewed> {
        match self {
            Self::Skipped(reason) => Some(reason),
            _ => None,
        }
    }
}

fn same_at(pointer: &str, old: &Value, new: &Value) -> bool {
    member(old, pointer) == member(new, pointer)
}

/// The kinds of built-in controllers that create pods, or objects with a pod template.
const OWNERS: [WorkloadKind; 7] = [
    WorkloadKind::ReplicationController,
    WorkloadKind::ReplicaSet,
    WorkloadKind::Deployment,
    WorkloadKind::StatefulSet,
    WorkloadKind::DaemonSet,
    WorkloadKind::Job,
    WorkloadKind::CronJob,
];

/// The built-in controller that the object names as the one that controls it.
pub(crate) fn built_in_owner(object: &Value) -> Option<WorkloadKind> {
    let owner = controller_reference(object)?;
    let text = |name| owner.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = WorkloadKind::from_name(text("kind"))?;
    (OWNERS.contains(&kind) && text("apiVersion") == kind.api_version()).then_some(kind)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;
    use crate::model::WorkloadObject;

    const BARE: RequestCategory = RequestCategory::Pod;

    fn category(kind: WorkloadKind, requester: Requester, object: &Value, old: Option<&Value>) -> RequestCategory {
        let workload = WorkloadObject { kind, namespace: "shop", object };
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let request = ReviewRequest { operation, old, requester, ..ReviewRequest::creation(workload) };
        RequestCategory::of(&request, &Pod::of(kind, object).unwrap())
    }

    fn owned(api_version: &str, kind: &str) -> Value {
        let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        json!({"metadata": {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "controller": true}]},
            "spec": {"containers": [], "template": template}})
    }

    #[test]
    fn an_owner_needs_the_version_that_exists_and_a_requester_who_is_believed() {
        for (api_version, kind, by) in [
            ("apps/v1", "DaemonSet", Some(WorkloadKind::DaemonSet)),
            ("apps/v1", "ReplicaSet", Some(WorkloadKind::ReplicaSet)),
            ("apps/v1", "StatefulSet", Some(WorkloadKind::StatefulSet)),
            ("batch/v1", "Job", Some(WorkloadKind::Job)),
            ("v1", "ReplicationController", Some(WorkloadKind::ReplicationController)),
            ("apps/v2", "DaemonSet", None),
            ("apps/", "DaemonSet", None),
            ("apps", "DaemonSet", None),
            ("apps/v1/v1", "DaemonSet", None),
            ("apps/v1beta1", "StatefulSet", None),
            ("batch/v2", "Job", None),
            ("v2", "ReplicationController", None),
            ("", "ReplicationController", None),
            ("v1", "DaemonSet", None),
            ("apps.kruise.io/v1alpha1", "DaemonSet", None),
            ("v1", "Pod", None),
            ("v1", "PodTemplate", None),
        ] {
            let believed = by.map_or(BARE, |by| RequestCategory::OwnedPod { by });
            for (requester, expected) in
                [(Requester::Unknown, believed), (Requester::BuiltInController, believed), (Requester::Other, BARE)]
            {
                let pod = owned(api_version, kind);
                let found = category(WorkloadKind::Pod, requester, &pod, None);
                assert_eq!(found, expected, "{api_version} {kind}, {requester:?}");
            }
        }
    }

    #[test]
    fn a_template_with_an_owner_is_skipped_only_from_its_controller() {
        let created = |of, copied| RequestCategory::Template { of, update: false, copied };
        let (replica_set, job) = (WorkloadKind::ReplicaSet, WorkloadKind::Job);
        for (kind, api_version, owner, by_other) in [
            (replica_set, "apps/v1", "Deployment", Some(created(replica_set, false))),
            (job, "batch/v1", "CronJob", Some(created(job, true))),
            (replica_set, "apps/v2", "Deployment", None),
            (job, "batch/v1beta1", "CronJob", None),
            (replica_set, "batch/v1", "CronJob", None),
            (job, "apps/v1", "Deployment", None),
            (WorkloadKind::DaemonSet, "apps/v1", "Deployment", None),
        ] {
            let object = owned(api_version, owner);
            for requester in [Requester::Unknown, Requester::BuiltInController, Requester::Other] {
                let expected = match by_other {
                    Some(by_other) if requester == Requester::Other => by_other,
                    Some(_) => RequestCategory::Skipped(NotReviewed::Owner(WorkloadKind::from_name(owner).unwrap())),
                    None => created(kind, false),
                };
                let found = category(kind, requester, &object, None);
                assert_eq!(found, expected, "{kind:?} of {api_version} {owner}, {requester:?}");
            }
        }
    }

    #[test]
    fn an_update_by_a_user_is_one_of_a_template() {
        let old = owned("apps/v1", "Deployment");
        let mut new = old.clone();
        let of = WorkloadKind::ReplicaSet;
        assert_eq!(category(of, Requester::Other, &new, Some(&old)), RequestCategory::OtherUpdate);
        *new.pointer_mut("/spec/template/spec").unwrap() = json!({"containers": []});
        let changed = RequestCategory::Template { of, update: true, copied: false };
        assert_eq!(category(of, Requester::Other, &new, Some(&old)), changed);
        let skipped = RequestCategory::Skipped(NotReviewed::Owner(WorkloadKind::Deployment));
        assert_eq!(category(of, Requester::BuiltInController, &new, Some(&old)), skipped);
        // A pod is reviewed whatever owner it names.
        let pod = owned("apps/v1", "DaemonSet");
        assert_eq!(category(WorkloadKind::Pod, Requester::Other, &pod, Some(&pod)), RequestCategory::OtherUpdate);
    }
}
