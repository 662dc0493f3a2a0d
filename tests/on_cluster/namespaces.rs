//! Namespaces that are created together with their pods.

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{free_port, metric};
use serde_json::{Value, json};

use crate::shared::*;

/// The label for the namespace's own webhook; the other is the shared Mullion's.
const MARK: (&str, &str) = ("mullion-test", "newborn");
const AT_ONCE: usize = 10;
/// The minimum number of rounds, and the maximum until a namespace was too new.
const ROUNDS: (usize, usize) = (5, 50);
/// The longest time that a review waits for its namespace, in microseconds. On a busy machine the response may be late.
const PATIENCE: u64 = 200_000;

/// Namespace, service account and pod in one `kubectl apply`, repeatedly: the pod arrives before the watch event of its
/// namespace, whose annotation alone decides. A review that waited less than its limit must be correct.
pub async fn a_pod_in_a_new_namespace_is_placed_by_its_annotation(shared: &Shared) -> Result<()> {
    let plane = &shared.plane;
    let admin = free_port()?;
    let (webhook, registration) = start_webhook_at(plane, &policies(), admin).await?;
    registration.named("mullion-newborn").namespace_label(MARK.0, MARK.1).register(&plane.client()).await?;
    wait_until_mullion_is_called(&plane.namespace_with_labels("newborn-probe", &[MARK]).await?).await?;

    let mut names: Vec<String> = Vec::new();
    for round in 0.. {
        // Otherwise no namespace was new enough for a look-up, and the test proves nothing.
        if round >= ROUNDS.0 && lookups(admin, "found").await? > 0 {
            break;
        }
        ensure!(round < ROUNDS.1, "no namespace was looked up and found");
        let some: Vec<_> = (0..AT_ONCE).map(|at| format!("newborn-{}-{round}-{at}", std::process::id())).collect();
        let objects: Vec<String> = some.iter().flat_map(|name| family(name)).map(|object| object.to_string()).collect();
        plane.kubectl_with_input(&["apply", "--validate=false", "-f", "-"], &objects.join("\n")).await?;
        names.extend(some);
    }
    let found = plane.kubectl(&["get", "pods", "--all-namespaces", "-l", "born=together", "-o", "json"]).await?;
    let found: Value = serde_json::from_str(&found)?;
    let pods = found["items"].as_array().context("pods")?;
    ensure!(pods.len() == names.len(), "{} pods", pods.len());
    let (mut late, log) = (0, webhook.log()?);
    for pod in pods.iter().filter(|pod| pod["spec"]["nodeSelector"]["kubernetes.io/os"] != "windows") {
        let waited = waited(&log, pod["metadata"]["namespace"].as_str().context("a namespace")?)?;
        ensure!(waited >= PATIENCE, "after {waited} µs: {pod}");
        late += 1;
    }
    ensure!(late < names.len(), "all of {late} were late");
    let (found, failed) = (lookups(admin, "found").await?, lookups(admin, "failed").await?);
    ensure!(found <= names.len(), "{found} look-ups for {} namespaces: each once at most", names.len());
    ensure!(late > 0 || failed == 0, "{failed} look-ups failed, and no pod shows it");

    let gone: Vec<&str> = names.iter().map(String::as_str).collect();
    plane.kubectl(&[&["delete", "namespace", "--wait=false"], &*gone].concat()).await?;
    webhook.stop().await?;
    Ok(())
}

/// How often a namespace was looked up, by outcome.
async fn lookups(admin: u16, outcome: &str) -> Result<usize> {
    let (_, text) = admin_get(admin, "/metrics").await?;
    Ok(metric(&text, &format!("mullion_namespace_lookups_total{{outcome=\"{outcome}\"}}"))?.unwrap_or(0))
}

/// How long the review of the namespace's pod took, in microseconds.
fn waited(log: &str, namespace: &str) -> Result<u64> {
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let review = lines
        .find(|line| line["message"] == "reviewed" && line["endpoint"] == "mutate" && line["namespace"] == namespace);
    review.and_then(|line| line["micros"].as_u64()).with_context(|| format!("no review in {namespace} was logged"))
}

/// A namespace with pods for Windows, and what a pod needs to be created immediately: for an account named `default`
/// the API server waits until it is created.
fn family(name: &str) -> [Value; 3] {
    let labels = json!({MARK.0: MARK.1});
    let annotations = json!({"mullion.dev/os": "windows"});
    let container = json!({"name": "c", "image": "registry.example.com/legacy/app:1"});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels,
            "annotations": annotations}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app", "namespace": name}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": name, "labels": {"born": "together"}},
            "spec": {"serviceAccountName": "app", "containers": [container]}}),
    ]
}
