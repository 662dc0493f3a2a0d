//! What comes of an object: as the webhook's two endpoints would have it.

use std::collections::BTreeSet;

use mullion_engine::admission::pod_preview::find_nodes;
use mullion_engine::admission::response::{Endpoint, ReviewResponse, respond};
use mullion_engine::admission::review::review;
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
use mullion_policy::effective::Setting;
use mullion_policy::policy_set::PolicySet;
use serde_json::{Value, json};

use crate::report::workload_result::Decided;

/// Everything that can be expected of an object.
pub(crate) struct Judged {
    pub(crate) kind: WorkloadKind,
    pub(crate) decided: Decided,
    /// Every key of the policies, with what holds for it.
    pub(crate) settings: Vec<Setting>,
    /// The object as it was written.
    pub(crate) written: Value,
    /// What its creation comes to.
    pub(crate) creation: Creation,
    /// That of a pod that its controller makes; `None` for a pod, and where there is none.
    pub(crate) pod: Option<Creation>,
    /// The nodes that could run it, or its pods; `None` where the snapshot knows of none.
    pub(crate) nodes: Option<Vec<String>>,
}

/// What an API server makes of a new object.
pub(crate) struct Creation {
    /// Why it is not stored.
    pub(crate) refusal: Option<Refused>,
    /// As it is stored.
    pub(crate) stored: Value,
    /// What whoever creates it is told.
    pub(crate) warnings: Vec<String>,
}

/// Words of a refusal.
pub(crate) struct Refused {
    pub(crate) message: String,
    /// `MUL201 spec.containers[0].securityContext.runAsUser`.
    pub(crate) causes: Vec<String>,
}

impl Judged {
    /// What holds for a key of the policies, and who set it.
    pub(crate) fn setting(&self, key: &str) -> (Value, Option<&Origin>) {
        let setting = self.settings.iter().find(|setting| setting.key == key);
        setting.map_or((Value::Null, None), |setting| (setting.value.clone(), setting.origin.as_ref()))
    }
}

/// Judges.
pub(crate) fn judge(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Judged {
    let WorkloadObject { kind, namespace, object } = request.workload;
    let decided = Decided::new(request, snapshot, policies);
    let mut creation = create(request, snapshot, policies);
    if creation.refusal.is_none() && decided.is_refused() {
        // What the API server itself could not read.
        let message =
            decided.refused().map(|finding| format!("- {}", finding.sentence())).collect::<Vec<_>>().join("\n");
        let causes = decided.refused().map(|finding| format!("{} {}", finding.code, finding.path)).collect();
        creation.refusal = Some(Refused { message, causes });
    }
    let pod = creation.refusal.is_none().then(|| pod(kind, namespace, &creation.stored)).flatten().map(|pod| {
        create(
            &ReviewRequest::creation(WorkloadObject { kind: WorkloadKind::Pod, namespace, object: &pod }),
            snapshot,
            policies,
        )
    });
    let nodes = find_nodes(request, snapshot, &policies.resolve(request, snapshot))
        .map(|names| names.into_iter().map(str::to_owned).collect());
    let labels = snapshot.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let settings = Pod::of(kind, object).map(|pod| policies.effective(namespace, labels, &pod)).unwrap_or_default();
    Judged { kind, decided, settings, written: object.clone(), creation, pod, nodes }
}

/// `/mutate` sees the object as it is written, `/validate` as it is patched.
fn create(request: &ReviewRequest<'_>, snapshot: &ClusterSnapshot, policies: &PolicySet) -> Creation {
    let object = request.workload.object;
    let before = review(request, snapshot, &policies.resolve(request, snapshot));
    let first = respond(&before, object, Endpoint::Mutate);
    let mut stored = object.clone();
    if first.denial.is_none() {
        // What cannot be applied leaves the object as its author wrote it.
        let applied = json_patch::patch(&mut stored, &first.patch).is_ok();
        if !applied {
            stored = object.clone();
        }
    }
    let settled = ReviewRequest {
        workload: WorkloadObject { object: &stored, ..request.workload },
        at_validate: true,
        ..*request
    };
    let second = match first.denial {
        Some(_) => ReviewResponse::default(),
        None => {
            respond(&review(&settled, snapshot, &policies.resolve(&settled, snapshot)), &stored, Endpoint::Validate)
        }
    };
    let refusal = first.denial.or(second.denial).map(|denial| Refused {
        causes: denial.causes.iter().map(|cause| format!("{} {}", cause.reason, cause.field)).collect(),
        message: denial.message,
    });
    // The API server says equal texts once.
    let mut said = BTreeSet::new();
    let warnings = first.warnings.into_iter().chain(second.warnings);
    let warnings = warnings.filter(|warning| said.insert(warning.clone())).collect();
    Creation { refusal, stored, warnings }
}

/// A pod as the controller of `object` makes it.
fn pod(kind: WorkloadKind, namespace: &str, object: &Value) -> Option<Value> {
    let template = object.pointer(kind.pod_pointer()).filter(|_| kind != WorkloadKind::Pod)?;
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("x");
    let mut metadata = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    let owner = match kind {
        WorkloadKind::Deployment | WorkloadKind::ReplicaSet => Some(("apps/v1", "ReplicaSet")),
        WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => Some(("apps/v1", kind.name())),
        WorkloadKind::Job | WorkloadKind::CronJob => Some(("batch/v1", "Job")),
        WorkloadKind::ReplicationController => Some(("v1", kind.name())),
        WorkloadKind::PodTemplate | WorkloadKind::Pod => None,
    };
    let members = metadata.as_object_mut()?;
    members.insert("generateName".to_owned(), json!(format!("{name}-")));
    members.insert("namespace".to_owned(), json!(namespace));
    members.extend(owner.map(|(version, kind)| {
        let owner = json!([{"apiVersion": version, "kind": kind, "name": name, "uid": "0", "controller": true}]);
        ("ownerReferences".to_owned(), owner)
    }));
    Some(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")?}))
}
