//! Mullion with Helm 3, for `make helm3`. `tests/chart` has what it merges.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::load::{Load, all_pods_were_reviewed};
use crate::site::{NAMESPACE, REPOSITORY, Site, USUAL, chart, image, program};
use crate::traces::{self, But};
use crate::upgrade::{NEXT, bundles, images, writes_are_allowed};
use crate::user_actions::at_work;

/// Installs with Helm 3, upgrades, rolls back and uninstalls: no pod is created without a review until the end, the
/// bundle stays, and the Job of the uninstallation removes everything.
pub async fn installs_upgrades_rolls_back_and_uninstalls(site: &Site) -> Result<()> {
    let program_3 = mullion_cluster::helm_3().context("the trial exists only with HELM3")?;
    let helm = async |arguments: &[&str]| site.helm_of(Command::new(&program_3), arguments).await;
    let version = helm(&["version", "--short"]).await?;
    ensure!(version.starts_with("v3."), "HELM3 is {version}");
    site.kubelet.image(&format!("{NEXT}:next"), program());
    let chart = chart();
    let chart = chart.to_str().context("a path that is not UTF-8")?;
    let install = ["install", "mullion", chart, "-n", NAMESPACE, "--create-namespace", "--wait"];
    helm(&[&install[..], &USUAL].concat()).await?;
    at_work(site).await?;
    let before = bundles(site).await?;
    let load = Load::start(site).await?;

    let values = format!(
        "image.repository={NEXT},image.tag=next,policies.shipped=compatible,webhook.replicas=3,webhook.log=warn"
    );
    let upgrade = ["upgrade", "mullion", chart, "-n", NAMESPACE, "--reset-then-reuse-values", "--wait"];
    helm(&[&upgrade[..], &["--set", &values]].concat()).await?;
    images(site, 3, &format!("{NEXT}:next")).await?;
    load.more(50).await?;
    writes_are_allowed(site).await.context("after the upgrade")?;

    helm(&["rollback", "mullion", "-n", NAMESPACE, "--wait"]).await?;
    images(site, 2, &image(REPOSITORY)).await?;
    load.more(50).await?;
    ensure!(bundles(site).await? == before, "upgrade and rollback changed caBundle");
    writes_are_allowed(site).await.context("after the rollback")?;
    all_pods_were_reviewed(&load.stop().await)?;

    helm(&["uninstall", "mullion", "-n", NAMESPACE, "--wait"]).await?;
    traces::none(site, But::Pods).await
}
