//! What happens while the webhook is away.

use anyhow::{Result, ensure};
use mullion_cluster::FailurePolicy;
use serde_json::json;

use crate::shared::*;

pub async fn pods_are_created_while_the_webhook_is_away(shared: &Shared) -> Result<()> {
    let namespace = shared.plane.namespace("outage").await?;
    let (webhook, registration) = start_webhook(&shared.plane).await?;
    let registration = registration.named("outage").failure_policy(FailurePolicy::Ignore).only_namespace(&namespace);
    registration.register(&shared.plane.client()).await?;
    wait_until_asked(&namespace).await?;
    let seen = create(&namespace, &pod("seen", json!({"containers": [{"name": "c", "image": "nginx"}]}))).await?;
    ensure!(seen["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux", "{seen}");

    webhook.kill()?;
    let missed = create(&namespace, &pod("missed", json!({"containers": [{"name": "c", "image": "nginx"}]}))).await?;
    ensure!(missed["spec"].get("nodeSelector").is_none(), "nobody was there to add it: {missed}");
    registration.remove(&shared.plane.client()).await
}
