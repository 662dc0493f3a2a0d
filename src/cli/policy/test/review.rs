//! The results of an object, as from the webhook's two endpoints.

use mullion_engine::admission::{Denial, DenialCause};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::Origin;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::rules::Finding;
use mullion_policy::{EffectiveSetting, PolicySet};
use serde_json::{Value, json};

use crate::report::{Admission, WorkloadResult};

/// Everything that a test case can expect of an object.
pub(crate) struct TestedObject {
    pub(crate) kind: WorkloadKind,
    pub(crate) decided: WorkloadResult,
    /// Every key of the policies, with its value for the object.
    pub(crate) settings: Vec<EffectiveSetting>,
    /// The object as its author wrote it.
    pub(crate) authored: Value,
    /// The admission of the object.
    pub(crate) creation: Admission,
    /// The admission of a pod that its controller creates; `None` for a pod, and without a pod template.
    pub(crate) pod: Option<Admission>,
}

impl TestedObject {
    /// The value of a key of the policies, and its origin.
    pub(crate) fn setting(&self, key: &str) -> (Value, Option<&Origin>) {
        let setting = self.settings.iter().find(|setting| setting.key == key);
        setting.map_or((Value::Null, None), |setting| (setting.value.clone(), setting.origin.as_ref()))
    }
}

/// Reviews the object of `request`.
pub(crate) fn review_object(
    request: &ReviewRequest<'_>,
    snapshot: &ClusterSnapshot,
    policies: &PolicySet,
) -> TestedObject {
    let WorkloadObject { kind, namespace, object } = request.workload;
    let decided = WorkloadResult::new(request, snapshot, policies).with_nodes(request, snapshot, policies);
    let mut creation = Admission::new(request, snapshot, policies);
    if creation.denial.is_none() && decided.is_denied() {
        // The API server itself rejects values of the wrong type.
        let lines: Vec<String> = decided.denials().map(|finding| format!("- {}", finding.sentence())).collect();
        let cause = |finding: &Finding| DenialCause {
            reason: finding.code,
            field: finding.path.clone(),
            message: finding.message_with_help(),
        };
        creation.denial = Some(Denial {
            message: lines.join("\n"),
            causes: decided.denials().map(cause).collect(),
            ..Denial::default()
        });
    }
    let pod = creation.denial.is_none().then(|| pod(kind, namespace, &creation.stored)).flatten().map(|pod| {
        let pod = WorkloadObject { kind: WorkloadKind::Pod, namespace, object: &pod };
        Admission::new(&ReviewRequest::creation(pod), snapshot, policies)
    });

    let labels = snapshot.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let settings = Pod::of(kind, object).map(|pod| policies.effective(namespace, labels, &pod)).unwrap_or_default();
    TestedObject { kind, decided, settings, authored: object.clone(), creation, pod }
}

/// A pod as the controller of `object` creates it.
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
