//! The pods that are created, in the form that a ReplicaSet creates: an AdmissionReview of one has
//! about 4 KB.

use serde_json::{Value, json};

/// The node selector that places a pod on Windows, as the API server writes it.
pub const WINDOWS_SELECTOR: &str = r#""kubernetes.io/os":"windows""#;
/// The node selector that places a pod on Linux.
pub const LINUX_SELECTOR: &str = r#""kubernetes.io/os":"linux""#;

/// A pod with a Windows image and no placement: Mullion places it.
pub fn windows() -> Value {
    pod(&json!({}), "mcr.microsoft.com/windows/servercore:ltsc2022")
}

/// A pod that its author placed on Linux: Mullion's match conditions skip it.
pub fn linux() -> Value {
    pod(&json!({"kubernetes.io/os": "linux"}), "registry.example.com/shop/web:1.2")
}

/// A Linux pod that selects no operating system, as most charts write it: Mullion places it by default.
pub fn undecided() -> Value {
    pod(&json!({}), "registry.example.com/shop/web:1.2")
}

/// A Windows pod that the validating policy and Mullion deny.
pub fn denied() -> Value {
    let mut pod = windows();
    pod["spec"]["securityContext"] = json!({"runAsUser": 1000});
    pod
}

fn pod(node_selector: &Value, image: &str) -> Value {
    let environment: Vec<Value> = (0..20)
        .map(|number| json!({"name": format!("SETTING_{number:04}"), "value": "a value of thirty-two characters"}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "web-6d4cf56db6-",
            "labels": {"app": "web", "pod-template-hash": "6d4cf56db6"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4cf56db6", "controller": true,
                "uid": "a3f0c1de-0000-4000-8000-000000000000"}],
        },
        "spec": {
            "nodeSelector": node_selector,
            "containers": [{
                "name": "web", "image": image, "env": environment,
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}}],
        },
    })
}
