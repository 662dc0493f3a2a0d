//! The controller after a cold start, a loop that only sends the same patches with the same concurrency, and the same
//! loop while one watch receives the changes, which any controller of nodes needs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use mullion::controller::{ControllerMetrics, LeaderContext, nodes, state};
use mullion_cluster::{ControlPlane, metric};
use mullion_engine::model::settings::{Mode, NodeSettings, policy_taint};
use mullion_engine::node::{NodeFacts, plan_node};
use mullion_policy::PolicySet;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 3;
/// The number of nodes that the controller works on at a time.
const AT_ONCE: usize = 16;

fn policy(mode: Mode) -> Arc<PolicySet> {
    let mut set = PolicySet::built_in();
    set.nodes = NodeSettings { mode, ..NodeSettings::default() };
    Arc::new(set)
}

/// Patches so far.
pub fn patches(text: &str) -> usize {
    metric(text, "mullion_node_patches_total{outcome=\"done\"}").unwrap().unwrap_or(0)
}

/// Patches in a second, from the first to the last.
async fn controller(client: Client, mode: Mode, count: usize) -> f64 {
    let (_say, policies) = watch::channel(policy(mode));
    let (ready, _) = watch::channel(false);
    let (metrics, stop) = (ControllerMetrics::new(), CancellationToken::new());
    let leading = LeaderContext::new(client, "default", policies, metrics.clone(), ready, stop.clone()).await;
    let running =
        tokio::spawn(async move { tokio::join!(state::run(leading.clone()), nodes::control_loop::run(leading)) });
    let mut first = None;
    let (from, taken) = loop {
        // Not more often, because each request costs processor time that the bare loop does not
        // use.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let done = patches(&metrics.encode().unwrap());
        let (from, start) = *first.get_or_insert_with(|| (done, Instant::now()));
        if done == 0 {
            first = None;
        } else if done >= count {
            break (from, start.elapsed());
        }
    };
    stop.cancel();
    running.await.unwrap();
    (count - from) as f64 / taken.as_secs_f64()
}

/// The patch that the controller sends for each Windows node.
async fn bodies(client: &Client, mode: Mode) -> Vec<(String, String)> {
    let policy = &policy(mode).nodes;
    let all = Api::<Node>::all(client.clone()).list(&ListParams::default().labels("kubernetes.io/os=windows")).await;
    let body = |node: Node| {
        let name = node.metadata.name.unwrap();
        let facts = NodeFacts {
            name: name.clone(),
            labels: node.metadata.labels.unwrap(),
            annotations: node.metadata.annotations.unwrap_or_default(),
            taints: node
                .spec
                .unwrap()
                .taints
                .iter()
                .flatten()
                .map(|taint| serde_json::to_value(taint).unwrap())
                .collect(),
            kernel_version: node.status.unwrap().node_info.unwrap().kernel_version,
        };
        let patch =
            plan_node(&facts, policy, &BTreeSet::from([policy_taint(policy)]), &[], 0).patch.expect("something to do");
        (name, patch.to_merge_patch(&node.metadata.resource_version.unwrap()).to_string())
    };
    all.unwrap().items.into_iter().map(body).collect()
}

/// Receives every change of a node, and reads nothing of it.
async fn watch_nodes(client: Client) {
    let get = |query: String| http::Request::get(format!("/api/v1/nodes?{query}")).body(Vec::new()).unwrap();
    let page: Value = client.request(get("limit=1".to_owned())).await.unwrap();
    let version = page["metadata"]["resourceVersion"].as_str().unwrap();
    let request = get(format!("watch=true&resourceVersion={version}"));
    let events = client.request_stream(request).await.unwrap();
    futures::io::copy(events, &mut futures::io::sink()).await.ok();
}

async fn bare(client: &Client, mode: Mode) -> f64 {
    let bodies = bodies(client, mode).await;
    let (count, start) = (bodies.len(), Instant::now());
    let sent = bodies.into_iter().map(|(name, body)| {
        let request = http::Request::patch(format!("/api/v1/nodes/{name}?fieldManager=bare"))
            .header("content-type", "application/merge-patch+json")
            .body(body.into_bytes())
            .unwrap();
        async move { client.request_text(request).await.map(drop).unwrap() }
    });
    stream::iter(sent).buffer_unordered(AT_ONCE).collect::<()>().await;
    count as f64 / start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub async fn run(plane: &ControlPlane, count: usize) {
    let client = plane.client();
    let all: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
    let there = all.list(&ListParams::default()).await.unwrap().items.len();
    println!("\npatches per second, {ROUNDS} rounds in turn, {count} of {there} nodes from cold, {AT_ONCE} at a time");
    println!("{:24} {:>11} {:>11} {:>6} {:>11} {:>6}", "", "controller", "bare loop", "ratio", "with watch", "ratio");
    let modes = [("labels and taint set", Mode::Enforce), ("all taken off again", Mode::Disabled)];
    let mut rates = modes.map(|_| [Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        for (rates, (_, mode)) in rates.iter_mut().zip(modes) {
            rates[0].push(controller(client.clone(), mode, count).await);
        }
        for (rates, (_, mode)) in rates.iter_mut().zip(modes) {
            rates[1].push(bare(&client, mode).await);
        }
        let watch = tokio::spawn(watch_nodes(client.clone()));
        for (rates, (_, mode)) in rates.iter_mut().zip(modes) {
            rates[2].push(bare(&client, mode).await);
        }
        watch.abort();
    }
    for (rates, (what, _)) in rates.into_iter().zip(modes) {
        let [ours, bare, watched] = rates.map(median);
        println!("{what:24} {ours:11.0} {bare:11.0} {:6.2} {watched:11.0} {:6.2}", ours / bare, ours / watched);
    }
}
