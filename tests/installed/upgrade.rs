//! Upgrades to another image, other policies and other values, and the rollback.

use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use mullion_cluster::{Seen, wait_for};

use crate::load::{Load, all_pods_were_reviewed};
use crate::site::{DEADLINE, NAMESPACE, Site, image, program};

const NEXT: &str = "registry.example.com/mirror/mullion";

/// During them, no pod is rejected and none is admitted without a review.
pub async fn upgrade_and_rollback_affect_no_pod(site: &Site) -> Result<()> {
    site.kubelet.image(&format!("{NEXT}:next"), program());
    site.install(&[]).await?;
    let before = bundles(site).await?;
    let load = Load::start(site).await?;

    let values = format!(
        "image.repository={NEXT},image.tag=next,policies.shipped=compatible,webhook.replicas=3,webhook.log=warn"
    );
    site.install(&["--set", &values]).await?;
    images(site, 3, &format!("{NEXT}:next")).await?;
    load.more(50).await?;
    ensure!(bundles(site).await? == before, "the upgrade changed caBundle");

    site.helm(&["rollback", "mullion", "-n", NAMESPACE, "--wait"]).await?;
    images(site, 2, &image("registry.mullion.dev/mullion")).await?;
    load.more(50).await?;
    ensure!(bundles(site).await? == before, "rolling back changed caBundle");
    all_pods_were_reviewed(&load.stop().await)
}

/// Waits until exactly so many webhooks, all of this image, are left.
async fn images(site: &Site, replicas: usize, image: &str) -> Result<()> {
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

/// The `caBundle` that the controller has filled in, as `kubectl` shows it.
async fn bundles(site: &Site) -> Result<String> {
    let path = "-o=jsonpath={.items[*].webhooks[*].clientConfig.caBundle}";
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let found = site.plane.kubectl(&["get", kinds, "-l", "app.kubernetes.io/name=mullion", path]).await?;
    ensure!(!found.is_empty(), "no webhook has a caBundle");
    Ok(found)
}
