//! The controller: how long it reads the cluster, its resident set, and what heartbeats cost it.

use std::time::Instant;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use mullion_cluster::ControlPlane;
use serde_json::json;

use crate::fleet::{self, AT_ONCE};
use crate::running::Running;

pub async fn run(plane: &ControlPlane, count: usize) {
    let start = Instant::now();
    let running = Running::controller(plane.kubeconfig());
    running.wait_until_synced().await;
    println!(
        "\nfrom the start of the controller until it has read the cluster: {:.2} s",
        start.elapsed().as_secs_f64()
    );
    println!("\n{:48} {:>8} {:>8}", "memory of the controller, MiB", "resident", "peak");
    running.wait_for_patches(count).await;
    running.print_memory("all nodes labelled and tainted");

    let api: &Api<Node> = &Api::all(plane.client());
    let heartbeat = |n: usize| async move {
        let (time, name) = ("2026-01-01T00:00:00Z", fleet::windows_name(n));
        let condition =
            json!({"type": "Ready", "status": "True", "lastHeartbeatTime": time, "lastTransitionTime": time});
        let status = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        api.patch_status(&name, &PatchParams::default(), &status).await.map(drop).unwrap();
    };
    let (used, before, start) = (running.processor(), running.patches().await, Instant::now());
    stream::iter((0..count).map(heartbeat)).buffer_unordered(AT_ONCE).collect::<()>().await;
    // A controller that has read this node has received every heartbeat.
    api.create(&PostParams::default(), &fleet::windows("last", 0)).await.unwrap();
    running.wait_for_patches(before + 1).await;
    let used = running.processor().saturating_sub(used);
    running.print_memory("after a heartbeat of each");
    println!(
        "\n{count} heartbeats in {:.1} s: {} patches, {:.0} ms of processor time, {:.0} µs each",
        start.elapsed().as_secs_f64(),
        running.patches().await - before - 1,
        used.as_secs_f64() * 1e3,
        used.as_secs_f64() * 1e6 / count as f64,
    );
}
