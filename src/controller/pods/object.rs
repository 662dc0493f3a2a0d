//! Pods as they are read: whole if a review needs them, and as little as possible otherwise.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use mullion_engine::model::names::{DECISION_ANNOTATION, FINDINGS_LABEL, IMAGE_BUILD_LABEL};
use mullion_snapshot::{LabelMap, or_default};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cluster::slim_metadata;

/// A pod with its whole spec, raw, for a review. It is parsed, reviewed and dropped.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = core::Pod)]
pub(crate) struct WholePod {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Value,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: PodStatus,
}

/// A pod with what decides its operating system, and no more: a page of a list contains 500.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = core::Pod)]
pub(crate) struct PlacedPod {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: PlacedSpec,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: PodStatus,
}

/// A pod of which only its owner and its labels matter.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = core::Pod)]
pub(crate) struct LabelledPod {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
}

/// `status`, as far as it is read.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub(crate) struct PodStatus {
    #[serde(deserialize_with = "or_default")]
    phase: String,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct Condition {
    #[serde(deserialize_with = "or_default")]
    r#type: String,
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
}

/// The members of `spec` that decide the operating system. Their values stay raw.
#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PlacedSpec {
    /// Not serialized, because the scheduler sets the node, not the author.
    #[serde(skip_serializing, deserialize_with = "or_default")]
    pub(crate) node_name: String,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "LabelMap::is_empty")]
    pub(crate) node_selector: LabelMap,
    os: Value,
    affinity: Value,
    runtime_class_name: Value,
    security_context: Value,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<PlacedContainer>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<PlacedContainer>,
}

#[derive(Deserialize, Serialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct PlacedContainer {
    name: Value,
    image: Value,
    command: Value,
    security_context: Value,
}

impl PodStatus {
    /// Whether the scheduler has found no node for the pod.
    pub(crate) fn unschedulable(&self) -> bool {
        self.conditions.iter().any(|one| one.r#type == "PodScheduled" && one.reason == "Unschedulable")
    }

    /// Whether its containers have ended and are not restarted.
    pub(crate) fn ended(&self) -> bool {
        ["Succeeded", "Failed"].contains(&self.phase.as_str())
    }

    /// Whether it is Ready.
    pub(crate) fn ready(&self) -> bool {
        self.has_true("Ready")
    }

    /// Whether the condition of this type is true.
    pub(crate) fn has_true(&self, r#type: &str) -> bool {
        self.conditions.iter().any(|one| one.r#type == r#type && one.status == "True")
    }
}

impl WholePod {
    /// The input of a review.
    pub(crate) fn object(&self) -> Value {
        json!({ "metadata": self.metadata, "spec": self.spec })
    }
}

impl PlacedPod {
    /// The input of a review, without the node.
    pub(crate) fn object(&self) -> Value {
        json!({ "metadata": self.metadata, "spec": self.spec })
    }
}

/// The controller among the owners. There is at most one.
pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// The value that pods of one owner share: the uid of their controller, or the pod's own uid if it does not have a
/// controller.
pub(crate) fn owner_uid(metadata: &ObjectMeta) -> String {
    controller(metadata).map(|owner| &owner.uid).or(metadata.uid.as_ref()).cloned().unwrap_or_default()
}

/// Whether Mullion reviewed the pod when it was created: it has the decision annotation, or a label of Mullion if
/// someone removed the annotation.
pub(crate) fn reviewed(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.iter().flatten();
    metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DECISION_ANNOTATION))
        || labels.map(|(key, _)| key.as_str()).any(|key| LABELS.contains(&key))
}

/// Labels that only Mullion sets on pods.
const LABELS: [&str; 2] = [IMAGE_BUILD_LABEL, FINDINGS_LABEL];

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;

    fn sent() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "kubectl"}],
                "labels": {"app": "web"}, "annotations": {"mullion.dev/os": "windows"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": true}]},
            "spec": {"nodeName": "n", "fromTheFuture": {"a": [1]}, "nodeSelector": null,
                "tolerations": [{"key": "team", "operator": "Gt", "value": "5", "fromTheFuture": true}],
                "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}]}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        })
    }

    #[test]
    fn a_whole_pod_keeps_its_spec_unchanged() {
        let pod: WholePod = serde_json::from_value(sent()).unwrap();
        assert!(pod.status.unschedulable() && !pod.status.ready());
        assert_eq!(controller(&pod.metadata).unwrap().name, "web-1");
        let object = pod.object();
        assert_eq!(object["spec"], sent()["spec"]);
        assert!(object["metadata"].get("managedFields").is_none());
        assert_eq!(object["metadata"]["labels"], sent()["metadata"]["labels"]);
        assert_eq!(object["metadata"]["ownerReferences"], sent()["metadata"]["ownerReferences"]);
    }

    #[test]
    fn a_placed_pod_keeps_what_decides_its_operating_system() {
        let pod: PlacedPod = serde_json::from_value(sent()).unwrap();
        assert_eq!(pod.spec.node_name, "n");
        let spec = &pod.object()["spec"];
        assert!(spec.get("nodeName").is_none() && spec.get("tolerations").is_none(), "{spec}");
        assert_eq!(spec["containers"][0]["image"], "i");
        assert!(spec["containers"][0].get("env").is_none(), "{spec}");
    }

    #[test]
    fn malformed_pods_are_read() {
        for malformed in [
            json!({"metadata": {}}),
            json!({"metadata": {"labels": null, "ownerReferences": null}, "spec": null, "status": null}),
            json!({"metadata": {}, "spec": {"containers": null, "nodeName": null}, "status": {"conditions": null}}),
            json!({"metadata": {}, "status": {"conditions": [{"type": null, "status": null, "reason": null}]}}),
        ] {
            let whole: WholePod = serde_json::from_value(malformed.clone()).unwrap();
            assert!(!whole.status.ready() && !reviewed(&whole.metadata));
            let placed: PlacedPod = serde_json::from_value(malformed).unwrap();
            assert!(placed.object().is_object());
        }
    }

    #[test]
    fn reviewed_pods_have_the_annotation_or_a_label() {
        for (metadata, expected) in [
            (json!({}), false),
            (json!({"annotations": {"mullion.dev/os": "windows"}, "labels": {"app": "web"}}), false),
            (json!({"annotations": {"mullion.dev/decision": "{}"}}), true),
            (json!({"labels": {"mullion.dev/windows-build": "10.0.20348"}}), true),
            (json!({"labels": {"mullion.dev/findings": "MUL201"}}), true),
        ] {
            let pod: LabelledPod = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            assert_eq!(reviewed(&pod.metadata), expected, "{metadata}");
        }
    }
}
