//! The requests in which a shape of object is reviewed, as the API server sends them.

use serde_json::{Value, json};

/// A kind, an operation and a subresource.
#[derive(Clone, Copy)]
pub struct Request {
    pub kind: &'static str,
    pub operation: &'static str,
    pub subresource: &'static str,
    /// The kind of the controller that a pod names as its owner; empty: none.
    pub owner: &'static str,
    pub namespace: &'static str,
}

const fn request(kind: &'static str, operation: &'static str, subresource: &'static str) -> Request {
    Request { kind, operation, subresource, owner: "", namespace: "team-1" }
}

/// The requests for pods and templates, at least one for each category: an UPDATE of most templates also reviews the old
/// object, and one of a DaemonSet also compares placements.
pub const REQUESTS: [Request; 10] = [
    request("Pod", "CREATE", ""),
    Request { owner: "DaemonSet", ..request("Pod", "CREATE", "") },
    request("Pod", "UPDATE", "resize"),
    request("DaemonSet", "CREATE", ""),
    request("StatefulSet", "CREATE", ""),
    request("Pod", "UPDATE", "ephemeralcontainers"),
    request("Deployment", "UPDATE", ""),
    request("DaemonSet", "UPDATE", ""),
    request("Job", "UPDATE", ""),
    request("CronJob", "UPDATE", ""),
];

/// The requests for pods in [the namespaces with long node selectors](crate::fleet::hostile_items).
pub const HOSTILE: [Request; 4] = [
    Request { namespace: "selects-much", ..request("Pod", "CREATE", "") },
    Request { namespace: "selects-much", ..request("DaemonSet", "UPDATE", "") },
    Request { namespace: "selects-too-much", ..request("Pod", "CREATE", "") },
    Request { namespace: "selects-too-much", ..request("DaemonSet", "UPDATE", "") },
];

/// The requests for other objects.
pub const NODE: [Request; 1] = [request("Node", "CREATE", "")];
pub const CONFIG_MAP: [Request; 2] = [request("ConfigMap", "CREATE", ""), request("ConfigMap", "UPDATE", "")];

impl Request {
    /// `UPDATE Deployment`.
    pub fn name(self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let owner = if self.owner.is_empty() { String::new() } else { format!(" of a {}", self.owner) };
        let namespace = if self.namespace == "team-1" { String::new() } else { format!(" in {}", self.namespace) };
        format!("{} {}{slash}{}{owner}{namespace}", self.operation, self.kind, self.subresource)
    }

    /// The body for `pod`; `old`: the pod before an UPDATE, if the shape has one of its own.
    pub fn body(self, pod: &Value, old: Option<&Value>) -> Vec<u8> {
        let (mut pod, mut old) = (pod.clone(), old.cloned());
        if self.operation == "UPDATE" && old.is_none() {
            old = Some(pod.clone());
            if self.subresource != "ephemeralcontainers" {
                // Without a difference in the template nothing is reviewed.
                pod["metadata"]["labels"]["changed"] = "yes".into();
            } else if let Some(list) = added_to(&mut pod) {
                list.push(json!({"name": "debugger", "image": "registry.example.com/shop/debug:1"}));
            }
        }
        let old = if self.operation == "UPDATE" { self.object(old.as_ref()) } else { Value::Null };
        let group = match self.kind {
            "Pod" | "Node" | "ConfigMap" => "",
            "Job" | "CronJob" => "batch",
            _ => "apps",
        };
        let (Self { kind, operation, subresource, namespace, .. }, object) = (self, self.object(Some(&pod)));
        format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"0df28fbd-5f5f-11e8-bc74-36e6bb280816","kind":{{"group":"{group}","version":"v1","kind":"{kind}"}},"resource":{{"group":"{group}","version":"v1","resource":"r"}},"subResource":"{subresource}","namespace":"{namespace}","operation":"{operation}","userInfo":{{"username":"kubernetes-admin"}},"object":{object},"oldObject":{old},"dryRun":false}}}}"#
        )
        .into_bytes()
    }

    /// An object of the kind around the pod. Annotations of the object itself are those of the pod's metadata.
    fn object(self, pod: Option<&Value>) -> Value {
        let mut pod = pod.cloned().unwrap_or_default();
        if !self.owner.is_empty() {
            let owner =
                json!({"apiVersion": "apps/v1", "kind": self.owner, "name": "web", "uid": "u", "controller": true});
            pod["metadata"]["ownerReferences"] = json!([owner]);
        }
        let mut object = match self.kind {
            "Pod" | "Node" | "ConfigMap" => return pod.take(),
            "CronJob" => json!({"spec": {"jobTemplate": {"spec": {"template": pod.clone()}}}}),
            _ => json!({"spec": {"template": pod.clone()}}),
        };
        object["metadata"] = json!({"name": "web", "annotations": pod["metadata"]["annotations"]});
        object["kind"] = self.kind.into();
        object
    }
}

/// The ephemeral containers of a pod.
fn added_to(pod: &mut Value) -> Option<&mut Vec<Value>> {
    let list = &mut pod["spec"]["ephemeralContainers"];
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut()
}
