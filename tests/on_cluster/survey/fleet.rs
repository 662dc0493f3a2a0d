//! A mixed cluster of 100 nodes on AKS, and the correct workloads in it.

use mullion_cluster::NodeSpec;
use serde_json::{Value, json};

/// A pool of nodes.
pub struct Pool {
    /// Label `agentpool`.
    pub name: &'static str,
    nodes: usize,
    /// The kernel versions of its Windows nodes, in turn; empty: Linux.
    versions: &'static [&'static str],
    kubelet: &'static str,
    runtime: &'static str,
    taint: Option<&'static str>,
}

/// The pools, 100 nodes in all.
pub const POOLS: [Pool; 6] = [
    Pool { name: "system", nodes: 20, versions: &[], kubelet: "v1.34.3", runtime: "containerd://2.0.4", taint: None },
    Pool { name: "user", nodes: 14, versions: &[], kubelet: "v1.34.3", runtime: "containerd://2.0.4", taint: None },
    Pool {
        name: "win19",
        nodes: 14,
        versions: &["10.0.17763.8389"],
        kubelet: "v1.32.9",
        runtime: "containerd://1.6.35",
        taint: Some("sku=win:NoSchedule"),
    },
    Pool {
        name: "win22",
        nodes: 30,
        versions: &["10.0.20348.4294", "10.0.20348.4171"],
        kubelet: "v1.34.3",
        runtime: "containerd://1.6.35",
        taint: Some("os=windows:NoSchedule"),
    },
    Pool {
        name: "win23",
        nodes: 5,
        versions: &["10.0.25398.1913"],
        kubelet: "v1.34.3",
        runtime: "containerd://1.7.20",
        taint: Some("os=windows:NoSchedule"),
    },
    Pool {
        name: "win25",
        nodes: 17,
        versions: &["10.0.26100.32860"],
        kubelet: "v1.34.3",
        runtime: "containerd://2.0.4",
        taint: None,
    },
];

impl Pool {
    fn node(&self, number: usize) -> NodeSpec {
        let name = format!("{}-{number:03}", self.name);
        let version = self.versions.get(number % self.versions.len().max(1));
        let node = version.map_or_else(|| NodeSpec::linux(&name), |version| NodeSpec::windows(&name, version));
        let node = node
            .label("agentpool", self.name)
            .label("kubernetes.azure.com/agentpool", self.name)
            .label("kubernetes.azure.com/cluster", "MC_shop")
            .kubelet_version(self.kubelet)
            .runtime(self.runtime);
        match self.taint {
            Some(taint) => node.taint(taint),
            None => node,
        }
    }
}

/// All nodes.
pub fn nodes() -> Vec<NodeSpec> {
    POOLS.iter().flat_map(|pool| (0..pool.nodes).map(|number| pool.node(number))).collect()
}

/// Tolerations for every taint that marks Windows nodes here.
pub fn windows_tolerations() -> Value {
    json!([
        {"key": "sku", "operator": "Equal", "value": "win", "effect": "NoSchedule"},
        {"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"},
    ])
}

/// A Deployment in namespace `namespace` with this pod spec.
pub fn deployment(namespace: &str, name: &str, replicas: usize, pod: &Value) -> Value {
    workload("Deployment", namespace, name, pod, &json!({"replicas": replicas}))
}

/// An object of apps/v1 with a pod template; `more` is merged into its spec.
pub fn workload(kind: &str, namespace: &str, name: &str, pod: &Value, more: &Value) -> Value {
    let labels = json!({"app": name});
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

/// A pod spec with one container.
pub fn pod(image: &str, selector: &Value, tolerations: &Value) -> Value {
    json!({
        "containers": [{"name": "main", "image": image, "resources": {"limits": {"memory": "400Mi", "cpu": "50m"}}}],
        "nodeSelector": selector,
        "tolerations": tolerations,
        "terminationGracePeriodSeconds": 0,
    })
}

/// The namespaces of the correct workloads.
pub const SOUND: [&str; 4] = ["shop", "billing", "search", "reports"];

/// 972 pods, more than one page of a list, in 38 correct workloads: each selects its operating system, and the build that its image needs.
pub fn sound_workloads() -> Vec<Value> {
    let linux = json!({"kubernetes.io/os": "linux"});
    let windows = json!({"kubernetes.io/os": "windows"});
    let of_pool = |pool: &str| json!({"kubernetes.io/os": "windows", "agentpool": pool});
    let mut all = Vec::new();
    for namespace in SOUND {
        for number in 0..4 {
            let image = "registry.example.com/shop/api:1.27.3";
            all.push(deployment(namespace, &format!("api-{number}"), 32, &pod(image, &linux, &json!([]))));
        }
        for (number, (image, pool, replicas)) in [
            ("registry.example.com/shop/web:2.1-ltsc2019", "win19", 14),
            ("registry.example.com/shop/web:2.1-ltsc2022", "win22", 28),
            ("registry.example.com/shop/web:2.1-ltsc2022", "win23", 6),
            ("registry.example.com/shop/web:2.1-ltsc2025", "win25", 14),
            ("registry.example.com/shop/job:7-nanoserver-ltsc2022", "win25", 28),
        ]
        .into_iter()
        .enumerate()
        {
            let pod = pod(image, &of_pool(pool), &windows_tolerations());
            all.push(deployment(namespace, &format!("web-{number}"), replicas, &pod));
        }
    }
    // Its purpose is in Mullion's table, and no Windows pool has such an agent.
    let agent = pod("registry.example.com/fluent/fluent-bit:4.1.1", &linux, &json!([{"operator": "Exists"}]));
    all.push(workload("DaemonSet", "shop", "log-linux", &agent, &json!({})));
    let exporter = pod("registry.example.com/agents/exporter:0.30", &windows, &windows_tolerations());
    all.push(workload("DaemonSet", "shop", "exporter", &exporter, &json!({})));
    all
}
