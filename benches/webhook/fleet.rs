//! Snapshots and reviews of the size of real clusters.

use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_snapshot::dump;
use serde_json::{Value, json};

/// Nodes, a quarter of them Windows, and namespaces, in the form that `kubectl get -o json` prints.
pub fn dump(nodes: usize, namespaces: usize) -> Value {
    let nodes = (0..nodes).map(|n| node(n, n % 4 == 3));
    let namespaces = (0..namespaces).map(|n| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{n}"),
            "labels": {"kubernetes.io/metadata.name": format!("team-{n}"), "team": format!("t{}", n % 50),
                "pod-security.kubernetes.io/enforce": "baseline"}}})
    });
    json!({"apiVersion": "v1", "kind": "List", "items": nodes.chain(namespaces).collect::<Vec<_>>()})
}

/// A node with the labels that a managed node pool of one of the large providers has.
fn node(n: usize, windows: bool) -> Value {
    let (os, builds) = (if windows { "windows" } else { "linux" }, ["10.0.17763", "10.0.20348", "10.0.26100"]);
    let (build, name) = (builds[n % 3], format!("aks-pool{}-31337-vmss{n:06}", n % 40));
    let mut labels = json!({
        "agentpool": format!("pool{}", n % 40),
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": "Standard_D8s_v5",
        "beta.kubernetes.io/os": os,
        "failure-domain.beta.kubernetes.io/region": "westeurope",
        "failure-domain.beta.kubernetes.io/zone": format!("westeurope-{}", n % 3),
        "kubernetes.azure.com/agentpool": format!("pool{}", n % 40),
        "kubernetes.azure.com/cluster": "MC_fleet_production_westeurope",
        "kubernetes.azure.com/mode": "user",
        "kubernetes.azure.com/node-image-version": "AKS-2026.01.12",
        "kubernetes.azure.com/role": "agent",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": os,
        "node.kubernetes.io/instance-type": "Standard_D8s_v5",
        "topology.kubernetes.io/region": "westeurope",
        "topology.kubernetes.io/zone": format!("westeurope-{}", n % 3),
    });
    if windows {
        labels["node.kubernetes.io/windows-build"] = json!(build);
        labels["mullion.dev/windows-revision"] = json!("2655");
    }
    let taints = if windows { json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]) } else { json!([]) };
    let kernel = if windows { format!("{build}.2655") } else { "6.8.0-1021-azure".to_owned() };
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
        "status": {"nodeInfo": {"kernelVersion": kernel, "containerRuntimeVersion": "containerd://2.0.4"}}})
}

/// Namespaces with node selectors of 64 pairs and of 250 KiB, a node with 25,000 taints, and 2,000 nodes with a taint of
/// their own that marks Windows.
pub fn hostile_items() -> Vec<Value> {
    let namespace = |name: &str, pairs: usize| {
        let selector: Vec<String> = (0..pairs).map(|at| format!("key-{at:05}=theirs")).collect();
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name,
            "annotations": {"scheduler.alpha.kubernetes.io/node-selector": selector.join(",")}}})
    };
    let tainted = |name: String, taints: std::ops::Range<usize>| {
        let taint = |at| json!({"key": "os", "value": format!("windows-{at}"), "effect": "NoSchedule"});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": "windows"}},
            "spec": {"taints": taints.map(taint).collect::<Vec<_>>()}})
    };
    let mut items = vec![namespace("selects-much", 64), namespace("selects-too-much", 14_000)];
    items.push(tainted("tainted".to_owned(), 0..25_000));
    items.extend((0..2_000).map(|at| tainted(format!("tainted-{at}"), at..at + 1)));
    items
}

/// The snapshot that is read from [`dump`].
pub fn snapshot(nodes: usize, namespaces: usize) -> ClusterSnapshot {
    dump::from_text("snapshot.json", dump(nodes, namespaces).to_string().as_bytes()).expect("a good snapshot file")
}

/// The measured pods, by name.
pub fn pods() -> [(&'static str, Value); 4] {
    let spec = |image: &str, selector: Value| json!({"nodeSelector": selector, "containers": [{"name": "web", "image": image}]});
    [
        ("explicitly Linux pod", spec("registry.example.com/shop/web:1.2", json!({"kubernetes.io/os": "linux"}))),
        ("Linux pod, no selector", spec("registry.example.com/shop/web:1.2", Value::Null)),
        ("Windows pod", spec("mcr.microsoft.com/windows/servercore:ltsc2022", Value::Null)),
        ("pod with a pool label", spec("registry.example.com/shop/web:1.2", json!({"agentpool": "pool39"}))),
    ]
}

/// The body of the request that the API server sends when a Deployment creates such a pod, padded with environment
/// variables to about `bytes`.
pub fn review(spec: &Value, bytes: usize) -> String {
    let mut spec = spec.clone();
    let container = &mut spec["containers"][0];
    container["resources"] = json!({"requests": {"cpu": "100m", "memory": "128Mi"}});
    container["terminationMessagePath"] = json!("/dev/termination-log");
    container["imagePullPolicy"] = json!("IfNotPresent");
    spec["restartPolicy"] = json!("Always");
    spec["serviceAccountName"] = json!("default");
    spec["tolerations"] = json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
    let mut object = json!({"kind": "Pod", "apiVersion": "v1", "spec": spec, "status": {},
        "metadata": {"generateName": "web-6d4cf56db6-", "labels": {"app": "web"}, "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4cf56db6", "controller": true,
            "uid": "a3f0c1de-0000-4000-8000-000000000000"}]}});
    let mut env = Vec::new();
    while around(&object).len() + env.len() * 62 < bytes {
        env.push(json!({"name": format!("SETTING_{:04}", env.len()), "value": "a value of thirty-two characters"}));
    }
    object["spec"]["containers"][0]["env"] = json!(env);
    around(&object)
}

/// An AdmissionReview of that object, with its members in the order in which the API server writes them.
fn around(object: &Value) -> String {
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"0df28fbd-5f5f-11e8-bc74-36e6bb280816","kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},"namespace":"team-1","operation":"CREATE","userInfo":{{"username":"system:serviceaccount:kube-system:replicaset-controller","groups":["system:serviceaccounts","system:authenticated"]}},"object":{object},"oldObject":null,"dryRun":false}}}}"#
    )
}
