//! Namespaces that come together with their pods.

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::free_port;
use serde_json::{Value, json};

use crate::shared::*;

/// Its value is the namespace's own webhook; the other is the shared Mullion's.
const MARK: (&str, &str) = ("mullion-test", "newborn");
const PAIRS: usize = 50;
const AT_ONCE: usize = 10;

/// Namespace, service account and pod in one `kubectl apply`, again and again: the pod is there before the news of its
/// namespace, whose annotation alone decides.
pub async fn a_pod_in_a_new_namespace_is_placed_by_its_annotation(shared: &Shared) -> Result<()> {
    let plane = &shared.plane;
    let admin = free_port()?;
    let (webhook, registration) = start_webhook_at(plane, &policies(), admin).await?;
    registration.named("mullion-newborn").namespace_label(MARK.0, MARK.1).register(&plane.client()).await?;
    wait_until_asked(&plane.namespace_with_labels("newborn-probe", &[MARK]).await?).await?;

    let names: Vec<String> = (0..PAIRS).map(|at| format!("newborn-{}-{at}", std::process::id())).collect();
    for some in names.chunks(AT_ONCE) {
        let objects: Vec<String> = some.iter().flat_map(|name| family(name)).map(|object| object.to_string()).collect();
        plane.kubectl_with_input(&["apply", "--validate=false", "-f", "-"], &objects.join("\n")).await?;
    }
    let found = plane.kubectl(&["get", "pods", "--all-namespaces", "-l", "born=together", "-o", "json"]).await?;
    let found: Value = serde_json::from_str(&found)?;
    let pods = found["items"].as_array().context("pods")?;
    ensure!(pods.len() == PAIRS, "{} pods", pods.len());
    for pod in pods {
        ensure!(pod["spec"]["nodeSelector"]["kubernetes.io/os"] == "windows", "{pod}");
    }
    // Else nothing was new enough to be asked for, and all of this proved nothing.
    let (_, text) = admin_get(admin, "/metrics").await?;
    let asked = text.lines().find_map(|line| line.strip_prefix(r#"mullion_namespace_lookups_total{outcome="found"} "#));
    let asked: usize = asked.context("no namespace was asked for")?.parse()?;
    ensure!((1..=PAIRS).contains(&asked), "{asked} of {PAIRS} namespaces were asked for: each once at most");
    ensure!(!text.contains(r#"namespace_lookups_total{outcome="failed"}"#), "{text}");

    let gone: Vec<&str> = names.iter().map(String::as_str).collect();
    plane.kubectl(&[&["delete", "namespace", "--wait=false"], &*gone].concat()).await?;
    webhook.stop().await?;
    Ok(())
}

/// A namespace whose pods are for Windows, and what a pod needs to be made at once: of an account named `default` the
/// API server waits for whoever makes it.
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
