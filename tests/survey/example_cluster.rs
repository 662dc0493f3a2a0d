//! `examples/cluster.json.gz`: a mixed fleet with faults, as `kubectl get -o json` lists it. `UPDATE_DOCS=1` writes the file from these
//! tables. Names, images and addresses are made up; messages are those of kubelet, containerd and the scheduler.

use std::fs::{File, read};
use std::io::Read;

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

use crate::golden;

const PATH: &str = "examples/cluster.json.gz";
/// The time of the newest fact.
const NOW: &str = "2026-11-27T08:12:40Z";

/// A pool of nodes, in the way of AKS.
struct Pool {
    name: &'static str,
    /// Of Windows nodes: the kernel version of each; of Linux nodes: their number is that of the entries.
    kernels: &'static [&'static str],
    kubelet: &'static str,
    runtime: &'static str,
    tainted: bool,
}

const LINUX_KERNEL: &str = "5.15.0-1102-azure";
const WIN19: &[&str] = &["10.0.17763.8027", "10.0.17763.8027", "10.0.17763.7314"];
const WIN22: &[&str] = &["10.0.20348.4294", "10.0.20348.4294", "10.0.20348.4294", "10.0.20348.4294"];
const WIN25: &[&str] = &["10.0.26100.6899", "10.0.26100.6899"];

const POOLS: [Pool; 4] = [
    Pool {
        name: "linux",
        kernels: &[LINUX_KERNEL; 4],
        kubelet: "v1.34.2",
        runtime: "containerd://1.7.29-1",
        tainted: false,
    },
    Pool { name: "win19", kernels: WIN19, kubelet: "v1.32.9", runtime: "containerd://1.7.20+azure", tainted: true },
    Pool { name: "win22", kernels: WIN22, kubelet: "v1.34.2", runtime: "containerd://1.7.29+azure", tainted: true },
    // Added last month, without the taint.
    Pool { name: "win25", kernels: WIN25, kubelet: "v1.34.2", runtime: "containerd://2.0.4+azure", tainted: false },
];

/// The state of a container.
#[derive(Clone, Copy)]
enum State {
    Running,
    /// The index of the image has no entry for the node.
    NoPlatform,
    /// It starts and ends with this exit code.
    Crashing(u32),
    /// No node runs the pod, with the message of the scheduler.
    Pending(&'static str),
}
use State::{Crashing, NoPlatform, Pending, Running};

/// The node constraints of a template.
#[derive(Clone, Copy)]
enum Nodes {
    Nothing,
    Linux,
    /// The selector for Windows, and the toleration.
    Windows,
    /// The same, and this build.
    Build(&'static str),
    /// The selector for Windows, without the toleration.
    WindowsIntolerant,
    /// The selectors for Windows and this build, without the toleration.
    Intolerant(&'static str),
}

/// Namespace, kind, name, image, nodes, and the pods: node and state.
type Row = (&'static str, &'static str, &'static str, &'static str, Nodes, &'static [(&'static str, State)]);

const NO_ROOM: &str =
    "0/13 nodes are available: 2 Insufficient memory, 11 node(s) didn't match Pod's node affinity/selector.";
const NOT_TOLERATED: &str = "0/13 nodes are available: 4 node(s) had untolerated taint(s), 9 node(s) didn't match Pod's node affinity/selector.";

#[rustfmt::skip]
const WORKLOADS: [Row; 19] = [
    ("billing", "Deployment", "invoice-api", "registry.example.com/billing/invoice-api:4.12-ltsc2019", Nodes::Windows, &[("win19-0", Running), ("win19-1", Running), ("win19-2", Running)]),
    ("billing", "StatefulSet", "ledger", "registry.example.com/billing/ledger:9.1-ltsc2022", Nodes::Windows, &[("win22-0", Running), ("win19-1", NoPlatform)]),
    ("billing", "Deployment", "pdf-renderer", "registry.example.com/billing/pdf:2.3", Nodes::Build("10.0.17763"), &[("win19-0", Running), ("win19-2", Running)]),
    ("kube-system", "DaemonSet", "csi-azurefile-node-win", "mcr.microsoft.com/oss/kubernetes-csi/azurefile-csi:v1.33.5-windows-hp", Nodes::Windows, &[("win19-0", Running), ("win19-1", Running), ("win19-2", Running), ("win22-0", Running), ("win22-1", Running), ("win22-2", Running), ("win22-3", Running), ("win25-0", Running), ("win25-1", Running)]),
    ("kube-system", "DaemonSet", "kube-proxy", "mcr.microsoft.com/oss/v2/kubernetes/kube-proxy:v1.34.2", Nodes::Linux, &[("linux-0", Running), ("linux-1", Running), ("linux-2", Running), ("linux-3", Running)]),
    ("kube-system", "Deployment", "coredns", "mcr.microsoft.com/oss/v2/kubernetes/coredns:v1.12.1", Nodes::Linux, &[("linux-0", Running), ("linux-1", Running)]),
    ("legacy", "Deployment", "intranet", "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019", Nodes::Nothing, &[("linux-2", NoPlatform)]),
    ("legacy", "Deployment", "soap-gateway", "registry.example.com/legacy/soap:1.0.77-ltsc2025", Nodes::Nothing, &[("win25-1", Running)]),
    ("legacy", "Deployment", "sync-agent", "registry.example.com/legacy/sync:latest", Nodes::Windows, &[("win22-3", Crashing(0xC000_0135))]),
    ("monitoring", "DaemonSet", "node-agent", "quay.io/prometheus/node-exporter:v1.9.1", Nodes::Nothing, &[("linux-0", Running), ("linux-1", Running), ("linux-2", Running), ("linux-3", Running), ("win25-0", NoPlatform), ("win25-1", NoPlatform)]),
    ("monitoring", "DaemonSet", "windows-exporter", "ghcr.io/prometheus-community/windows-exporter:0.31.3", Nodes::WindowsIntolerant, &[("win25-0", Running), ("win25-1", Running)]),
    ("monitoring", "Deployment", "grafana", "docker.io/grafana/grafana:12.2.1", Nodes::Nothing, &[("linux-3", Running)]),
    ("shop", "Deployment", "cart", "registry.example.com/shop/cart:2026.11.3-ltsc2022", Nodes::Windows, &[("win22-0", Running), ("win22-1", Running), ("win22-2", Running)]),
    ("shop", "Deployment", "catalog", "registry.example.com/shop/catalog:2026.11.3-ltsc2022", Nodes::Windows, &[("win22-1", Running), ("win22-2", Running)]),
    ("shop", "Deployment", "checkout", "registry.example.com/shop/checkout:2026.11.3-ltsc2022", Nodes::Windows, &[("win22-3", Running), ("win25-0", Running)]),
    ("shop", "Deployment", "frontend", "registry.example.com/shop/frontend:2026.11.3", Nodes::Linux, &[("linux-0", Running), ("linux-1", Running), ("linux-2", Running)]),
    ("shop", "Deployment", "image-resizer", "registry.example.com/shop/resizer:2026.10.9-ltsc2022", Nodes::Intolerant("10.0.20348"), &[("", Pending(NOT_TOLERATED))]),
    ("shop", "Deployment", "recommender", "registry.example.com/shop/recommender:5-ltsc2025", Nodes::Build("10.0.26100"), &[("", Pending(NO_ROOM))]),
    ("shop", "Deployment", "search", "docker.io/library/redis:8.2", Nodes::Nothing, &[("linux-3", Running)]),
];

fn node(pool: &Pool, at: usize, kernel: &str) -> Value {
    let build = (kernel != LINUX_KERNEL).then(|| kernel.rsplit_once('.').unwrap().0);
    let os = if build.is_some() { "windows" } else { "linux" };
    let name = format!("{}-{at}", pool.name);
    let mut labels = json!({"kubernetes.io/os": os, "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name,
        "kubernetes.azure.com/agentpool": pool.name});
    if let Some(build) = build {
        labels["node.kubernetes.io/windows-build"] = json!(build);
    }
    let taints =
        if pool.tainted { json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]) } else { json!([]) };
    let room = json!({"cpu": "8", "memory": "32Gi", "pods": "60"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}],
            "nodeInfo": {"operatingSystem": os, "architecture": "amd64", "kernelVersion": kernel, "kubeletVersion": pool.kubelet,
                "containerRuntimeVersion": pool.runtime}}})
}

fn pod_spec(name: &str, image: &str, nodes: Nodes) -> Value {
    let toleration = json!([{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}]);
    let windows = json!({"kubernetes.io/os": "windows"});
    let mut spec = json!({"containers": [{"name": name, "image": image, "resources": {"limits": {"memory": "1Gi"}}}]});
    let (selector, tolerations) = match nodes {
        Nodes::Nothing => (Value::Null, Value::Null),
        Nodes::Linux => (json!({"kubernetes.io/os": "linux"}), Value::Null),
        Nodes::Windows => (windows, toleration),
        Nodes::Build(build) => {
            (json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": build}), toleration)
        }
        Nodes::Intolerant(build) => {
            (json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": build}), Value::Null)
        }
        Nodes::WindowsIntolerant => (windows, Value::Null),
    };
    for (key, value) in [("nodeSelector", selector), ("tolerations", tolerations)] {
        if !value.is_null() {
            spec[key] = value;
        }
    }
    if image.ends_with("-windows-hp") {
        spec["hostNetwork"] = json!(true);
        spec["securityContext"] =
            json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    }
    spec
}

/// The `status` of a pod.
fn status(name: &str, image: &str, state: State) -> Value {
    let scheduled = |status: &str| json!({"type": "PodScheduled", "status": status});
    let container = |ready: bool, state: Value| json!([{"name": name, "image": image, "ready": ready, "state": state}]);
    let begun = "2026-11-20T10:00:00Z";
    match state {
        Running => json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, scheduled("True")],
            "containerStatuses": container(true, json!({"running": {"startedAt": begun}}))}),
        NoPlatform => {
            let message = format!(
                "Back-off pulling image \"{image}\": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image \
                \"{image}\": no match for platform in manifest: not found"
            );
            json!({"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}, scheduled("True")],
                "containerStatuses": container(false, json!({"waiting": {"reason": "ImagePullBackOff", "message": message}}))})
        }
        Crashing(code) => {
            let waiting = json!({"waiting": {"reason": "CrashLoopBackOff",
                "message": format!("back-off 5m0s restarting failed container={name}")}});
            let mut containers = container(false, waiting);
            containers[0]["restartCount"] = json!(41);
            containers[0]["lastState"] =
                json!({"terminated": {"reason": "Error", "exitCode": code, "finishedAt": NOW}});
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}, scheduled("True")],
                "containerStatuses": containers})
        }
        Pending(message) => json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": message, "lastTransitionTime": begun}]}),
    }
}

/// A workload, its ReplicaSet and its pods.
fn workload((namespace, kind, name, image, nodes, pods): &Row, objects: &mut Vec<Value>) {
    let created = "2026-10-02T09:00:00Z";
    let labels = json!({"app": name});
    let spec = pod_spec(name, image, *nodes);
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let running = pods.iter().filter(|(_, state)| matches!(state, Running)).count();
    let mut object = json!({"apiVersion": "apps/v1", "kind": kind,
        "metadata": {"namespace": namespace, "name": name, "creationTimestamp": created},
        "spec": {"selector": {"matchLabels": labels}, "template": template}});
    if *kind == "DaemonSet" {
        object["status"] =
            json!({"desiredNumberScheduled": pods.len(), "currentNumberScheduled": pods.len(), "numberReady": running});
    } else {
        object["spec"]["replicas"] = json!(pods.len());
        object["status"] = json!({"replicas": pods.len(), "readyReplicas": running});
    }
    objects.push(object);
    let owner =
        |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": true}]);
    let set = format!("{name}-6d9f7c5b84");
    if *kind == "Deployment" {
        objects.push(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"namespace": namespace, "name": set, "creationTimestamp": created, "ownerReferences": owner(kind, name)},
            "spec": {"replicas": pods.len(), "selector": {"matchLabels": labels}, "template": template},
            "status": {"replicas": pods.len(), "readyReplicas": running}}));
    }
    for (at, (node, state)) in pods.iter().enumerate() {
        let (pod, owners, labels) = match *kind {
            "Deployment" => {
                let labels = json!({"app": name, "pod-template-hash": "6d9f7c5b84"});
                (format!("{set}-{at}"), owner("ReplicaSet", &set), labels)
            }
            _ => (format!("{name}-{at}"), owner(kind, name), labels.clone()),
        };
        let mut spec = spec.clone();
        if *kind == "DaemonSet" {
            let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": fields}]}}});
        }
        if !node.is_empty() {
            spec["nodeName"] = json!(node);
        }
        objects.push(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": namespace, "name": pod, "creationTimestamp": "2026-11-20T09:59:00Z", "labels": labels,
                "ownerReferences": owners},
            "spec": spec, "status": status(name, image, *state)}));
    }
}

/// A pod whose sandbox does not start, with the Event that has the reason.
fn sandbox_failure() -> [Value; 3] {
    let mut spec = pod_spec("preview", "registry.example.com/shop/preview:2026.11.3-ltsc2022", Nodes::Windows);
    (spec["nodeName"], spec["runtimeClassName"]) = (json!("win22-0"), json!("windows-hyperv"));
    let waiting = json!([{"name": "preview", "ready": false, "state": {"waiting": {"reason": "ContainerCreating"}}}]);
    [
        json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "windows-hyperv"},
            "handler": "runhcs-wcow-hypervisor"}),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": "preview", "creationTimestamp": "2026-11-27T08:05:00Z"}, "spec": spec,
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}], "containerStatuses": waiting}}),
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": "preview.1"}, "type": "Warning",
            "reason": "FailedCreatePodSandBox", "lastTimestamp": NOW,
            "message": "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \
                \"runhcs-wcow-hypervisor\" is configured",
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "preview"}}),
    ]
}

fn cluster() -> Value {
    let mut objects = Vec::new();
    for pool in &POOLS {
        objects.extend(pool.kernels.iter().enumerate().map(|(at, kernel)| node(pool, at, kernel)));
    }
    for namespace in ["billing", "kube-system", "legacy", "monitoring", "shop"] {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    }
    for row in &WORKLOADS {
        workload(row, &mut objects);
    }
    objects.extend(sandbox_failure());
    json!({"apiVersion": "v1", "kind": "List", "items": objects})
}

#[test]
fn the_example_is_made_from_these_tables() {
    let path = golden::path(PATH);
    let cluster = cluster();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        // Without the time and the name of a file, so that the same tables make the same bytes.
        let mut packed = GzBuilder::new().write(File::create(&path).unwrap(), Compression::best());
        serde_json::to_writer(&mut packed, &cluster).unwrap();
        packed.finish().unwrap();
    }
    let mut text = String::new();
    GzDecoder::new(&read(&path).unwrap()[..]).read_to_string(&mut text).unwrap();
    let stored: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stored, cluster, "{PATH} differs; write it again with `make rules`");
    assert!(read(&path).unwrap().len() < 20_000, "small enough for a repository");
}

/// Every pod with a node is on one of the pools above.
#[test]
fn every_pod_is_on_a_node_of_the_example() {
    let names: Vec<String> =
        POOLS.iter().flat_map(|pool| (0..pool.kernels.len()).map(|at| format!("{}-{at}", pool.name))).collect();
    for (_, _, name, _, _, pods) in &WORKLOADS {
        for (node, state) in *pods {
            let pending = matches!(state, Pending(_));
            assert_eq!(node.is_empty(), pending, "{name}");
            assert!(pending || names.iter().any(|known| known == node), "{name} on {node}");
        }
    }
}
