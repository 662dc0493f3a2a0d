//! ConfigMaps with policies in Mullion's own namespace, before Mullion runs and while it runs, and in a tenant's
//! namespace.

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{ControlPlane, WebhookRegistration, free_port, wait_for};
use serde_json::{Value, json};

use crate::shared::*;

/// The namespace for which the chart is rendered, and for whose pods the API server does not call Mullion.
const INSTALLED_IN: &str = "mullion-system";

fn config_map(name: &str, policy: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"mullion.dev/policy": "true"}}, "data": {"own.yaml": policy},
    })
    .to_string()
}

fn policy(spec: &Value) -> String {
    let metadata = json!({"name": "own"});
    json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "PodPolicy", "metadata": metadata, "spec": spec}).to_string()
}

/// A policy with images that fills a ConfigMap.
fn large() -> String {
    let image = |at| json!({"pattern": format!("registry.example.com/team-{at}/an-application-of-theirs-for-windows/**"), "os": "windows"});
    policy(&json!({"priority": 10, "detect": {"images": (0..10_000).map(image).collect::<Vec<_>>()}}))
}

/// The output of kubectl for a ConfigMap, with a server-side apply, because an apply that stores the text twice has no
/// room for large ones.
async fn apply(plane: &ControlPlane, namespace: &str, map: &str, more: &[&str]) -> Result<String> {
    let arguments = ["apply", "--server-side", "--force-conflicts", "--namespace", namespace, "-f", "-"];
    plane.kubectl_with_input(&[&arguments[..], more].concat(), map).await
}

pub async fn policies_are_judged_where_they_are_mounted(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace("policies").await?;
    let broken = config_map("broken", &policy(&json!({"priorit": 1})));
    let good = config_map("good", &policy(&json!({"priority": 10})));

    // An earlier trial may have left it, or it is still being deleted.
    wait_for("Mullion's own namespace", DEADLINE, async || {
        plane.kubectl(&["create", "namespace", INSTALLED_IN]).await.ok();
        apply(plane, INSTALLED_IN, &good, &["--dry-run=server"]).await
    })
    .await?;

    // First a cluster in which everything is installed and nothing runs yet.
    WebhookRegistration::new("https://127.0.0.1:1", "").as_installed().register(&plane.client()).await?;
    for map in [&broken, &good] {
        apply(plane, INSTALLED_IN, map, &[]).await.context("before Mullion runs")?;
    }
    let admin = free_port()?;
    let (webhook, registration) = start_webhook_of(INSTALLED_IN, plane, &policies(), admin).await?;
    registration.register(&plane.client()).await?;
    wait_until_mullion_is_called(&namespace).await?;

    let denied = wait_for("the API server to call about policies", DEADLINE, async || {
        let answer =
            apply(plane, INSTALLED_IN, &broken.replace("\"broken\"", "\"another\""), &["--dry-run=server"]).await;
        answer.err().context("it was accepted")
    })
    .await?;
    let text = denied.to_string();
    ensure!(text.contains("own.yaml:1:") && text.contains("did you mean `priority`?"), "{text}");
    let annotate = ["annotate", "configmap", "broken", "example.com/a=b", "--namespace", INSTALLED_IN];
    plane.kubectl(&annotate).await.context("a broken ConfigMap can be annotated")?;
    let loud = plane.kubectl(&[&annotate[..], &["--overwrite", "--warnings-as-errors"]].concat()).await;
    let text = loud.err().context("no warning")?.to_string();
    ensure!(text.contains("Mullion: ConfigMap broken is as broken as before"), "{text}");

    // With the policies in force, of which one has this priority.
    let collides = config_map("good", &policy(&json!({"priority": 10, "place": {"build": {"mode": "Never"}}})));
    let loud = ["--warnings-as-errors"];
    let text = apply(plane, INSTALLED_IN, &collides, &loud).await.err().context("no warning")?.to_string();
    for part in ["Mullion: together with the policies in force: own.yaml:1:", "`own` and `exact`", "exact.yaml:4"] {
        ensure!(text.contains(part), "{part} is not in {text}");
    }
    let stored = plane.kubectl(&["get", "configmap", "good", "--namespace", INSTALLED_IN, "-o", "yaml"]).await?;
    ensure!(stored.contains("Never"), "it was accepted: {stored}");

    // A tenant's ConfigMap cannot be mounted: it is not reviewed, and its author gets no information about the policies
    // in force.
    let reviews = async || {
        let (_, metrics) = admin_get(admin, "/metrics").await?;
        let counted = metrics.lines().filter(|line| line.starts_with("mullion_policy_reviews_total"));
        anyhow::Ok(counted.map(str::to_owned).collect::<Vec<_>>())
    };
    as_tenant(plane, "tenant", &namespace).await?;
    let before = reviews().await?;
    for map in [&broken, &collides] {
        let as_tenant = ["--as=tenant", "--warnings-as-errors"];
        apply(plane, &namespace.name, map, &as_tenant).await.context("a tenant's ConfigMap")?;
    }
    let after = reviews().await?;
    ensure!(before == after, "{before:?} before, and {after:?} after a tenant's ConfigMaps");

    let large = large();
    ensure!(large.len() > 900_000, "{}", large.len());
    apply(plane, INSTALLED_IN, &config_map("large", &large), &loud).await.context("a large one")?;
    let bad = large.replacen("\"priority\":10", "\"priority\":\"on\"", 1);
    let text =
        apply(plane, INSTALLED_IN, &config_map("large", &bad), &[]).await.err().context("it was accepted")?.to_string();
    ensure!(text.contains("own.yaml:1:") && text.len() < 4_000, "{text}");

    let (_, metrics) = admin_get(admin, "/metrics").await?;
    for outcome in ["broken", "still_broken", "good", "warned"] {
        ensure!(metrics.contains(&format!("mullion_policy_reviews_total{{outcome=\"{outcome}\"}}")), "{metrics}");
    }
    WebhookRegistration::new("https://127.0.0.1:1", "").remove(&plane.client()).await?;
    drop(webhook);
    plane.kubectl(&["delete", "configmap", "broken", "good", "large", "--namespace", INSTALLED_IN]).await?;
    namespace.delete().await
}
