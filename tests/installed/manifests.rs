//! Mullion without Helm: the plain manifest and the kustomize base of `make manifests`.

use std::fs;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::Tool;

use crate::site::{NAMESPACE, PATIENT, REPOSITORY, Site, image, program};
use crate::traces::{self, But};
use crate::upgrade::{NEXT, bundles, images};
use crate::user_actions::at_work;

/// Applies the manifest, then a kustomize overlay over it with server-side apply, then the manifest again, and deletes
/// everything as docs/how-to/uninstall.md describes.
pub async fn kubectl_applies_and_deletes_them(site: &Site) -> Result<()> {
    site.kubelet.image(&format!("{NEXT}:next"), program());
    let folder = site.plane.dir().join("manifests");
    let overlay = site.plane.dir().join("overlay");
    fs::create_dir_all(&overlay)?;
    let values = site.plane.dir().join("patient.yaml");
    // The value of `--set`, as a file.
    let patience =
        PATIENT[1].split(',').map(|value| value.replace("admission.timeoutSeconds.", "    ").replace('=', ": "));
    fs::write(&values, format!("admission:\n  timeoutSeconds:\n{}\n", patience.collect::<Vec<_>>().join("\n")))?;
    let made = tokio::process::Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/manifests.sh"))
        .args([folder.as_path(), &site.plane.tools().path(Tool::Helm), &values])
        .envs([("REPOSITORY", REPOSITORY), ("POLICIES", "default"), ("NAMESPACE", NAMESPACE)])
        .stdin(Stdio::null())
        .output()
        .await?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let name = REPOSITORY;
    let kustomization = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../manifests]\n\
         images: [{{name: {name}, newName: {NEXT}, newTag: next}}]\nreplicas: [{{name: mullion-webhook, count: 3}}]\n"
    );
    fs::write(overlay.join("kustomization.yaml"), kustomization)?;
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (manifest, withdraw, overlay) = (path("mullion.yaml"), path("withdraw.yaml"), overlay.to_string_lossy());
    let kubectl = async |arguments: &[&str]| site.plane.kubectl(arguments).await;

    kubectl(&["create", "namespace", NAMESPACE]).await?;
    kubectl(&["apply", "-f", &manifest]).await?;
    images(site, 2, &image(name)).await?;
    at_work(site).await?;
    let before = bundles(site).await?;

    kubectl(&["apply", "--server-side", "--force-conflicts", "-k", &overlay]).await?;
    images(site, 3, &format!("{NEXT}:next")).await?;
    at_work(site).await.context("with the overlay")?;
    ensure!(bundles(site).await? == before, "server-side apply changed caBundle");

    kubectl(&["apply", "-f", &manifest]).await?;
    images(site, 2, &image(name)).await?;
    at_work(site).await.context("with the manifest again")?;
    ensure!(bundles(site).await? == before, "client-side apply changed caBundle");

    kubectl(&["apply", "-f", &withdraw]).await?;
    kubectl(&["wait", "-n", NAMESPACE, "--for=condition=complete", "job/mullion-withdraw", "--timeout=240s"]).await?;
    kubectl(&["delete", "-f", &withdraw]).await?;
    kubectl(&["delete", "-f", &manifest]).await?;
    traces::none(site, But::Pods).await
}
