//! Reports for the tests of their formats: a mixed cluster with problems of each kind, the same cluster some weeks
//! before, names that try to become markup, an empty cluster, and the largest one.

use mullion_survey::SurveyReport;
use mullion_survey::catalogue::find_kind;
use serde_json::{Value, json};

use crate::hostile::{HOSTILE, replace};

fn report(value: Value) -> SurveyReport {
    serde_json::from_value(value).unwrap()
}

fn header(cluster: &str, today: &str) -> Value {
    json!({
        "cluster": cluster, "source": "cluster", "takenAt": format!("{today}T08:12:40Z"), "mullion": "0.1.0",
        "kubernetes": "v1.33.4", "today": today, "datesAsOf": "2026-11-20", "redacted": false,
    })
}

struct Pool {
    name: &'static str,
    release: &'static str,
    build: &'static str,
    revisions: &'static [(u32, usize)],
    nodes: usize,
    ready: usize,
}

impl Pool {
    /// The sum of a number of the pods in this pool, of Windows workloads or of others.
    fn pods(&self, of_windows: bool, number: &str) -> u64 {
        let rows = WORKLOADS.iter().filter(|row| (row.3 == "windows") == of_windows);
        let placed: Vec<Value> = rows.flat_map(placement).collect();
        let here = placed
            .iter()
            .filter(|one| POOLS[usize::try_from(one["pool"].as_u64().unwrap()).unwrap()].name == self.name);
        here.map(|one| one[number].as_u64().unwrap()).sum()
    }

    fn value(&self) -> Value {
        let windows = !self.build.is_empty();
        let some = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
        let revisions: Vec<Value> =
            self.revisions.iter().map(|(revision, nodes)| json!({"revision": revision, "nodes": nodes})).collect();
        let taints = if windows {
            json!([{"taint": "os=windows:NoSchedule", "nodes": self.nodes.saturating_sub(1)}])
        } else {
            json!([])
        };
        let ends = match self.release {
            "ltsc2019" => json!([end_2019()]),
            "ltsc2022" => json!([end_2022()]),
            _ => json!([]),
        };
        let mut value = json!({
            "name": self.name, "provider": "AKS", "os": if windows { "windows" } else { "linux" }, "release": some(self.release),
            "build": some(self.build), "revisions": revisions, "kubelets": ["v1.33.4"],
            "runtimes": [if self.release == "ltsc2019" { "containerd://1.7.20" } else { "containerd://1.7.29" }],
            "taints": taints, "nodes": self.nodes, "ready": self.ready, "cordoned": self.nodes - self.ready,
            "windowsPods": self.pods(true, "pods"), "otherPods": self.pods(false, "pods"),
            "misplacedPods": self.pods(true, "misplacedPods") + self.pods(false, "misplacedPods"), "ends": ends,
        });
        if self.name == "web" {
            value["declaredFeatures"] = json!([{"feature": "RestartAllContainersOnContainerExits", "nodes": 3}]);
        }
        value
    }
}

fn end_2019() -> Value {
    json!({
        "date": "2026-03-01", "what": "AKS ends support of Windows Server 2019", "concerns": "3 nodes of pool win19.",
        "source": "https://learn.microsoft.com/azure/aks/upgrade-windows-os", "asOf": "2026-11-18",
    })
}

fn end_dotnet() -> Value {
    json!({
        "date": "2026-11-10", "what": "Microsoft ends support of .NET 8 and .NET 9", "concerns": "2 Windows workloads.",
        "source": "endoflife-date/endoflife.date products/dotnet.md", "asOf": "2026-08-13",
    })
}

fn end_2022() -> Value {
    json!({
        "date": "2027-03-15", "what": "AKS ends support of Windows Server 2022 nodes", "concerns": "6 nodes of pool win22.",
        "source": "https://learn.microsoft.com/azure/aks/upgrade-windows-os", "asOf": "2026-11-18",
    })
}

const POOLS: [Pool; 5] = [
    Pool { name: "sys", release: "", build: "", revisions: &[], nodes: 3, ready: 3 },
    Pool { name: "web", release: "", build: "", revisions: &[], nodes: 4, ready: 4 },
    Pool {
        name: "win19",
        release: "ltsc2019",
        build: "10.0.17763",
        revisions: &[(7314, 2), (6893, 1)],
        nodes: 3,
        ready: 2,
    },
    Pool { name: "win22", release: "ltsc2022", build: "10.0.20348", revisions: &[(4294, 6)], nodes: 6, ready: 6 },
    Pool { name: "win25", release: "ltsc2025", build: "10.0.26100", revisions: &[(6899, 2)], nodes: 2, ready: 2 },
];

/// Namespace, kind, name, operating system, because, image, builds, known from, pods, ready, pools, manager, findings.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
    usize,
    usize,
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

const SELECTOR: &str = "spec.template.spec.nodeSelector[\"kubernetes.io/os\"] is windows";
const NOTHING: &str = "nothing states an operating system";

#[rustfmt::skip]
const WORKLOADS: [Row; 22] = [
    ("billing", "Deployment", "invoice-api", "windows", SELECTOR, "registry.contoso.example/billing/invoice-api:4.12-ltsc2019", &["10.0.17763"], "name", 6, 6, &["win19"], "Helm release billing", &["SUR306"]),
    ("billing", "CronJob", "month-end", "windows", SELECTOR, "registry.contoso.example/billing/month-end:4.12-ltsc2019", &["10.0.17763"], "name", 1, 1, &["win19"], "Helm release billing", &["SUR306"]),
    ("billing", "Deployment", "pdf-renderer", "windows", SELECTOR, "registry.contoso.example/billing/pdf:2.3", &["10.0.17763"], "running", 3, 3, &["win19"], "Helm release billing", &["SUR306", "SUR307"]),
    ("billing", "StatefulSet", "ledger", "windows", SELECTOR, "registry.contoso.example/billing/ledger:9.1-ltsc2022", &["10.0.20348"], "name", 3, 0, &["win19"], "Helm release billing", &["SUR103"]),
    ("kube-system", "DaemonSet", "csi-azurefile-node-win", "windows", SELECTOR, "mcr.microsoft.com/oss/kubernetes-csi/azurefile-csi:v1.33.5-windows-hp", &["10.0.17763", "10.0.20348", "10.0.26100"], "running", 11, 11, &["win19", "win22", "win25"], "", &[]),
    ("kube-system", "DaemonSet", "kube-proxy", "linux", "spec.template.spec.nodeSelector[\"kubernetes.io/os\"] is linux", "mcr.microsoft.com/oss/v2/kubernetes/kube-proxy:v1.33.4", &[], "unknown", 7, 7, &["sys", "web"], "", &[]),
    ("kube-system", "Deployment", "coredns", "linux", "spec.template.spec.nodeSelector[\"kubernetes.io/os\"] is linux", "mcr.microsoft.com/oss/v2/kubernetes/coredns:v1.12.1", &[], "unknown", 2, 2, &["sys"], "", &[]),
    ("legacy", "Deployment", "intranet", "windows", "image mcr.microsoft.com/dotnet/framework/aspnet:4.8 indicates windows", "mcr.microsoft.com/dotnet/framework/aspnet:4.8", &[], "unknown", 2, 0, &["web"], "", &["SUR102", "SUR303"]),
    ("legacy", "Deployment", "soap-gateway", "windows", SELECTOR, "registry.contoso.example/legacy/soap:1.0.77", &["10.0.20348", "10.0.26100"], "registry", 4, 4, &["win22", "win25"], "", &["SUR307"]),
    ("legacy", "Deployment", "sync-agent", "windows", SELECTOR, "registry.contoso.example/legacy/sync:latest", &["10.0.20348"], "running", 2, 1, &["win22"], "", &["SUR215", "SUR303"]),
    ("monitoring", "DaemonSet", "node-agent", "linux", NOTHING, "quay.io/prometheus/node-exporter:v1.9.1", &[], "unknown", 12, 7, &["sys", "web", "win19", "win22"], "Argo CD application monitoring", &["SUR101"]),
    ("monitoring", "DaemonSet", "windows-exporter", "windows", SELECTOR, "ghcr.io/prometheus-community/windows-exporter:0.31.3", &["10.0.17763", "10.0.20348"], "registry", 9, 9, &["win19", "win22"], "Argo CD application monitoring", &["SUR401"]),
    ("monitoring", "Deployment", "grafana", "linux", NOTHING, "docker.io/grafana/grafana:12.2.1", &[], "unknown", 1, 1, &["web"], "Argo CD application monitoring", &["SUR302"]),
    ("shop", "Deployment", "cart", "windows", SELECTOR, "registry.contoso.example/shop/cart:2026.11.3-ltsc2022", &["10.0.20348"], "name", 12, 12, &["win22"], "Flux Kustomization shop", &["SUR309"]),
    ("shop", "Deployment", "catalog", "windows", SELECTOR, "registry.contoso.example/shop/catalog:2026.11.3-ltsc2022", &["10.0.20348"], "name", 12, 12, &["win22"], "Flux Kustomization shop", &[]),
    ("shop", "Deployment", "checkout", "windows", SELECTOR, "registry.contoso.example/shop/checkout:2026.11.3-ltsc2022", &["10.0.20348"], "name", 8, 8, &["win22", "win25"], "Flux Kustomization shop", &[]),
    ("shop", "Deployment", "frontend", "linux", "spec.template.spec.nodeSelector[\"kubernetes.io/os\"] is linux", "registry.contoso.example/shop/frontend:2026.11.3", &[], "unknown", 10, 10, &["web"], "Flux Kustomization shop", &[]),
    ("shop", "Deployment", "image-resizer", "windows", SELECTOR, "registry.contoso.example/shop/resizer:2026.10.9-ltsc2025", &["10.0.26100"], "name", 3, 0, &[], "Flux Kustomization shop", &["SUR105"]),
    ("shop", "Deployment", "search", "linux", NOTHING, "docker.io/library/redis:8.2", &[], "unknown", 2, 2, &["web"], "Flux Kustomization shop", &["SUR302"]),
    ("shop", "StatefulSet", "orders", "windows", SELECTOR, "registry.contoso.example/shop/orders:2026.11.3-ltsc2022", &["10.0.20348"], "name", 3, 2, &["win22"], "Flux Kustomization shop", &["SUR202"]),
    ("web-legacy", "Pod", "debug-shell", "windows", SELECTOR, "mcr.microsoft.com/windows/servercore:ltsc2022", &["10.0.20348"], "name", 1, 1, &["win22"], "", &["SUR308"]),
    ("web-legacy", "Deployment", "reports", "undecided", NOTHING, "registry.contoso.example/web/reports:5", &[], "unknown", 1, 1, &["web"], "", &["SUR302"]),
];

/// Of these workloads, every pod in these pools is misplaced.
const MISPLACED: [(&str, &[&str]); 3] =
    [("node-agent", &["win19", "win22"]), ("intranet", &["web"]), ("ledger", &["win19"])];

/// The pods of a workload, as evenly in its pools as possible.
fn placement(row: &Row) -> Vec<Value> {
    let (name, pods, pools) = (row.2, row.8, row.10);
    let misplaced = MISPLACED.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, pools)| *pools);
    let one = |(at, pool): (usize, &&str)| {
        let here = pods / pools.len() + usize::from(at < pods % pools.len());
        let wrong = if misplaced.contains(pool) { here } else { 0 };
        json!({"pool": POOLS.iter().position(|one| one.name == *pool).unwrap(), "pods": here, "misplacedPods": wrong})
    };
    pools.iter().enumerate().map(one).collect()
}

/// The image volumes of a workload: one has one.
fn image_volumes(name: &str) -> Value {
    if name != "soap-gateway" {
        return json!([]);
    }
    let image = "registry.contoso.example/legacy/certificates:2026-ltsc2022";
    json!([{"name": "certificates", "image": image, "builds": ["10.0.20348"], "knownFrom": "name"}])
}

fn workload(row: &Row, shift: usize) -> Value {
    let (namespace, kind, name, os, because, image, builds, known_from, pods, ready, pools, manager, findings) = row;
    json!({
        "imageVolumes": image_volumes(name),
        "namespace": namespace, "kind": kind, "name": name, "os": os, "because": because,
        "containers": [{"name": name, "image": image, "builds": builds, "knownFrom": known_from}],
        "pods": pods + shift, "ready": ready + shift, "pools": pools, "placement": placement(row),
        "managedBy": if manager.is_empty() { Value::Null } else { json!(manager) }, "findings": findings,
    })
}

/// Code, namespace, kind, object, path, pod, message, action, raw, pods, nodes.
type FindingRow = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    usize,
    &'static [&'static str],
);

#[rustfmt::skip]
const FINDINGS: [FindingRow; 17] = [
    ("SUR101", "monitoring", "DaemonSet", "node-agent", "spec.nodeName", "node-agent-x7k2p",
     "6 pods of this Linux DaemonSet are on Windows nodes of the pools win19 and win22. They cannot start there.",
     "Set `kubernetes.io/os: linux` in `spec.template.spec.nodeSelector`.",
     "Back-off pulling image \"quay.io/prometheus/node-exporter:v1.9.1\": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image \"quay.io/prometheus/node-exporter:v1.9.1\": no match for platform in manifest: not found", 6,
     &["akswin19000000", "akswin19000001", "akswin19000002", "akswin22000003", "akswin22000004"]),
    ("SUR102", "legacy", "Deployment", "intranet", "spec.nodeName", "intranet-6c9d-4hjkl",
     "2 pods of this Windows Deployment are on Linux nodes of pool web. They cannot start there.",
     "Set `kubernetes.io/os: windows` in `spec.template.spec.nodeSelector`.",
     "failed to extract layer sha256:4f2: link /var/lib/containerd/Files/Program Files/x: no such file or directory", 2,
     &["aks-web-31-vmss000001", "aks-web-31-vmss000002"]),
    ("SUR103", "billing", "StatefulSet", "ledger", "status.containerStatuses[0].lastState.terminated.message", "ledger-0",
     "The image is for ltsc2022 (10.0.20348), and the nodes of pool win19 have ltsc2019 (10.0.17763). Windows Server 2019 runs only images of its own build.",
     "Set `node.kubernetes.io/windows-build: 10.0.20348` in `spec.template.spec.nodeSelector`, or let Mullion place the pods.",
     "failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem ledger: The container operating system does not match the host operating system.: unknown", 3,
     &["akswin19000000", "akswin19000001"]),
    ("SUR105", "shop", "Deployment", "image-resizer", "status.conditions[0].message", "image-resizer-5d4-aaaaa",
     "3 pods wait for a node. The image is for ltsc2025 (10.0.26100). The 2 nodes with that build have the taint os=windows:NoSchedule, and the pod does not tolerate it.",
     "Add a toleration for `os=windows:NoSchedule`.", "0/18 nodes are available: 7 node(s) didn't match Pod's node affinity/selector, 11 node(s) had untolerated taint(s).", 3, &[]),
    ("SUR202", "shop", "StatefulSet", "orders", "status.containerStatuses[0].state.waiting.message", "orders-2",
     "The registry registry.contoso.example denied the pull. The operating system of the image has nothing to do with it.",
     "Compare `spec.template.spec.imagePullSecrets` with the other workloads of the namespace.",
     "failed to resolve reference \"registry.contoso.example/shop/orders:2026.11.3-ltsc2022\": pulling from host registry.contoso.example failed with status code [manifests]: 401 Unauthorized", 1, &["akswin22000005"]),
    ("SUR215", "legacy", "Deployment", "sync-agent", "status.containerStatuses[0].state.waiting.message", "sync-agent-77b-qqqqq",
     "The container ended while it started. The most common cause is a host with an older revision than the image.", "Upgrade the node image of pool win22.",
     "hcs::System::Start sync: Der virtuelle Computer oder Container wurde unerwartet beendet.", 1, &["akswin22000002"]),
    ("SUR302", "monitoring", "Deployment", "grafana", "spec.template.spec.nodeSelector", "", "The pod template selects no operating system. Its pod is on a Linux node by luck.", "Set `kubernetes.io/os: linux` in `spec.template.spec.nodeSelector`.", "", 1, &[]),
    ("SUR302", "shop", "Deployment", "search", "spec.template.spec.nodeSelector", "", "The pod template selects no operating system. Its pods are on Linux nodes by luck.", "Set `kubernetes.io/os: linux` in `spec.template.spec.nodeSelector`.", "", 2, &[]),
    ("SUR302", "web-legacy", "Deployment", "reports", "spec.template.spec.nodeSelector", "", "The pod template selects no operating system. Its pod is on a Linux node by luck.", "Set `kubernetes.io/os: linux` in `spec.template.spec.nodeSelector`.", "", 1, &[]),
    ("SUR303", "legacy", "Deployment", "intranet", "spec.template.spec.containers[0].image", "", "The tag 4.8 follows the newest Windows releases. A later image may not run on these nodes.", "Use a tag with the release: `4.8-windowsservercore-ltsc2022`.", "", 2, &[]),
    ("SUR303", "legacy", "Deployment", "sync-agent", "spec.template.spec.containers[0].image", "", "The tag latest does not name a Windows release.", "Use a tag with the release.", "", 2, &[]),
    ("SUR306", "billing", "Deployment", "invoice-api", "spec.template.spec.nodeSelector", "", "This workload runs only on nodes with node.kubernetes.io/windows-build=10.0.17763.", "Plan to change the selector together with the pool.", "", 6, &[]),
    ("SUR306", "billing", "CronJob", "month-end", "spec.jobTemplate.spec.template.spec.nodeSelector", "", "This workload runs only on nodes with node.kubernetes.io/windows-build=10.0.17763.", "Plan to change the selector together with the pool.", "", 1, &[]),
    ("SUR306", "billing", "Deployment", "pdf-renderer", "spec.template.spec.nodeSelector", "", "This workload runs only on nodes with node.kubernetes.io/windows-build=10.0.17763.", "Plan to change the selector together with the pool.", "", 3, &[]),
    ("SUR309", "shop", "Deployment", "cart", "spec.template.metadata.labels", "cart-7d9-bbbbb", "The NetworkPolicy deny-all selects these pods, and no engine that Mullion knows has a pod on their Windows nodes to enforce it.", "Install an engine on the Windows nodes.", "", 12, &["akswin22000003"]),
    ("SUR401", "monitoring", "DaemonSet", "windows-exporter", "spec.template.spec.tolerations", "", "2 nodes of Windows pool win25 have no pod of this DaemonSet: the DaemonSet does not tolerate the taint os=windows:NoSchedule.", "Add a toleration for os=windows:NoSchedule to spec.template.spec.tolerations.", "", 0, &[]),
    ("SUR308", "web-legacy", "Pod", "debug-shell", "spec.securityContext.windowsOptions.hostProcess", "", "The pod has access to its node: it is a HostProcess pod.", "Delete it if nobody uses it.", "", 1, &["akswin22000001"]),
];

fn finding(row: &FindingRow) -> Value {
    let (code, namespace, kind, object, path, pod, message, action, raw, pods, nodes) = row;
    let entry = find_kind(code).unwrap_or_else(|| panic!("{code} is not in the catalogue"));
    let (name, severity) = (entry.name, entry.severity);
    let some = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    let mut value = json!({
        "code": code, "finding": name, "severity": severity.name(), "namespace": namespace, "kind": kind, "name": object, "path": path,
        "pod": some(pod), "message": message, "action": action, "raw": some(raw), "pods": pods, "nodes": nodes,
    });
    if *code == "SUR309" {
        value["related"] = json!([{"namespace": namespace, "kind": "NetworkPolicy", "name": "deny-all"}]);
    }
    value
}

/// A cluster of AKS with Linux nodes and three Windows releases, and a problem of each kind.
pub fn mixed() -> SurveyReport {
    report(json!({
        "schema": "mullion.dev/survey/v1",
        "header": header("aks-contoso-prod", "2026-11-23"),
        "coverage": {
            "read": [
                {"kind": "nodes", "objects": 18}, {"kind": "pods", "objects": 213}, {"kind": "deployments", "objects": 41},
                {"kind": "daemonsets", "objects": 9}, {"kind": "statefulsets", "objects": 4}, {"kind": "cronjobs", "objects": 3},
                {"kind": "namespaces", "objects": 11}, {"kind": "runtimeclasses", "objects": 2},
            ],
            "unread": [
                {"kind": "events", "namespace": null, "reason": "forbidden",
                 "missing": "reasons for pods that have no container status yet"},
                {"kind": "jobs", "namespace": "billing", "reason": "forbidden", "missing": "Jobs of this namespace"},
            ],
        },
        "summary": [
            "17 pods of 6 workloads do not work now, because 11 of them are on nodes that cannot run their images.",
            "AKS ended support of Windows Server 2019 on 2026-03-01, and 3 nodes and 3 workloads still need it.",
            "3 workloads run on the right operating system only by luck.",
            "DaemonSet monitoring/windows-exporter has no pod in pool win25.",
            "2 Windows workloads have images of unknown builds.",
        ],
        "pools": POOLS.iter().map(Pool::value).collect::<Vec<_>>(),
        "poolsWithoutNodes": [
            {"pool": "win25-gpu", "declaredBy": "NodePolicy", "os": "windows", "release": "ltsc2025", "build": "10.0.26100",
             "labels": ["agentpool=win25-gpu"], "taints": ["os=windows:NoSchedule"], "starts": [
                {"namespace": "shop", "kind": "Deployment", "name": "cart", "pods": 2, "runs": true}]},
            {"pool": "win25-any", "declaredBy": "NodePool", "os": "windows", "release": null, "build": null,
             "labels": ["kubernetes.io/os=windows"], "taints": [], "starts": []},
        ],
        "unserved": [{"namespace": "billing", "kind": "StatefulSet", "name": "ledger", "pods": 1, "runs": false}],
        "imageBuilds": [
            {"build": "10.0.17763", "workloads": 3, "pods": 10, "images": 3},
            {"build": "10.0.17763, 10.0.20348", "workloads": 1, "pods": 9, "images": 1},
            {"build": "10.0.17763, 10.0.20348, 10.0.26100", "workloads": 1, "pods": 11, "images": 1},
            {"build": "10.0.20348", "workloads": 7, "pods": 41, "images": 7},
            {"build": "10.0.20348, 10.0.26100", "workloads": 1, "pods": 4, "images": 1},
            {"build": "10.0.26100", "workloads": 1, "pods": 3, "images": 1}, {"build": null, "workloads": 1, "pods": 2, "images": 1},
        ],
        "workloads": WORKLOADS.iter().map(|row| workload(row, 0)).collect::<Vec<_>>(),
        "findings": FINDINGS.iter().map(finding).collect::<Vec<_>>(),
        "daemonSets": [
            {"namespace": "kube-system", "kind": "DaemonSet", "name": "csi-azurefile-node-win", "nodes": 11, "missing": []},
            {"namespace": "monitoring", "kind": "DaemonSet", "name": "windows-exporter", "nodes": 9, "missing": [
                {"pool": "win25", "nodes": 2, "because": "The DaemonSet does not tolerate the taint os=windows:NoSchedule."}]},
        ],
        "changes": [
            {"namespace": "billing", "workloads": 4, "placed": 4, "rules": [
                {"code": "MUL201", "rule": "run-as-user", "action": "Deny", "workloads": 1},
                {"code": "MUL601", "rule": "memory-limit", "action": "Warn", "workloads": 3}]},
            {"namespace": "legacy", "workloads": 3, "placed": 3, "rules": [
                {"code": "MUL203", "rule": "privileged", "action": "Deny", "workloads": 1},
                {"code": "MUL205", "rule": "fs-group", "action": "Repair", "workloads": 2}]},
            {"namespace": "monitoring", "workloads": 3, "placed": 2, "rules": []},
            {"namespace": "shop", "workloads": 7, "placed": 6, "rules": [
                {"code": "MUL601", "rule": "memory-limit", "action": "Warn", "workloads": 5}]},
        ],
        "deadlines": [end_2019(), end_dotnet(), {
            "date": "2026-11-23", "what": "Mainstream support of containerd 1.7 ends", "concerns": "11 Windows nodes.",
            "source": "containerd/containerd RELEASES.md", "asOf": "2026-11-15",
        }, end_2022()],
        "unknown": [
            {"what": "The builds of 2 images are not known, because their tags do not name a release.",
             "resolve": "Run `mullion survey --registry`, or add a pattern to `detect.images` of a policy.",
             "objects": [
                {"namespace": "legacy", "kind": "Deployment", "name": "intranet"},
                {"namespace": "web-legacy", "kind": "Deployment", "name": "reports"}],
             "all": 2},
        ],
    }))
}

/// The same cluster three weeks before.
pub fn earlier() -> SurveyReport {
    let mut earlier = serde_json::to_value(mixed()).unwrap();
    earlier["header"] = header("aks-contoso-prod", "2026-10-30");
    earlier["coverage"]["unread"] = json!([]);
    earlier["pools"][4]["nodes"] = json!(1);
    earlier["pools"][3]["revisions"] = json!([{"revision": 4171, "nodes": 6}]);
    let mut rows = FINDINGS.to_vec();
    rows.remove(3);
    rows[0].9 = 2;
    rows.push((
        "SUR215",
        "shop",
        "Deployment",
        "checkout",
        "status.containerStatuses[0].state.waiting.message",
        "checkout-1",
        "The container ended while it started.",
        "Upgrade the node image of pool win25.",
        "",
        4,
        &[],
    ));
    earlier["findings"] = rows.iter().map(finding).collect();
    let mut rows = WORKLOADS.to_vec();
    rows[15].10 = &["win22"];
    rows[8].6 = &["10.0.20348"];
    rows.remove(17);
    earlier["workloads"] = rows.iter().map(|row| workload(row, 0)).collect();
    report(earlier)
}

/// Nothing was read.
pub fn empty() -> SurveyReport {
    let mut header = header("empty.json", "2026-11-23");
    header["source"] = json!("dump");
    header["takenAt"] = Value::Null;
    header["kubernetes"] = Value::Null;
    report(json!({
        "schema": "mullion.dev/survey/v1", "header": header, "coverage": {"read": [], "unread": []}, "summary": [], "pools": [],
        "imageBuilds": [], "workloads": [], "findings": [], "daemonSets": [], "changes": [], "deadlines": [], "unknown": [],
    }))
}

/// Members whose texts do not come from a cluster.
const KEPT: [&str; 8] = ["schema", "source", "date", "asOf", "today", "datesAsOf", "severity", "knownFrom"];

/// Every text of the mixed report that comes from a cluster is malicious.
pub fn hostile() -> SurveyReport {
    let mut value = serde_json::to_value(mixed()).unwrap();
    let mut next = 0;
    replace(&mut value, "", &KEPT, &mut |_| {
        next += 1;
        HOSTILE[next % HOSTILE.len()].to_owned()
    });
    report(value)
}

/// The largest report: 20,000 workloads with 200,000 pods, long names and as many findings.
pub fn huge() -> SurveyReport {
    let mut value = serde_json::to_value(mixed()).unwrap();
    let long = |at: usize, stem: &str| format!("{stem}-{at:05}-{}", "abcdefghij".repeat(4));
    let mut workloads = Vec::new();
    let mut findings = Vec::new();
    for at in 0..20_000 {
        let mut one = workload(&WORKLOADS[at % WORKLOADS.len()], 0);
        let mut found = finding(&FINDINGS[at % FINDINGS.len()]);
        for object in [&mut one, &mut found] {
            object["namespace"] = json!(long(at / 20, "namespace"));
            object["name"] = json!(long(at, "workload"));
        }
        one["containers"][0]["image"] = json!(format!("registry.contoso.example/{}:1.2.3-ltsc2022", long(at, "image")));
        found["raw"] = json!("x ".repeat(512));
        workloads.push(one);
        findings.push(found);
    }
    let pool = value["pools"][2].clone();
    value["pools"] = (0..2_000)
        .map(|at| {
            let mut pool = pool.clone();
            pool["name"] = json!(long(at, "pool"));
            pool["nodes"] = json!(10);
            pool
        })
        .collect();
    let change = value["changes"][0].clone();
    value["changes"] = (0..2_000)
        .map(|at| {
            let mut change = change.clone();
            change["namespace"] = json!(long(at, "namespace"));
            change
        })
        .collect();
    let set = value["daemonSets"][1].clone();
    value["daemonSets"] = (0..2_000)
        .map(|at| {
            let mut set = set.clone();
            set["name"] = json!(long(at, "daemonset"));
            set
        })
        .collect();
    for list in ["deadlines", "unknown"] {
        let one = value[list][0].clone();
        value[list] = (0..2_000).map(|_| one.clone()).collect();
    }
    let unread = value["coverage"]["unread"][0].clone();
    value["coverage"]["unread"] = (0..2_000).map(|_| unread.clone()).collect();
    value["workloads"] = json!(workloads);
    value["findings"] = json!(findings);
    report(value)
}
