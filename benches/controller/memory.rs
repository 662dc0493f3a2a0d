//! The built program: how long it reads the cluster, its resident set, and what heartbeats cost it.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use mullion_cluster::{ControlPlane, free_port};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::fleet::{self, AT_ONCE};
use crate::rate::patches;
use crate::{resident, thread_times};

/// Ends the program when it is dropped.
struct Running {
    child: Child,
    admin: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Running {
    /// Processor time so far, of all its threads.
    fn processor(&self) -> Duration {
        thread_times::of(self.child.id())
    }

    /// The response of its admin port: status line, headers and body; empty while the port is not open.
    async fn get(&self, path: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(&self.admin).await else { return String::new() };
        let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    async fn patches(&self) -> usize {
        patches(&self.get("/metrics").await)
    }

    /// A controller that does not lead is ready before it has read the cluster.
    async fn wait_until_synced(&self) {
        let leads = |metrics: &str| metrics.lines().any(|line| line == "mullion_leader 1");
        while !leads(&self.get("/metrics").await) || !self.get("/readyz").await.starts_with("HTTP/1.1 200") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn wait_for_patches(&self, count: usize) {
        while self.patches().await < count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn print(&self, what: &str) {
        let [now, peak] = resident::of(self.child.id());
        println!("{what:32} {now:8.1} {peak:8.1}");
    }
}

pub async fn run(plane: &ControlPlane, count: usize) {
    let admin = format!("127.0.0.1:{}", free_port().unwrap());
    let start = Instant::now();
    let child = Command::new(env!("CARGO_BIN_EXE_mullion"))
        .args(["controller", "--admin-bind", &admin, "--kubeconfig"])
        .arg(plane.kubeconfig())
        .env("MULLION_LOG", "off")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running { child, admin };
    running.wait_until_synced().await;
    println!(
        "\nfrom the start of the controller until it has read the cluster: {:.2} s",
        start.elapsed().as_secs_f64()
    );
    println!("\n{:32} {:>8} {:>8}", "memory of the controller, MiB", "resident", "peak");
    running.wait_for_patches(count).await;
    running.print("all nodes labelled and tainted");

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
    running.print("after a heartbeat of each");
    println!(
        "\n{count} heartbeats in {:.1} s: {} patches, {:.0} ms of processor time, {:.0} µs each",
        start.elapsed().as_secs_f64(),
        running.patches().await - before - 1,
        used.as_secs_f64() * 1e3,
        used.as_secs_f64() * 1e6 / count as f64,
    );
}
