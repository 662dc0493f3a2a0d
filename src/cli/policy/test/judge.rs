//! What comes of an object, as the webhook's two endpoints would have it.

use mullion_engine::admission::pod_preview::find_nodes;
use mullion_engine::admission::response::{Denial, DenialCause};
use mullion_engine::model::cluster::snapshot::ClusterSnapshot;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::review_request::ReviewRequest;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::workload::{WorkloadKind, WorkloadObject};
use mullion_engine::rules::finding::Finding;
use mullion_policy::effective::Setting;
use mullion_policy::policy_set::PolicySet;
use serde_json::{Value, json};

use crate::report::admission::Admission;
use crate::report::workload_result::WorkloadResult;

/// Everything that can be expected of an object.
pub(crate) struct Judged {
    pub(crate) kind: WorkloadKind,
    pub(crate) decided: WorkloadResult,
    /// Every key of the policies, with what holds for it.
    pub(crate) settings: Vec<Setting>,
    /// The object as its author wrote it.
    pub(crate) authored: Value,
    /// What its creation comes to.
    pub(crate) creation: Admission,
    /// The same of a pod that its controller makes; `None` for a pod, and where there is none.
    pub(crate) pod: Option<Admission>,
    /// The nodes that could run it, or its pods; `None` where the snapshot knows of none.
    pub(crate) nodes: Option<Vec<String>>,
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
    let decided = WorkloadResult::new(request, snapshot, policies);
    let mut creation = Admission::new(request, snapshot, policies);
    if creation.denial.is_none() && decided.is_refused() {
        // What the API server itself could not read.
        let lines: Vec<String> = decided.refused().map(|finding| format!("- {}", finding.sentence())).collect();
        let cause = |finding: &Finding| DenialCause {
            reason: finding.code,
            field: finding.path.clone(),
            message: finding.message_with_help(),
        };
        creation.denial = Some(Denial { message: lines.join("\n"), causes: decided.refused().map(cause).collect() });
    }
    let pod = creation.denial.is_none().then(|| pod(kind, namespace, &creation.stored)).flatten().map(|pod| {
        let pod = WorkloadObject { kind: WorkloadKind::Pod, namespace, object: &pod };
        Admission::new(&ReviewRequest::creation(pod), snapshot, policies)
    });
    let nodes = find_nodes(request, snapshot, &policies.resolve(request, snapshot))
        .map(|names| names.into_iter().map(str::to_owned).collect());
    let labels = snapshot.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let settings = Pod::of(kind, object).map(|pod| policies.effective(namespace, labels, &pod)).unwrap_or_default();
    Judged { kind, decided, settings, authored: object.clone(), creation, pod, nodes }
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
