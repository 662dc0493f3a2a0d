//! Many nodes after a cold start, and their heartbeats.

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use mullion_cluster::{ControlPlane, NodeSpec, wait_for};
use mullion_engine::model::settings::NodeSettings;
use serde_json::json;

use super::{Controller, DEADLINE, OURS, labels, taints, wait_for_taints};

/// The number of nodes.
fn count() -> usize {
    if mullion_cluster::soak() { 1_000 } else { 150 }
}

const AT_ONCE: usize = 32;
const BUILDS: [(&str, &str); 3] =
    [("10.0.17763.6293", "ltsc2019"), ("10.0.20348.2655", "ltsc2022"), ("10.0.26100.32995", "ltsc2025")];

fn name(n: usize) -> String {
    format!("fleet-{n:04}")
}

/// Each is labeled and tainted with one patch, none is missing, and no heartbeat causes another
/// patch.
///
/// On a control plane of its own: no simulated kubelets, and no other test with so many nodes.
pub(crate) async fn many_nodes_get_one_patch_each() -> Result<()> {
    let plane = ControlPlane::builder().kwok(false).controller_manager(false).scheduler(false).start().await?;
    let nodes = count();
    let api: &Api<Node> = &Api::all(plane.client());
    let create = async |n: usize| -> Result<()> {
        let (kernel, _) = BUILDS[n % BUILDS.len()];
        api.create(&PostParams::default(), &NodeSpec::windows(&name(n), kernel).build()?).await?;
        Ok(())
    };
    stream::iter((0..nodes).map(create)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let controller = Controller::start(plane.client(), NodeSettings::default());
    wait_for("a patch for each node", DEADLINE, async || {
        let done = controller.patches("done").map_err(|error| error.to_string())?;
        if done >= nodes as u64 { Ok(()) } else { Err(format!("{done} patches")) }
    })
    .await?;
    let all = api.list(&ListParams::default()).await?.items;
    ensure!(all.len() == nodes, "{} nodes", all.len());
    for (n, node) in all.iter().enumerate() {
        let (_, release) = BUILDS[n % BUILDS.len()];
        ensure!(taints(node) == [OURS] && labels(node)["mullion.dev/windows-release"] == release, "{n}: {node:?}");
    }
    let heartbeat = async |n: usize| -> Result<()> {
        let time = "2026-01-01T00:00:00Z";
        let condition =
            json!({"type": "Ready", "status": "True", "lastHeartbeatTime": time, "lastTransitionTime": time});
        let status = json!({"status": {"conditions": [condition]}});
        api.patch_status(&name(n), &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    };
    stream::iter((0..nodes).map(heartbeat)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    // Watch events arrive in the order of their versions: after this node, every heartbeat was
    // processed.
    api.create(&PostParams::default(), &NodeSpec::windows("last", BUILDS[0].0).build()?).await?;
    wait_for_taints(api, "last", &[OURS]).await?;
    let [done, others] = ["done", "conflict"].map(|outcome| controller.patches(outcome));
    // Counted after the response, which may be a moment after the node shows it.
    ensure!((nodes as u64..=nodes as u64 + 1).contains(&done?), "{}", controller.metrics.encode()?);
    ensure!(others? == 0, "{}", controller.metrics.encode()?);
    controller.stop().await
}
