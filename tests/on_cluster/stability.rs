//! Nothing that runs is worse off: DaemonSets above all.

use anyhow::{Result, ensure};
use mullion_cluster::wait_for;
use serde_json::{Value, json};

use crate::shared::*;

const AGENT: &str = "registry.example.com/agent:1";
const MULTI: &str = "registry.k8s.io/sig-storage/livenessprobe:v2.15.0";
const WINDOWS: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";

fn tolerating(mut daemon_set: Value) -> Value {
    daemon_set["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    daemon_set
}

fn all_nodes() -> Vec<&'static str> {
    [&LINUX_NODES[..], &WINDOWS_NODES[..]].concat()
}

pub async fn a_new_linux_daemon_set_completes_on_linux(shared: &Shared) -> Result<()> {
    for daemon_set in [workload("DaemonSet", "agent", AGENT), tolerating(workload("DaemonSet", "agent", AGENT))] {
        let namespace = shared.namespace("linux-ds").await?;
        create(&namespace, &daemon_set).await?;
        let nodes = rolled_out(&namespace, "agent").await?;
        ensure!(nodes == LINUX_NODES, "{nodes:?}");
    }
    Ok(())
}

pub async fn a_windows_daemon_set_gets_every_windows_node(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("windows-ds").await?;
    create(&namespace, &workload("DaemonSet", "agent", WINDOWS)).await?;
    let nodes = rolled_out(&namespace, "agent").await?;
    ensure!(nodes == WINDOWS_NODES, "{nodes:?}");
    Ok(())
}

pub async fn a_touched_daemon_set_keeps_its_pods(shared: &Shared) -> Result<()> {
    for (image, nodes) in [(AGENT, all_nodes()), (MULTI, all_nodes())] {
        // It ran before Mullion came.
        let namespace = shared.plane.namespace("touched").await?;
        create(&namespace, &tolerating(workload("DaemonSet", "agent", image))).await?;
        ensure!(rolled_out(&namespace, "agent").await? == nodes, "{image}");
        shared.adopt(&namespace).await?;
        let before = identity(&namespace, "agent").await?;
        let touch = json!({"metadata": {"annotations": {"touched": "yes"}, "labels": {"touched": "yes"}}});
        let touched = merge(&namespace, "DaemonSet", "agent", &touch).await?;
        ensure!(touched["metadata"]["generation"] == before.0, "{image}: a touch made a generation");
        // The DaemonSet controller has looked once it counts; then the same pods must be there.
        ensure!(rolled_out(&namespace, "agent").await? == nodes, "{image}");
        ensure!(identity(&namespace, "agent").await? == before, "{image}: pods were replaced");
    }
    Ok(())
}

pub async fn a_daemon_set_that_is_written_again_keeps_its_generation(shared: &Shared) -> Result<()> {
    for image in [AGENT, WINDOWS, MULTI] {
        let namespace = shared.namespace("again").await?;
        let own = workload("DaemonSet", "agent", image);
        create(&namespace, &own).await?;
        rolled_out(&namespace, "agent").await?;
        let before = identity(&namespace, "agent").await?;
        for _ in 0..5 {
            // A controller that knows only its own version of the object.
            let stored = put(&namespace, &own).await?;
            ensure!(stored["metadata"]["generation"] == before.0, "{image}: writing it again made a generation");
        }
        rolled_out(&namespace, "agent").await?;
        ensure!(identity(&namespace, "agent").await? == before, "{image}: pods were replaced");
    }
    Ok(())
}

pub async fn a_daemon_sets_pods_are_never_refused(shared: &Shared) -> Result<()> {
    let namespace = shared.plane.namespace("refuse").await?;
    let mut daemon_set = tolerating(workload("DaemonSet", "agent", WINDOWS));
    daemon_set["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    daemon_set["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    daemon_set["spec"]["template"]["spec"]["containers"][0]["securityContext"] =
        json!({"runAsUser": 0, "privileged": true});
    create(&namespace, &daemon_set).await?;
    ensure!(rolled_out(&namespace, "agent").await? == WINDOWS_NODES);
    shared.adopt(&namespace).await?;
    let (_, old) = identity(&namespace, "agent").await?;
    for name in old.keys() {
        delete(&namespace, "Pod", name).await?;
    }
    let labels = wait_for("pods in the place of the deleted ones", DEADLINE, || async {
        let found = pods(&namespace).await.ok()?;
        let fresh = found.iter().all(|pod| !old.contains_key(pod["metadata"]["name"].as_str().unwrap_or_default()));
        let labels: Vec<Value> =
            found.iter().map(|pod| pod["metadata"]["labels"]["mullion.dev/findings"].clone()).collect();
        (fresh && found.len() == 3).then_some(labels)
    })
    .await?;
    ensure!(labels.iter().all(|label| label == "MUL201.MUL203.MUL204"), "{labels:?}");
    ensure!(rolled_out(&namespace, "agent").await? == WINDOWS_NODES);
    Ok(())
}
