//! Labels and taints that others remove repeatedly.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use mullion_cluster::{ControlPlane, NodeSpec, wait_for};
use mullion_engine::model::settings::NodeSettings;
use serde_json::json;

use super::{Controller, DEADLINE, OURS, labels, taints, wait_for_event, wait_for_taints, with_its_rights};

const CONTESTED: &str = "mullion_nodes_contested";
const RELEASE: &str = "mullion.dev/windows-release";

/// A taint, and a label, that others remove: added again twice, by any leader, then left unchanged and reported.
pub(crate) async fn repeated_removals_are_left(plane: &ControlPlane) -> Result<()> {
    plane.create_node(&NodeSpec::windows("nundone", "10.0.20348.2655")).await?;
    let (api, client): (Api<Node>, _) = (Api::all(plane.client()), with_its_rights(plane).await?);
    let mut controller = Controller::start(client.clone(), NodeSettings::default());
    for removal in 1..=3 {
        let node = wait_for_taints(&api, "nundone", &[OURS]).await?;
        ensure!(labels(&node).contains_key(RELEASE), "{node:?}");
        if removal == 2 {
            // Another leader, because the count is on the node.
            controller.stop().await?;
            controller = Controller::start(client.clone(), NodeSettings::default());
        }
        let bare = json!({"spec": {"taints": []}});
        api.patch("nundone", &PatchParams::default(), &Patch::Merge(&bare)).await?;
    }
    let expected = [OURS, "3 times within an hour", "kubectl annotate node nundone mullion.dev/owned-"];
    wait_for_event(plane, "nundone", "TaintContested", &expected).await?;
    controller.wait_for_metric(CONTESTED, 1).await?;
    ensure!(taints(&api.get("nundone").await?).is_empty(), "it was set again");
    // The remedy in the Event.
    plane.kubectl(&["annotate", "node", "nundone", "mullion.dev/owned-"]).await?;
    wait_for_taints(&api, "nundone", &[OURS]).await?;
    controller.wait_for_metric(CONTESTED, 0).await?;

    let wrong = json!({"metadata": {"labels": {RELEASE: "theirs"}}});
    let set = async || {
        wait_for("the label to be right", DEADLINE, async || {
            let node = api.get("nundone").await.map_err(|error| error.to_string())?;
            if labels(&node)[RELEASE] == "ltsc2022" { Ok(()) } else { Err(format!("{:?}", labels(&node))) }
        })
        .await
    };
    for _ in 0..3 {
        set().await?;
        api.patch("nundone", &PatchParams::default(), &Patch::Merge(&wrong)).await?;
    }
    set().await?;
    api.patch("nundone", &PatchParams::default(), &Patch::Merge(&wrong)).await?;
    wait_for_event(plane, "nundone", "ChangesUndone", &["label mullion.dev/windows-release=ltsc2022"]).await?;
    controller.wait_for_metric(CONTESTED, 1).await?;
    let node = api.get("nundone").await?;
    ensure!(labels(&node)[RELEASE] == "theirs", "{:?}", labels(&node));
    ensure!(controller.patches("failed")? == 0, "{}", controller.metrics.encode()?);
    controller.stop().await
}
