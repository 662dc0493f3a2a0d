//! DaemonSets with images for one Windows release, while nodes of other releases are created and deleted.

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use mullion_cluster::{ControlPlane, NodeSpec, TestNamespace, wait_for};
use mullion_engine::model::settings::NodeSettings;
use serde_json::json;

use super::{Controller, DEADLINE, with_its_rights};
use crate::shared::{list, start_webhook, wait_until_mullion_is_called};

const POOL: (&str, &str) = ("agentpool", "releases");

fn daemon_set() -> Result<DaemonSet> {
    Ok(serde_json::from_value(json!({"metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {
            "nodeSelector": {POOL.0: POOL.1},
            "containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022",
                "resources": {"limits": {"memory": "64Mi"}}}]}}}}))?)
}

/// Waits until the pods of the namespace are on exactly these nodes.
async fn wait_for_nodes(namespace: &TestNamespace, expected: &[&str]) -> Result<()> {
    let pods: Api<Pod> = namespace.api();
    wait_for(&format!("pods on {expected:?}"), DEADLINE, async || {
        let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let mut nodes: Vec<String> = all.items.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
        nodes.sort();
        if nodes == expected { Ok(()) } else { Err(format!("{nodes:?}")) }
    })
    .await
}

/// A node of an excluded release gets no pod, and a node of a previously unknown release gets one. Neither changes the
/// template, which an operator writes repeatedly; both are reported until they are gone.
pub(crate) async fn releases_come_and_go(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace_with_labels("releases", &[("mullion-test", "releases")]).await?;
    let node = |name: &str, version: &str| NodeSpec::windows(name, version).label(POOL.0, POOL.1);
    plane.create_node(&node("nrel2022", "10.0.20348.2655")).await?;
    let (_webhook, registration) = start_webhook(plane).await?;
    registration.namespace_label("mullion-test", "releases").register(&plane.client()).await?;
    wait_until_mullion_is_called(&namespace).await?;
    let daemons: Api<DaemonSet> = namespace.api();
    let created = daemons.create(&PostParams::default(), &daemon_set()?).await?;
    let template = |daemon_set: &DaemonSet| daemon_set.spec.template.clone();
    let affinity = template(&created).spec.and_then(|spec| spec.affinity);
    ensure!(affinity.is_some(), "{created:?}");
    let controller = Controller::start(with_its_rights(plane).await?, NodeSettings::default());
    wait_for_nodes(&namespace, &["nrel2022"]).await?;
    let metric = format!("mullion_daemonset_nodes_left_out{{namespace=\"{}\",name=\"agent\"}}", namespace.name);

    // 17763 is in the list from the start; 19045, a build of Windows 10, is not.
    plane.create_nodes(&[node("nrel2019", "10.0.17763.6893"), node("nrel10", "10.0.19045.1")]).await?;
    controller.wait_for_metric(&metric, 2).await?;
    wait_for_nodes(&namespace, &["nrel10", "nrel2022"]).await?;
    wait_for("the Event", DEADLINE, async || {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", namespace.name);
        let found = list(&plane.client(), &path).await.map_err(|error| error.to_string())?;
        let found = serde_json::Value::from(found).to_string();
        let reported = found.contains("NodesLeftOut") && found.contains("ltsc2019, build-19045");
        if reported { Ok(()) } else { Err(found) }
    })
    .await?;
    for _ in 0..5 {
        let mut own = daemon_set()?;
        own.metadata.resource_version = daemons.get("agent").await?.metadata.resource_version;
        let written = daemons.replace("agent", &PostParams::default(), &own).await?;
        ensure!(template(&written) == template(&created), "{written:?}");
    }

    let nodes: Api<Node> = Api::all(plane.client());
    for name in ["nrel2019", "nrel10"] {
        nodes.delete(name, &DeleteParams::default()).await?;
    }
    controller.wait_for_metric(&metric, 0).await?;
    let last = daemons.get("agent").await?;
    ensure!(last.metadata.generation == Some(1) && template(&last) == template(&created), "{last:?}");
    controller.stop().await?;
    nodes.delete("nrel2022", &DeleteParams::default()).await?;
    Ok(())
}
