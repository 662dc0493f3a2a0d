//! What happens while the webhook is away.

use anyhow::{Result, ensure};
use mullion_cluster::{FailurePolicy, MullionProcess, ServingCert, WebhookRegistration, free_port};
use serde_json::json;

use crate::shared::*;

pub async fn pods_are_created_while_the_webhook_is_away(shared: &Shared) -> Result<()> {
    let namespace = shared.plane.namespace("outage").await?;
    let (bind, admin) = (free_port()?, free_port()?);
    let certificate = ServingCert::for_loopback()?;
    let kubeconfig = shared.plane.kubeconfig().to_string_lossy().into_owned();
    let tls = certificate.folder().to_string_lossy().into_owned();
    let webhook = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(webhook_arguments(bind, admin, &tls, &kubeconfig))
        .admin(([127, 0, 0, 1], admin).into())
        .start()
        .await?;
    let registration = WebhookRegistration::new(&format!("https://127.0.0.1:{bind}"), certificate.ca_pem())
        .named("outage")
        .failure_policy(FailurePolicy::Ignore)
        .timeout_seconds(1)
        .only_namespace(&namespace);
    registration.register(&shared.plane.client()).await?;
    wait_until_asked(&namespace).await?;
    let seen = create(&namespace, &pod("seen", json!({"containers": [{"name": "c", "image": "nginx"}]}))).await?;
    ensure!(seen["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux", "{seen}");

    webhook.kill()?;
    let missed = create(&namespace, &pod("missed", json!({"containers": [{"name": "c", "image": "nginx"}]}))).await?;
    ensure!(missed["spec"].get("nodeSelector").is_none(), "nobody was there to add it: {missed}");
    registration.remove(&shared.plane.client()).await
}
