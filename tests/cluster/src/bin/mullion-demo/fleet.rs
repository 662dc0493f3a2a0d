//! The demo's nodes.

use std::fmt::Write as _;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use mullion_cluster::{ControlPlane, NodeSpec, wait_for};

use crate::result::DEADLINE;

/// Two Linux and three Windows nodes; one of them has a taint from the start, as with OpenShift.
pub(crate) fn nodes() -> Vec<NodeSpec> {
    vec![
        NodeSpec::linux("linux-1"),
        NodeSpec::linux("linux-2"),
        NodeSpec::windows("win2019", "10.0.17763.6893").label("agentpool", "win19"),
        NodeSpec::windows("win2022", "10.0.20348.2655").taint("os=Windows:NoSchedule"),
        NodeSpec::windows("win2025", "10.0.26100.2894"),
    ]
}

/// Whether the node of that name has Windows, and its build.
pub(crate) fn build_of(node: &str) -> Option<u32> {
    match node {
        "win2019" => Some(17763),
        "win2022" => Some(20348),
        "win2025" => Some(26100),
        _ => None,
    }
}

/// Waits until the controller has labeled every Windows node and tainted those without a taint.
pub(crate) async fn wait_until_labelled(plane: &ControlPlane) -> Result<()> {
    let nodes: Api<Node> = Api::all(plane.client());
    wait_for("labels and taints on the Windows nodes", DEADLINE, || {
        let nodes = nodes.clone();
        async move {
            let windows =
                nodes.list(&kube::api::ListParams::default().labels("kubernetes.io/os=windows")).await.ok()?;
            let done = |node: &Node| {
                let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
                node.labels().contains_key("mullion.dev/windows-release")
                    && taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == "os"))
            };
            (windows.items.len() == 3 && windows.iter().all(done)).then_some(())
        }
    })
    .await
}

/// The nodes as the controller left them.
pub(crate) async fn describe(plane: &ControlPlane) -> Result<String> {
    let mut text = String::from("Nodes\n");
    let nodes: Api<Node> = Api::all(plane.client());
    for node in nodes.list(&kube::api::ListParams::default()).await? {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let taints: Vec<String> = taints
            .iter()
            .map(|taint| format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or_default(), taint.effect))
            .collect();
        let release = node.labels().get("mullion.dev/windows-release").cloned().unwrap_or_default();
        writeln!(text, "  {:<9} {:<9} {}", node.name_any(), release, taints.join(" "))?;
    }
    Ok(text)
}
