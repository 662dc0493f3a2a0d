//! Nodes on the API server, like those of a managed cluster.

use std::time::Instant;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use mullion_cluster::{ControlPlane, NodeSpec};
use serde_json::json;

pub const AT_ONCE: usize = 32;

/// The name of the nth Windows node.
pub fn windows_name(n: usize) -> String {
    format!("akswin{:02}{n:06}", n % 40)
}

/// A Windows node.
pub fn windows(name: &str, n: usize) -> Node {
    let kernels = ["10.0.17763.6293", "10.0.20348.2655", "10.0.26100.32995"];
    node(NodeSpec::windows(name, kernels[n % 3]), n)
}

fn node(spec: NodeSpec, n: usize) -> Node {
    let labels = [
        ("agentpool", format!("pool{}", n % 40)),
        ("beta.kubernetes.io/instance-type", "Standard_D8s_v5".to_owned()),
        ("failure-domain.beta.kubernetes.io/region", "westeurope".to_owned()),
        ("failure-domain.beta.kubernetes.io/zone", format!("westeurope-{}", n % 3)),
        ("kubernetes.azure.com/agentpool", format!("pool{}", n % 40)),
        ("kubernetes.azure.com/cluster", "MC_fleet_production_westeurope".to_owned()),
        ("kubernetes.azure.com/mode", "user".to_owned()),
        ("kubernetes.azure.com/node-image-version", "AKS-2026.01.12".to_owned()),
        ("kubernetes.azure.com/role", "agent".to_owned()),
        ("node.kubernetes.io/instance-type", "Standard_D8s_v5".to_owned()),
        ("topology.kubernetes.io/region", "westeurope".to_owned()),
        ("topology.kubernetes.io/zone", format!("westeurope-{}", n % 3)),
    ];
    let spec = labels.iter().fold(spec, |spec, (key, value)| spec.label(key, value));
    let mut node = spec.build().unwrap();
    let image = |at: usize| json!({"names": [format!("registry.example.com/team-{at}/service:1.{n}")], "sizeBytes": 300_000_000});
    let images = (0..20).map(image).collect::<Vec<_>>();
    node.status.as_mut().unwrap().images = Some(serde_json::from_value(json!(images)).unwrap());
    node
}

pub async fn create(plane: &ControlPlane, of_windows: usize, of_linux: usize) {
    let (api, start): (Api<Node>, _) = (Api::all(plane.client()), Instant::now());
    let nodes = (0..of_windows).map(|n| windows(&windows_name(n), n));
    let nodes = nodes.chain((0..of_linux).map(|n| node(NodeSpec::linux(&format!("akslin{n:06}")), n)));
    let created = nodes.map(|node| {
        let api = api.clone();
        async move { api.create(&PostParams::default(), &node).await.map(drop).unwrap() }
    });
    stream::iter(created).buffer_unordered(AT_ONCE).collect::<()>().await;
    println!("{of_windows} Windows and {of_linux} Linux nodes made in {:.0} s", start.elapsed().as_secs_f64());
}
