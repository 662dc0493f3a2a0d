//! Webhook configurations that Helm writes, and the bundles that the controller adds.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::Api;
use mullion_cluster::{Chart, ControlPlane, MullionProcess, Tool, free_port, wait_for};
use serde_json::{Value, json};

use crate::shared::*;

/// Name and `caBundle` of every webhook that is registered.
async fn bundles(plane: &ControlPlane) -> Result<Vec<(String, Value)>> {
    let mutating = json!(Api::<MutatingWebhookConfiguration>::all(plane.client()).get("mullion").await?);
    let validating = json!(Api::<ValidatingWebhookConfiguration>::all(plane.client()).get("mullion").await?);
    let webhooks =
        [mutating, validating].into_iter().flat_map(|all| all["webhooks"].as_array().cloned().unwrap_or_default());
    Ok(webhooks
        .map(|webhook| {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default().to_owned();
            (
                format!("{} {path}", webhook["name"].as_str().unwrap_or_default()),
                webhook["clientConfig"]["caBundle"].clone(),
            )
        })
        .collect())
}

/// The chart through Helm's own server-side apply: installed, changed, and applied again unchanged.
pub async fn an_upgrade_leaves_the_bundle(plane: &ControlPlane) -> Result<()> {
    let home = plane.namespace("mullion").await?;
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/mullion");
    let required = Chart::required();
    let required = required.to_string_lossy();
    let helm = async |arguments: &[&str]| {
        // The chart has no defaults for these values.
        let more: &[&str] = if arguments.first() == Some(&"uninstall") { &[] } else { &["--values", &required] };
        let done = tokio::process::Command::from(plane.tools().command(Tool::Helm))
            .args(["--kubeconfig", &plane.kubeconfig().to_string_lossy(), "--namespace", &home.name])
            .args(arguments)
            .args(more)
            .stdin(Stdio::null())
            .output()
            .await?;
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.success(), "helm {arguments:?}: {stderr}");
        Ok(String::from_utf8(done.stdout)?)
    };
    helm(&["install", "mullion", chart]).await?;
    let installed = bundles(plane).await?;
    let names = [
        "pods.mullion.dev /mutate",
        "templates.mullion.dev /mutate",
        "nodes.mullion.dev /mutate",
        "pods.mullion.dev /validate",
        "templates.mullion.dev /validate",
        "policies.mullion.dev /validate",
    ];
    ensure!(installed == names.map(|name| (name.to_owned(), Value::Null)), "{installed:?}");

    let admin = free_port()?;
    let controller = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(["controller", "--lease-namespace", &home.name, "--webhook-service", "mullion-webhook"])
        .args(["--kubeconfig", &plane.kubeconfig().to_string_lossy(), "--admin-bind", &format!("127.0.0.1:{admin}")])
        .admin(([127, 0, 0, 1], admin).into())
        .start()
        .await?;
    let filled = async |what: &str, count: usize| {
        wait_for(what, DEADLINE, async || {
            let all = bundles(plane).await?;
            let alike = all.iter().all(|(_, bundle)| bundle.is_string() && *bundle == all[0].1);
            ensure!(all.len() == count && alike, "{all:?}");
            Ok(all)
        })
        .await
    };
    let before = filled("the controller to fill in the bundles", 6).await?;
    // From here on nothing restores what Helm removes.
    controller.kill()?;
    helm(&["upgrade", "mullion", chart]).await?;
    ensure!(bundles(plane).await? == before, "the same chart again took a bundle away");
    let changes = [
        "upgrade",
        "mullion",
        chart,
        "--set",
        "admission.failurePolicy=Fail,admission.timeoutSeconds.mutating=2",
        "--set",
        "admission.excludedNamespaces={a,b}",
    ];
    helm(&changes).await?;
    let after = bundles(plane).await?;
    ensure!(after.len() == 7, "{after:?}");
    for (name, bundle) in &after {
        let expected = before.iter().find(|(known, _)| known == name).map_or(&Value::Null, |(_, bundle)| bundle);
        ensure!(bundle == expected, "{name}: {bundle}");
    }
    let stored = json!(Api::<MutatingWebhookConfiguration>::all(plane.client()).get("mullion").await?);
    let values = &stored["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"];
    ensure!(*values == json!([home.name, "a", "b"]), "{values}");
    // GitOps tools render it again and apply it with another field manager: the result is the same.
    let rendered = helm(&[
        "template",
        "--no-hooks",
        "mullion",
        chart,
        "--set",
        "admission.failurePolicy=Fail,admission.timeoutSeconds.mutating=2",
        "--set",
        "admission.excludedNamespaces={a,b}",
    ])
    .await?;
    plane
        .kubectl_with_input(&["apply", "--server-side", "--field-manager=gitops", "-f", "-"], &rendered)
        .await
        .context("apply as another")?;
    ensure!(bundles(plane).await? == after, "another manager took a bundle away");
    let difference =
        plane.kubectl_with_input(&["diff", "--server-side", "--field-manager=gitops", "-f", "-"], &rendered).await?;
    ensure!(difference.is_empty(), "{difference}");
    // No kubelet exists to run the Job.
    helm(&["uninstall", "mullion", "--no-hooks"]).await?;
    ensure!(
        Api::<MutatingWebhookConfiguration>::all(plane.client()).get_opt("mullion").await?.is_none(),
        "it is still there"
    );
    plane.kubectl(&["delete", "configmap,secret,lease", "--all", "-n", &home.name]).await.map(drop)
}
