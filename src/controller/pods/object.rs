//! Pods as they are read.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use mullion_engine::model::names::OWN_POD_METADATA;
use mullion_snapshot::{LabelMap, or_default};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::cluster::reading::JsonText;
use crate::cluster::slim_metadata;

/// A pod with its whole spec, raw, for a review. It is parsed, reviewed and dropped.
#[derive(Deserialize, Clone, Debug)]
pub(crate) struct WholePod {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: JsonText,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: PodStatusFields,
}

/// `status`, as far as it is read.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub(crate) struct PodStatusFields {
    #[serde(deserialize_with = "or_default")]
    phase: String,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
    #[serde(rename = "startTime", deserialize_with = "or_default")]
    start_time: Option<Time>,
    #[serde(rename = "containerStatuses", deserialize_with = "or_default")]
    containers: Vec<ContainerStatus>,
    #[serde(rename = "initContainerStatuses", deserialize_with = "or_default")]
    init_containers: Vec<ContainerStatus>,
}

/// The status of a container, as far as it shows whether the container ever ran.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    #[serde(deserialize_with = "or_default")]
    ready: bool,
    #[serde(deserialize_with = "or_default")]
    restart_count: u64,
    #[serde(deserialize_with = "or_default")]
    state: ContainerState,
    #[serde(deserialize_with = "or_default")]
    last_state: ContainerState,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct ContainerState {
    running: Option<IgnoredAny>,
    terminated: Option<IgnoredAny>,
}

/// How long a pod may take until its first container starts.
const UNSTARTED: SignedDuration = SignedDuration::from_mins(10);

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

/// Where a pod is, and where its author wants it.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodLocation {
    #[serde(deserialize_with = "or_default")]
    pub(crate) node_name: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) node_selector: LabelMap,
}

impl PodStatusFields {
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

    /// Whether its kubelet accepted it ten minutes ago, and reports containers of which none may have run.
    pub(crate) fn never_started(&self, now: Timestamp) -> bool {
        let may_have_run = |one: &ContainerStatus| {
            let ran = |state: &ContainerState| state.running.is_some() || state.terminated.is_some();
            one.ready || one.restart_count > 0 || ran(&one.state) || ran(&one.last_state)
        };
        self.start_time.as_ref().is_some_and(|start| now.duration_since(start.0) >= UNSTARTED)
            && !self.containers.is_empty()
            && !self.containers.iter().chain(&self.init_containers).any(may_have_run)
    }

    /// Whether the condition of this type is true.
    pub(crate) fn has_true(&self, r#type: &str) -> bool {
        self.conditions.iter().any(|one| one.r#type == r#type && one.status == "True")
    }
}

impl WholePod {
    /// The input of a review.
    pub(crate) fn object(&self) -> Value {
        self.with_spec(self.spec.value())
    }

    /// The input of a review of the pod as its author wrote it, without what the scheduler and `kubectl debug` set.
    pub(crate) fn authored_object(&self) -> Value {
        let mut spec = self.spec.value();
        if let Value::Object(members) = &mut spec {
            members.remove("nodeName");
            members.remove("ephemeralContainers");
        }
        self.with_spec(spec)
    }

    fn with_spec(&self, spec: Value) -> Value {
        let mut object = json!({ "metadata": self.metadata });
        if let Value::Object(members) = &mut object {
            members.insert("spec".to_owned(), spec);
        }
        object
    }

    /// Where the pod is.
    pub(crate) fn placement(&self) -> PodLocation {
        self.spec.parse().unwrap_or_default()
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
    OWN_POD_METADATA.iter().any(|(parent, key)| {
        let members = if *parent == "annotations" { &metadata.annotations } else { &metadata.labels };
        members.as_ref().is_some_and(|members| members.contains_key(*key))
    })
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;
    use crate::cluster::SlimObject;

    #[test]
    fn pods_that_never_started() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let status = |start: &str, container: Value| {
            let status = json!({"startTime": start, "containerStatuses": [container]});
            serde_json::from_value::<PodStatusFields>(status).unwrap().never_started(now)
        };
        let (long_ago, just_now) = ("2026-01-01T00:00:00Z", "2026-01-01T00:59:00Z");
        let waiting = || json!({"restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}});
        assert!(status(long_ago, waiting()));
        for (start, container) in [
            (just_now, waiting()),
            (long_ago, json!({"ready": true})),
            (long_ago, json!({"restartCount": 1, "state": {"waiting": {}}})),
            (long_ago, json!({"state": {"running": {}}})),
            (long_ago, json!({"lastState": {"terminated": {"exitCode": 1}}})),
        ] {
            assert!(!status(start, container.clone()), "{start} {container}");
        }
        assert!(!PodStatusFields::default().never_started(now));
    }

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
    fn an_authored_pod_has_no_node() {
        let mut sent = sent();
        sent["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "x"}]);
        let pod: WholePod = serde_json::from_value(sent).unwrap();
        assert_eq!(pod.placement().node_name, "n");
        let spec = &pod.authored_object()["spec"];
        assert!(spec.get("nodeName").is_none() && spec.get("ephemeralContainers").is_none(), "{spec}");
        assert_eq!(spec["containers"][0]["image"], "i");
    }

    #[test]
    fn malformed_pods_are_read() {
        for malformed in [
            json!({"metadata": {}}),
            json!({"metadata": {"labels": null, "ownerReferences": null}, "spec": null, "status": null}),
            json!({"metadata": {}, "spec": {"containers": null, "nodeName": null}, "status": {"conditions": null}}),
            json!({"metadata": {}, "status": {"conditions": [{"type": null, "status": null, "reason": null}]}}),
        ] {
            let pod: WholePod = serde_json::from_value(malformed).unwrap();
            assert!(!pod.status.ready() && !reviewed(&pod.metadata) && pod.placement().node_name.is_empty());
            assert!(pod.object().is_object() && pod.authored_object().is_object());
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
            let pod: SlimObject = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            assert_eq!(reviewed(&pod.metadata), expected, "{metadata}");
        }
    }
}
