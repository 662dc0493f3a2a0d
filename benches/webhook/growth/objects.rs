//! Shapes of the other objects that the webhook reviews: nodes, ConfigMaps with policies, and pods in namespaces with
//! long annotations.

use serde_json::{Map, Value, json};

use crate::growth::requests::{CONFIG_MAP, HOSTILE, NODE, Request};

/// A shape, its object of that size, and its requests.
pub struct ObjectShape {
    pub name: &'static str,
    pub object: fn(usize) -> Value,
    pub requests: &'static [Request],
}

pub const OBJECTS: [ObjectShape; 9] = [
    ObjectShape {
        name: "nodeSelector that its namespace contradicts",
        object: |n| {
            let selector: Map<_, _> = (0..n).map(|at| (format!("key-{at}"), "mine".into())).collect();
            json!({"metadata": {"name": "web"}, "spec": {"nodeSelector": selector,
                "containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022"}]}})
        },
        requests: &HOSTILE,
    },
    ObjectShape { name: "labels", object: |n| with(node(), "/metadata/labels", names(n)), requests: &NODE },
    ObjectShape { name: "annotations", object: |n| with(node(), "/metadata/annotations", names(n)), requests: &NODE },
    ObjectShape {
        name: "taints",
        object: |n| {
            let taint = |at| json!({"key": format!("example.com/k{at}"), "value": "windows", "effect": "NoSchedule"});
            with(node(), "/spec/taints", (0..n).map(taint).collect())
        },
        requests: &NODE,
    },
    ObjectShape {
        name: "policy files",
        object: |n| config_map(n, |at| policy(at, "mode: Audit")),
        requests: &CONFIG_MAP,
    },
    ObjectShape {
        name: "policies in one file",
        object: |n| config_map(1, |_| (0..n).map(|at| policy(at, "mode: Audit")).collect()),
        requests: &CONFIG_MAP,
    },
    ObjectShape {
        name: "image patterns",
        object: |n| {
            let pattern = |at| format!("{{pattern: \"example.com/{at}/**\", os: windows}}, ");
            let patterns: String = (0..n).map(pattern).collect();
            config_map(1, |at| policy(at, &format!("detect: {{images: [{patterns}]}}")))
        },
        requests: &CONFIG_MAP,
    },
    ObjectShape {
        name: "faults",
        object: |n| {
            let keys: Vec<String> = (0..n).map(|at| format!("key{at}: 1")).collect();
            config_map(1, |at| policy(at, &keys.join(", ")))
        },
        requests: &CONFIG_MAP,
    },
    ObjectShape {
        name: "empty maps",
        object: |n| config_map(1, |at| policy(at, &format!("detect: {{images: [{}]}}", "{}, ".repeat(n)))),
        requests: &CONFIG_MAP,
    },
];

fn node() -> Value {
    json!({
        "metadata": {"name": "w", "labels": {"kubernetes.io/os": "windows"}, "annotations": {}},
        "spec": {"taints": []},
        "status": {"nodeInfo": {"kernelVersion": "10.0.20348.2655"}},
    })
}

/// Labels or annotations.
fn names(count: usize) -> Value {
    let mut map: Map<_, _> = (0..count).map(|at| (format!("example.com/k{at}"), "x".into())).collect();
    map.insert("kubernetes.io/os".to_owned(), "windows".into());
    map.into()
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    *object.pointer_mut(pointer).expect("a member of the object") = value;
    object
}

/// A ConfigMap with policy files.
fn config_map(files: usize, text: impl Fn(usize) -> String) -> Value {
    let data: Map<_, _> = (0..files).map(|at| (format!("f{at}.yaml"), text(at).into())).collect();
    json!({
        "metadata": {"name": "policies", "namespace": "team-1", "labels": {"mullion.dev/policy": "true"}},
        "data": data,
    })
}

fn policy(number: usize, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: mullion.dev/v1alpha1, kind: PodPolicy, metadata: {{name: p{number}}}, \
         spec: {{priority: {number}, {spec}}}}}\n"
    )
}
