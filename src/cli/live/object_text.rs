//! Live objects as texts, and the status of a live pod.

use mullion_engine::model::declared_features::{DeclaredFeature, needed_features};
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::{DecisionAnnotation, WorkloadKind};
use mullion_manifest::edit;
use serde::Serialize;
use serde_json::{Map, Value};

/// The annotation in which `kubectl apply` stores the applied manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The form of an object in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectForm {
    /// The form that `kubectl get -o yaml` prints, without what the API server, the scheduler and `kubectl` have added
    /// since it was created. What Mullion placed stays, and is not placed again.
    Current,
    /// The form with everything from which the authored object can be restored.
    Restorable,
}

/// A feature that the scheduler requires of the node of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NeededFeature {
    /// Its name in `status.declaredFeatures`.
    name: &'static str,
    /// The field of the pod that needs it.
    field: &'static str,
    /// The first release of Kubernetes whose scheduler requires it.
    since: String,
}

/// What the cluster has done with a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LivePodStatus {
    /// The node on which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// `Pending`, `Running`, …; `None` if the pod has no status.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    /// Why it is not scheduled, in the words of the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    unscheduled: Option<String>,
    /// The features that the scheduler requires of its node, if it is not on one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needed_features: Vec<NeededFeature>,
    /// The decision annotation: the reason, and what Mullion placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<DecisionAnnotation>,
}

/// The object as YAML.
pub(crate) fn object_text(kind: WorkloadKind, mut object: Value, form: ObjectForm) -> String {
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    let is_pod = kind == WorkloadKind::Pod;
    let keeps_applied = form == ObjectForm::Restorable && is_pod;
    if let Some(annotations) = members(&mut object, "/metadata/annotations").filter(|_| !keeps_applied) {
        annotations.remove(LAST_APPLIED);
        if annotations.is_empty()
            && let Some(metadata) = members(&mut object, "/metadata")
        {
            metadata.remove("annotations");
        }
    }
    if let Some(spec) = members(&mut object, "/spec").filter(|_| is_pod && form == ObjectForm::Current) {
        // The scheduler and `kubectl debug` set these: no pod has them when it is created.
        spec.remove("nodeName");
        spec.remove("ephemeralContainers");
    }
    // The API server adds an empty security context to every pod and template.
    if let Some(spec) = members(&mut object, &format!("{}/spec", kind.pod_pointer()))
        && spec.get("securityContext").and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        spec.remove("securityContext");
    }
    edit::document(&object)
}

fn members<'o>(object: &'o mut Value, pointer: &str) -> Option<&'o mut Map<String, Value>> {
    object.pointer_mut(pointer)?.as_object_mut()
}

impl LivePodStatus {
    /// The status of a live pod.
    pub(crate) fn of(pod: &Value) -> Self {
        let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let scheduled = conditions.into_iter().flatten().find(|one| one.get("type") == Some(&"PodScheduled".into()));
        let node = text(pod, "/spec/nodeName").filter(|node| !node.is_empty());
        let phase = text(pod, "/status/phase");
        let unscheduled = match (&node, scheduled) {
            (Some(_), _) => None,
            (None, None) if phase.is_none() => None,
            (None, None) => Some("no scheduler has tried it yet".to_owned()),
            (None, Some(condition)) => {
                let part = |pointer| text(condition, pointer).unwrap_or_default();
                Some(format!("{}: {}", part("/reason"), part("/message")).trim_matches([':', ' ']).to_owned())
            }
        };
        let waiting = Pod::of(WorkloadKind::Pod, pod).filter(|_| unscheduled.is_some());
        let needed = waiting.into_iter().flat_map(needed_features);
        let needed = needed.map(|&DeclaredFeature { name, field, since, .. }| {
            let since = since.to_string();
            NeededFeature { name, field, since }
        });
        Self { node, phase, unscheduled, needed_features: needed.collect(), decision: DecisionAnnotation::of(pod) }
    }

    /// The lines of a text about the pod.
    pub(crate) fn lines(&self) -> Vec<String> {
        let phase = self.phase.as_deref().unwrap_or("not known");
        let mut lines = vec![match (&self.node, &self.unscheduled) {
            (Some(node), _) => format!("  status: {phase}, on node {node}"),
            (None, Some(reason)) => format!("  status: {phase}, not scheduled: {reason}"),
            (None, None) => format!("  status: {phase}"),
        }];
        lines.extend(self.needed_features.iter().map(|NeededFeature { name, field, since }| {
            format!(
                "  needs a node that declares {name} in status.declaredFeatures, for {field} (since Kubernetes {since})"
            )
        }));
        if let Some(decision) = &self.decision {
            let placed: Vec<&str> = decision.placed.iter().collect();
            let placed = if placed.is_empty() { "nothing".to_owned() } else { placed.join(", ") };
            lines.push(format!(
                "  when it was created: {}, because {}; Mullion set {placed}",
                decision.os,
                decision.reason()
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "annotations": {LAST_APPLIED: "{}"}},
            "spec": {
                "containers": [{"name": "a", "image": "b", "args": ["no", "a: b", "x\ny"], "securityContext": {"procMount": "Default"}}],
                "ephemeralContainers": [{"name": "debug"}], "nodeName": "node-1", "securityContext": {},
            },
            "status": {"phase": "Running"},
        })
    }

    #[test]
    fn a_current_object_has_what_it_was_created_with() {
        let expected = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - args:
    - \"no\"
    - \"a: b\"
    - \"x\\ny\"
    image: b
    name: a
    securityContext:
      procMount: Default
";
        assert_eq!(object_text(WorkloadKind::Pod, pod(), ObjectForm::Current), expected);
        let restorable = object_text(WorkloadKind::Pod, pod(), ObjectForm::Restorable);
        assert!(restorable.contains(LAST_APPLIED) && restorable.contains("nodeName: node-1"), "{restorable}");
        assert!(!restorable.contains("status"), "{restorable}");
    }

    #[test]
    fn templates_lose_their_empty_security_context_only() {
        let template = json!({"metadata": {"annotations": {LAST_APPLIED: "x", "a": "b"}},
            "spec": {"template": {"spec": {"securityContext": {}, "nodeName": "node-1"}}}});
        for form in [ObjectForm::Current, ObjectForm::Restorable] {
            let text = object_text(WorkloadKind::Deployment, template.clone(), form);
            assert_eq!(
                text,
                "metadata:\n  annotations:\n    a: b\nspec:\n  template:\n    spec:\n      nodeName: node-1\n"
            );
        }
        for odd in [json!(null), json!([]), json!({"metadata": [], "spec": 1}), json!({})] {
            object_text(WorkloadKind::Pod, odd, ObjectForm::Current);
        }
    }

    #[test]
    fn the_status_of_pods() {
        let condition = |status: &str, reason: &str| {
            json!({"status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"},
                {"type": "PodScheduled", "status": status, "reason": reason, "message": "0/3 nodes"}]}})
        };
        let table = [
            (pod(), "  status: Running, on node node-1"),
            (condition("False", "Unschedulable"), "  status: Pending, not scheduled: Unschedulable: 0/3 nodes"),
            (
                json!({"status": {"phase": "Pending"}}),
                "  status: Pending, not scheduled: no scheduler has tried it yet",
            ),
            // A pod on a node has what it needs.
            (
                json!({"spec": {"nodeName": "node-1", "hostNetwork": true, "hostUsers": false}}),
                "  status: not known, on node node-1",
            ),
            // What no status states is not known.
            (json!({"status": 1, "spec": []}), "  status: not known"),
            (json!({"spec": {"nodeName": "node-1"}}), "  status: not known, on node node-1"),
        ];
        for (pod, expected) in table {
            assert_eq!(LivePodStatus::of(&pod).lines(), [expected]);
        }
        let mut waiting = condition("False", "Unschedulable");
        let spec = json!({"containers": [{"volumeMounts": [{"bindMountOptions": ["noexec"]}]}]});
        waiting.as_object_mut().unwrap().insert("spec".to_owned(), spec);
        let needs = "  needs a node that declares VolumeBindMountOptions in status.declaredFeatures, for bindMountOptions of a volume mount (since Kubernetes 1.37)";
        assert_eq!(LivePodStatus::of(&waiting).lines().pop().as_deref(), Some(needs));
        let mut placed = pod();
        let annotation = json!({"os": "windows", "basis": "image", "because": "of image b, by tag", "placed": ["nodeSelector", "os"]});
        *placed.pointer_mut("/metadata/annotations").unwrap() = json!({"mullion.dev/decision": annotation.to_string()});
        let last = LivePodStatus::of(&placed).lines().pop();
        let expected = "  when it was created: windows, because of image b, by tag; Mullion set nodeSelector, os";
        assert_eq!(last.as_deref(), Some(expected));
    }
}
