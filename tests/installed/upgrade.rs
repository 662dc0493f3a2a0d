//! Upgrades to another image, other policies and other values, and the rollback.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kube::ResourceExt as _;
use mullion_cluster::{Seen, wait_for};

use crate::load::{Load, all_pods_were_reviewed};
use crate::site::{BEFORE, DEADLINE, NAMESPACE, REPOSITORY, Site, image, program};
use crate::user_actions::at_work;

pub const NEXT: &str = "registry.example.com/mirror/mullion";

/// From the previous chart to this one and back, with controllers of both at the same time and nodes that carry records:
/// no pod is rejected, none is admitted without a review, and neither fence denies anything that a controller writes.
pub async fn upgrade_and_rollback_affect_no_pod(site: &Site) -> Result<()> {
    site.kubelet.image(&format!("{NEXT}:next"), program());
    site.install_chart(Path::new(BEFORE), &[]).await?;
    at_work(site).await?;
    let before = bundles(site).await?;
    let load = Load::start(site).await?;

    let values = format!(
        "image.repository={NEXT},image.tag=next,policies.shipped=compatible,webhook.replicas=3,webhook.log=warn"
    );
    site.install(&["--set", &values]).await?;
    images(site, 3, &format!("{NEXT}:next")).await?;
    load.more(50).await?;
    ensure!(bundles(site).await? == before, "the upgrade changed caBundle");
    writes_are_allowed(site).await.context("after the upgrade")?;

    site.helm(&["rollback", "mullion", "-n", NAMESPACE, "--wait"]).await?;
    images(site, 2, &image(REPOSITORY)).await?;
    load.more(50).await?;
    ensure!(bundles(site).await? == before, "rolling back changed caBundle");
    writes_are_allowed(site).await.context("after the rollback")?;
    all_pods_were_reviewed(&load.stop().await)
}

/// New nodes get labels and taint from the current leader, RuntimeClasses are created again, and no write was denied.
pub async fn writes_are_allowed(site: &Site) -> Result<()> {
    let undo = ["label", "node", "w2022", "mullion.dev/windows-release-", "mullion.dev/windows-revision-"];
    site.plane.kubectl(&undo).await?;
    site.plane.kubectl(&["taint", "node", "w2022", "os-"]).await?;
    site.plane.kubectl(&["delete", "runtimeclass", "mullion-windows-ltsc2022", "--ignore-not-found"]).await?;
    let node = ["get", "node", "w2022", "-o", "jsonpath={.metadata.labels} {.spec.taints[*].key}"];
    wait_for("labels, taint and class to come back", DEADLINE, async || {
        let found = site.plane.kubectl(&node).await?;
        let written = found.contains("mullion.dev/windows-release") && found.ends_with(" os");
        ensure!(written, "{found}");
        site.plane.kubectl(&["get", "runtimeclass", "mullion-windows-ltsc2022"]).await
    })
    .await?;
    let denied =
        ["get", "events", "-A", "--field-selector", "reason=WriteDenied", "-o", "jsonpath={.items[*].message}"];
    let denied = site.plane.kubectl(&denied).await?;
    ensure!(denied.is_empty(), "{denied}");
    Ok(())
}

/// Waits until exactly this number of webhooks, all of this image, are left.
pub async fn images(site: &Site, replicas: usize, image: &str) -> Result<()> {
    site.whole("mullion-webhook").await?;
    site.whole("mullion-controller").await?;
    let selector = "app.kubernetes.io/name=mullion,app.kubernetes.io/component=webhook";
    wait_for(&format!("{replicas} webhooks of {image}"), DEADLINE, async || {
        let params = kube::api::ListParams::default().labels(selector);
        let pods = match site.pods().list(&params).await {
            Ok(pods) => pods.items,
            Err(error) => return Seen::NotYet(error.to_string()),
        };
        let of = |pod: &k8s_openapi::api::core::v1::Pod| pod.spec.as_ref()?.containers.first()?.image.clone();
        let seen: Vec<_> = pods.iter().map(|pod| (pod.name_any(), of(pod))).collect();
        if seen.len() == replicas && seen.iter().all(|(_, seen)| seen.as_deref() == Some(image)) {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("{seen:?}"))
        }
    })
    .await
}

/// The `caBundle` that the controller has set, as `kubectl` prints it.
pub async fn bundles(site: &Site) -> Result<String> {
    let path = "-o=jsonpath={.items[*].webhooks[*].clientConfig.caBundle}";
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let found = site.plane.kubectl(&["get", kinds, "-l", "app.kubernetes.io/name=mullion", path]).await?;
    ensure!(!found.is_empty(), "no webhook has a caBundle");
    Ok(found)
}
