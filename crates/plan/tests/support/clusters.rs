//! Random clusters: images with the builds that they have in truth, and workloads of every kind with their pods, as the API
//! server and containerd write them.

#![allow(dead_code, reason = "each suite uses a part")]
#![allow(missing_debug_implementations, unreachable_pub, reason = "a module of several test programs")]

use proptest::prelude::*;
use serde_json::{Value, json};

pub const BUILDS: [u32; 4] = [17763, 19041, 20348, 26100];
pub const RELEASES: [(u32, &str); 3] = [(17763, "ltsc2019"), (20348, "ltsc2022"), (26100, "ltsc2025")];

/// Where the builds of an image stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nowhere.
    Hidden,
    /// In the tag.
    Tag,
    /// In the index, which was read.
    Registry,
}

/// An image with the builds that it has in truth, and the containers with it.
#[derive(Debug, Clone)]
pub struct TrueImage {
    pub builds: Vec<u32>,
    pub known: Known,
    /// The builds of the image that the tag named before, which some pods still run.
    pub before: Option<Vec<u32>>,
    pub pods: Vec<TruePod>,
}

#[derive(Debug, Clone)]
pub struct TruePod {
    pub node: usize,
    /// Which of the things that can happen has happened.
    pub event: usize,
    /// Whether it was created before the tag was moved.
    pub is_old: bool,
}

pub fn has(builds: &[u32], host: u32) -> bool {
    builds.iter().any(|build| *build == host || (host == 26100 && (20348..=host).contains(build)))
}

impl TrueImage {
    pub fn name(&self, at: usize) -> String {
        let tag = RELEASES.iter().find(|(build, _)| self.known == Known::Tag && self.builds == [*build]);
        tag.map_or_else(
            || format!("registry.example.com/web{at}:1"),
            |(_, tag)| format!("registry.example.com/web{at}:1-{tag}"),
        )
    }

    pub fn builds_for<'t>(&'t self, pod: &TruePod) -> (&'t [u32], char) {
        match &self.before {
            // A pod that cannot run the former image pulls the present one.
            Some(before) if pod.is_old && has(before, BUILDS[pod.node]) => (before, 'b'),
            _ => (&self.builds, 'a'),
        }
    }

    /// Whether a container with the present image started under process isolation.
    pub fn started(&self, pod: &TruePod) -> bool {
        let (builds, digest) = self.builds_for(pod);
        digest == 'a' && pod.event < 4 && has(builds, BUILDS[pod.node])
    }

    pub fn objects(&self, at: usize) -> Vec<Value> {
        let name = &self.name(at);
        let mut all = vec![deployment(&format!("web{at}"), name, false), deployment(&format!("host{at}"), name, true)];
        if self.known == Known::Registry {
            let entry = |build: &u32| json!({"os": "windows", "architecture": "amd64", "os.version": format!("10.0.{build}.1")});
            let entries: Vec<Value> = self.builds.iter().map(entry).collect();
            let images = json!({name: {"index": entries}});
            all.push(json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "ImagePlatforms", "images": images}));
        }
        for (number, pod) in self.pods.iter().enumerate() {
            all.extend(self.pod(at, number, pod));
        }
        all
    }

    /// A pod with its Events, with the status that the kubelet writes with containerd.
    pub fn pod(&self, at: usize, number: usize, pod: &TruePod) -> Vec<Value> {
        let (builds, digest) = self.builds_for(pod);
        let image = self.name(at);
        let started = "2026-11-19T10:00:00Z";
        let is_host_process = pod.event == 6;
        let ended = json!({"terminated": {"reason": "Error", "exitCode": 1, "startedAt": started}});
        let waits = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        let crashes = waits("CrashLoopBackOff", "back-off 5m0s restarting failed container");
        let (state, last, is_ready) = match pod.event {
            4 | 5 => (waits("ContainerCreating", ""), json!({}), false),
            0 | 6 if is_host_process || has(builds, BUILDS[pod.node]) => {
                (json!({"running": {"startedAt": started}}), json!({}), true)
            }
            1 if has(builds, BUILDS[pod.node]) => (json!({"running": {"startedAt": started}}), json!({}), false),
            2 if has(builds, BUILDS[pod.node]) => (ended, json!({}), false),
            _ if has(builds, BUILDS[pod.node]) => (crashes, ended, false),
            // A single manifest is pulled without a comparison.
            _ if builds.len() == 1 && self.known != Known::Registry => {
                let message = "failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem 1: The container operating system does not match the host operating system.: unknown";
                let never = json!({"terminated": {"reason": "StartError", "exitCode": 128, "message": message, "startedAt": "1970-01-01T00:00:00Z"}});
                (crashes, never, false)
            }
            _ => {
                let message = format!(
                    "failed to pull and unpack image \"{image}\": no match for platform in manifest: not found"
                );
                (waits("ErrImagePull", &message), json!({}), false)
            }
        };
        let owner = if is_host_process { format!("host{at}") } else { format!("web{at}") };
        let pod_name = format!("{owner}-5d-{number}");
        let digest = digest.to_string().repeat(64);
        let status = json!({
            "phase": if is_ready { "Running" } else { "Pending" },
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}],
            "containerStatuses": [{"name": "a", "ready": is_ready, "state": state, "lastState": last, "image": image,
                "imageID": format!("registry.example.com/web{at}@sha256:{digest}")}],
        });
        let mut spec = spec(&image, is_host_process);
        spec["nodeName"] = json!(format!("w{}", BUILDS[pod.node]));
        let mut all = vec![json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": pod_name, "labels": {"pod-template-hash": "5d"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": format!("{owner}-5d"), "controller": true}]},
            "spec": spec, "status": status,
        })];
        let message = match pod.event {
            4 => {
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox container task: hcs::CreateComputeSystem 1: The container operating system does not match the host operating system.: unknown"
            }
            5 => {
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"1\": plugin type=\"azure-vnet\" failed"
            }
            _ => return all,
        };
        all.push(json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": format!("{pod_name}.1")},
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": pod_name},
            "reason": "FailedCreatePodSandBox", "message": message, "lastTimestamp": started,
        }));
        all
    }
}

pub fn spec(image: &str, is_host_process: bool) -> Value {
    let mut spec =
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "a", "image": image}]});
    if is_host_process {
        spec["hostNetwork"] = json!(true);
        spec["securityContext"] =
            json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    }
    spec
}

pub fn deployment(name: &str, image: &str, is_host_process: bool) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": name},
        "spec": {"replicas": 2, "template": {"spec": spec(image, is_host_process)}},
    })
}

pub fn node(build: u32) -> Value {
    let name = format!("w{build}");
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows", "karpenter.sh/nodepool": name}},
        "status": {"nodeInfo": {"kernelVersion": format!("10.0.{build}.1"), "containerRuntimeVersion": "containerd://2.1.6"}},
    })
}

pub fn some_builds() -> impl Strategy<Value = Vec<u32>> {
    prop::sample::subsequence(BUILDS.to_vec(), 1..=3)
}

pub fn true_image() -> impl Strategy<Value = TrueImage> {
    let pod =
        (0..BUILDS.len(), 0usize..7, any::<bool>()).prop_map(|(node, event, is_old)| TruePod { node, event, is_old });
    let known = prop_oneof![
        some_builds().prop_map(|builds| (builds, Known::Hidden)),
        some_builds().prop_map(|builds| (builds, Known::Registry)),
        (0..RELEASES.len()).prop_map(|at| (vec![RELEASES[at].0], Known::Tag)),
    ];
    (known, prop::option::of(some_builds()), prop::collection::vec(pod, 0..5)).prop_map(
        |((builds, known), before, pods)| TrueImage {
            builds,
            before: before.filter(|_| known == Known::Hidden),
            known,
            pods,
        },
    )
}

/// The images of random workloads: name, the builds that they have in truth; none for a Linux image.
const IMAGES: [(&str, &[u32]); 7] = [
    ("registry.example.com/web:1-ltsc2019", &[17763]),
    ("registry.example.com/web:1-ltsc2022", &[20348]),
    ("registry.example.com/hidden:1", &[20348]),
    ("registry.example.com/index:1", &[17763, 26100]),
    ("registry.example.com/app:1", &[]),
    ("nginx:1.27", &[]),
    (READ, &[17763, 20348]),
];
const READ: &str = "registry.example.com/read:1";

/// A workload of a random cluster, with choices by number.
#[derive(Debug, Clone)]
pub struct AnyWorkload {
    kind: usize,
    image: usize,
    /// Of the operating system: none, Windows, Linux, or a build of Windows.
    selector: usize,
    /// None, the taint of the Windows nodes, or every taint.
    toleration: usize,
    class: Option<usize>,
    has_limit: bool,
    pods: Vec<(usize, usize)>,
}

const KINDS: [&str; 5] = ["Deployment", "StatefulSet", "DaemonSet", "CronJob", "Pod"];
const CLASSES: [&str; 2] = ["win", "hyperv"];
/// Nodes by name; the first is Linux.
const NODES: [&str; 5] = ["linux", "w17763", "w19041", "w20348", "w26100"];

pub fn any_workload() -> impl Strategy<Value = AnyWorkload> {
    let pods = prop::collection::vec((0..NODES.len(), 0usize..7), 0..4);
    let class = prop_oneof![4 => Just(None), 1 => (0..CLASSES.len()).prop_map(Some)];
    (0..KINDS.len(), 0..IMAGES.len(), 0usize..4, 0usize..3, class, any::<bool>(), pods).prop_map(
        |(kind, image, selector, toleration, class, has_limit, pods)| AnyWorkload {
            kind,
            image,
            selector,
            toleration,
            class,
            has_limit,
            pods,
        },
    )
}

impl AnyWorkload {
    pub fn kind(&self) -> &'static str {
        KINDS[self.kind]
    }

    pub fn name(&self, at: usize) -> String {
        format!("{}{at}", self.kind().to_lowercase())
    }

    /// Whether the builds of its image stand in its tag or in an index that was read.
    pub fn has_stated_builds(&self) -> bool {
        IMAGES[self.image].0.contains("ltsc") || IMAGES[self.image].0 == READ
    }

    /// Whether a node runs its image.
    pub fn runs_on(&self, node: &str) -> bool {
        let builds = IMAGES[self.image].1;
        match node.strip_prefix('w') {
            Some(host) => has(builds, host.parse().unwrap()),
            None => builds.is_empty(),
        }
    }

    /// The spec of its author, with what the API server adds to a pod for its RuntimeClass.
    fn spec(&self, is_pod: bool) -> Value {
        let mut container = json!({"name": "a", "image": IMAGES[self.image].0});
        if self.has_limit {
            container["resources"] = json!({"limits": {"memory": "1Gi"}});
        }
        let mut spec = json!({"containers": [container]});
        let mut selector = match self.selector {
            1 => json!({"kubernetes.io/os": "windows"}),
            2 => json!({"kubernetes.io/os": "linux"}),
            3 => json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"}),
            _ => json!({}),
        };
        match self.toleration {
            1 => spec["tolerations"] = json!([{"key": "os", "operator": "Exists"}]),
            2 => spec["tolerations"] = json!([{"operator": "Exists"}]),
            _ => {}
        }
        if let Some(class) = self.class.filter(|_| self.selector != 2) {
            spec["runtimeClassName"] = json!(CLASSES[class]);
            if is_pod {
                selector["kubernetes.io/os"] = json!("windows");
            }
        }
        spec["nodeSelector"] = selector;
        spec
    }

    /// The nodes on which the scheduler can have put its pods.
    fn nodes(&self) -> &'static [&'static str] {
        match (self.selector, self.class) {
            (2, _) => &NODES[..1],
            (3, _) => &NODES[3..4],
            (1, _) | (_, Some(_)) => &NODES[1..],
            _ => &NODES,
        }
    }

    pub fn objects(&self, at: usize) -> Vec<Value> {
        let (name, kind) = (self.name(at), self.kind());
        let metadata = json!({"namespace": "shop", "name": name});
        let template = json!({"spec": self.spec(false)});
        let owner = |kind: &str, name: &str| json!([{"kind": kind, "name": name, "controller": true}]);
        let mut all = Vec::new();
        let (mut labels, owners) = match kind {
            "Deployment" => {
                let set = format!("{name}-5d");
                all.push(json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata,
                    "spec": {"replicas": 2, "template": template}}));
                all.push(
                    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 2, "template": template},
                    "metadata": {"namespace": "shop", "name": set, "ownerReferences": owner(kind, &name)}}),
                );
                (json!({"pod-template-hash": "5d"}), owner("ReplicaSet", &set))
            }
            "CronJob" => {
                let job = format!("{name}-1");
                all.push(json!({"apiVersion": "batch/v1", "kind": kind, "metadata": metadata,
                    "spec": {"jobTemplate": {"spec": {"template": template}}}}));
                let conditions =
                    json!([{"type": "Complete", "status": if self.pods.is_empty() { "True" } else { "False" }}]);
                all.push(json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template},
                    "metadata": {"namespace": "shop", "name": job, "ownerReferences": owner(kind, &name)},
                    "status": {"conditions": conditions}}));
                (json!({}), owner("Job", &job))
            }
            "Pod" => (json!({}), json!([])),
            _ => {
                all.push(json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata,
                    "spec": {"replicas": 2, "template": template}}));
                (json!({}), owner(kind, &name))
            }
        };
        labels["app"] = json!(name);
        // A pod without an owner is one.
        let most = if kind == "Pod" { 1 } else { self.pods.len() };
        for (number, (node, state)) in self.pods.iter().take(most).enumerate() {
            let pod = if kind == "Pod" { name.clone() } else { format!("{name}-5d-{number}") };
            let metadata = json!({"namespace": "shop", "name": pod, "labels": labels, "ownerReferences": owners});
            all.extend(self.pod(&metadata, *node, *state));
        }
        if self.pods.is_empty() && matches!(kind, "StatefulSet" | "DaemonSet") {
            all.push(event("rejected", kind, &name, "FailedCreate", "pods is forbidden: exceeded quota"));
        }
        all
    }

    fn pod(&self, metadata: &Value, node: usize, state: usize) -> Vec<Value> {
        let nodes = self.nodes();
        let (node, image) = (nodes[node % nodes.len()], IMAGES[self.image].0);
        let pod = metadata["name"].as_str().unwrap();
        let mut spec = self.spec(true);
        let waits = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        let pull = format!("failed to pull and unpack image \"{image}\": no match for platform in manifest: not found");
        let started = "2026-11-19T10:00:00Z";
        let ended = json!({"terminated": {"reason": "Error", "exitCode": 1, "startedAt": started}});
        let runs = self.runs_on(node);
        let mut events = Vec::new();
        let (phase, is_ready, container) = match state {
            0 => {
                let message = "0/5 nodes are available: 5 node(s) had untolerated taint(s).";
                let condition =
                    json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
                let status = json!({"phase": "Pending", "conditions": [condition]});
                return vec![
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}),
                ];
            }
            1 => ("Pending", false, waits("ContainerCreating", "")),
            2 => {
                let message =
                    "Failed to create pod sandbox: plugin type=\"azure-vnet\" failed to setup network for sandbox";
                events.push(event("sandbox", "Pod", pod, "FailedCreatePodSandBox", message));
                ("Pending", false, waits("ContainerCreating", ""))
            }
            3 if runs => (
                "Succeeded",
                false,
                json!({"terminated": {"reason": "Completed", "exitCode": 0, "startedAt": started}}),
            ),
            4 if runs => ("Running", false, waits("CrashLoopBackOff", "back-off 5m0s restarting failed container")),
            _ if runs => ("Running", true, json!({"running": {"startedAt": started}})),
            5 => {
                events.push(event("pull", "Pod", pod, "Failed", &format!("Failed to pull image \"{image}\": {pull}")));
                ("Pending", false, waits("ImagePullBackOff", &format!("Back-off pulling image \"{image}\"")))
            }
            _ => ("Pending", false, waits("ErrImagePull", &pull)),
        };
        let mut status = json!({"name": "a", "ready": is_ready, "state": container,
            "imageID": format!("registry.example.com/a@sha256:{}", "a".repeat(64))});
        if state == 4 && runs {
            status["lastState"] = ended;
        }
        spec["nodeName"] = json!(node);
        let status = json!({"phase": phase, "containerStatuses": [status],
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]});
        let mut all =
            vec![json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})];
        all.extend(events);
        all
    }
}

fn event(name: &str, kind: &str, about: &str, reason: &str, message: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop", "name": format!("{about}.{name}")},
        "type": "Warning", "reason": reason, "message": message, "lastTimestamp": "2026-11-19T10:00:00Z",
        "involvedObject": {"kind": kind, "namespace": "shop", "name": about}})
}

/// The objects of a cluster with these workloads.
pub fn cluster(workloads: &[AnyWorkload]) -> Vec<Value> {
    let mut all: Vec<Value> = BUILDS.iter().map(|build| node(*build)).collect();
    // The build of one release stands only in the status of its node.
    for node in &mut all[1..] {
        node["metadata"]["labels"]["node.kubernetes.io/windows-build"] =
            json!(format!("10.0.{}", node["metadata"]["name"].as_str().unwrap().trim_start_matches('w')));
    }
    // One release has no taint.
    for node in &mut all[..3] {
        node["spec"] = json!({"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]});
    }
    let labels = json!({"kubernetes.io/os": "linux", "karpenter.sh/nodepool": "linux"});
    all.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "linux", "labels": labels},
        "status": {"nodeInfo": {"kernelVersion": "5.15.0-1", "containerRuntimeVersion": "containerd://2.1.6"}}}));
    all.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    for (class, handler) in CLASSES.iter().zip(["runhcs-wcow-process", "runhcs-wcow-hypervisor"]) {
        all.push(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": class},
            "handler": handler, "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}}}));
    }
    let entry =
        |build: &u32| json!({"os": "windows", "architecture": "amd64", "os.version": format!("10.0.{build}.1")});
    let entries: Vec<Value> = [17763, 20348].iter().map(entry).collect();
    all.push(
        json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "ImagePlatforms", "images": {READ: {"index": entries}}}),
    );
    all.extend(workloads.iter().enumerate().flat_map(|(at, workload)| workload.objects(at)));
    all
}
