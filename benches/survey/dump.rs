//! A dump of a large cluster, in the form that `kubectl get nodes,pods -A -o json` prints, including members of pods
//! that a survey does not read.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};

/// Pods of one owner.
const REPLICAS: usize = 10;

/// Writes the dump, and returns the number of bytes.
pub fn write(out: impl Write, nodes: usize, pods: usize) -> io::Result<u64> {
    let mut out = Counted { out: BufWriter::with_capacity(1 << 16, out), bytes: 0 };
    out.write_all(b"{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n")?;
    for at in 0..nodes {
        serde_json::to_writer_pretty(&mut out, &node(at))?;
        out.write_all(b",\n")?;
    }
    for at in 0..pods {
        serde_json::to_writer_pretty(&mut out, &pod(at, nodes))?;
        out.write_all(if at + 1 == pods { b"\n" } else { b",\n" })?;
    }
    out.write_all(b"    ],\n    \"kind\": \"List\",\n    \"metadata\": {\"resourceVersion\": \"\"}\n}\n")?;
    out.flush()?;
    Ok(out.bytes)
}

struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Every second node has Windows, in pools of 100.
fn node(at: usize) -> Value {
    let windows = at.is_multiple_of(2);
    let (os, build, kernel) = match at % 4 {
        0 => ("windows", "10.0.20348", "10.0.20348.4294"),
        2 => ("windows", "10.0.26100", "10.0.26100.32860"),
        _ => ("linux", "", "5.15.0-1090-azure"),
    };
    let mut labels = json!({"kubernetes.io/os": os, "kubernetes.io/hostname": format!("node-{at}"), "kubernetes.io/arch": "amd64",
        "kubernetes.azure.com/agentpool": format!("pool{}-{}", at % 4, at / 400), "topology.kubernetes.io/zone": format!("z-{}", at % 3)});
    let mut spec = json!({"podCIDR": "10.244.0.0/24"});
    if windows {
        labels["node.kubernetes.io/windows-build"] = json!(build);
        spec["taints"] = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    }
    let images: Vec<Value> = (0..40)
        .map(|n| json!({"names": [format!("registry.example.com/cached/image-{n}:1")], "sizeBytes": 123_456_789}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{at}"), "labels": labels}, "spec": spec,
        "status": {"nodeInfo": {"kernelVersion": kernel, "kubeletVersion": "v1.33.5", "containerRuntimeVersion": "containerd://2.1.6"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T10:00:00Z"}], "images": images}})
}

/// Pods of Deployments, ten for each; every hundredth Deployment cannot pull its image.
fn pod(at: usize, nodes: usize) -> Value {
    let owner = at / REPLICAS;
    let windows = owner.is_multiple_of(2);
    let node = (at * 2 + usize::from(!windows)) % nodes;
    let fails = owner.is_multiple_of(100);
    let name = format!("web-{owner}-5d4f8c9b7-{:05}", at % REPLICAS);
    let os = if windows { "windows" } else { "linux" };
    let image = format!("registry.example.com/team-{}/web-{owner}:2.{}", owner % 50, owner % 9);
    let env: Vec<Value> =
        (0..20).map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("a value of some length, number {n}, of {owner}")})).collect();
    let fields: Vec<String> = (0..60).map(|n| format!("f:field-{n}")).collect();
    let managed: serde_json::Map<String, Value> =
        fields.into_iter().map(|field| (field, json!({".": {}, "f:name": {}}))).collect();
    let state = if fails {
        json!({"waiting": {"reason": "ImagePullBackOff", "message": format!("Back-off pulling image \"{image}\": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": no match for platform in manifest: not found")}})
    } else {
        json!({"running": {"startedAt": "2026-11-19T10:00:00Z"}})
    };
    let ready = if fails { "False" } else { "True" };
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": format!("team-{}", owner % 50), "name": name, "uid": format!("0b5e2f5e-0000-4000-8000-{at:012}"),
            "creationTimestamp": "2026-11-19T10:00:00Z",
            "labels": {"app": format!("web-{owner}"), "pod-template-hash": "5d4f8c9b7", "team": format!("team-{}", owner % 50)},
            "annotations": {"example.com/checksum": "0123456789abcdef".repeat(8)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-{owner}-5d4f8c9b7"), "controller": true, "uid": "1"}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": managed}]},
        "spec": {"nodeName": format!("node-{node}"), "nodeSelector": {"kubernetes.io/os": os}, "serviceAccountName": "default",
            "containers": [{"name": "web", "image": image, "env": env, "command": ["web", "--listen", ":8080"],
                "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"}},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}]}],
            "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]}}]},
        "status": {"phase": if fails { "Pending" } else { "Running" }, "hostIP": "10.0.0.1", "podIP": "10.244.0.1",
            "conditions": [{"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-19T10:00:00Z"},
                {"type": "Ready", "status": ready, "lastTransitionTime": "2026-11-19T10:00:00Z"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-19T10:00:00Z"}],
            "containerStatuses": [{"name": "web", "ready": !fails, "restartCount": 0, "image": image,
                "imageID": format!("registry.example.com/web@sha256:{}", "0123456789abcdef".repeat(4)), "state": state}]}})
}
