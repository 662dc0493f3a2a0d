//! The real API server takes every object, and Pod Security `restricted` every pod.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use crate::rendered::{Rendered, text};
use crate::server::Server;

/// As a server-side dry run that refuses unknown fields; the server's own defaults and checks apply.
pub async fn every_object_is_accepted(server: &Server, file: &Rendered) -> Result<()> {
    let namespace = format!("accepted-{}", file.name);
    server.namespace(&namespace, json!({})).await?;
    let mut refused = Vec::new();
    for object in file.chart().namespace(&namespace).objects()? {
        if let Err(why) = server.dry_run(&object).await {
            refused.push(format!("{why:#}"));
        }
    }
    ensure!(refused.is_empty(), "{}", refused.join("\n"));
    Ok(())
}

/// Deployments are never refused for their pods, so the pods are sent themselves, as their owners would make them.
pub async fn pods_pass_pod_security(server: &Server, file: &Rendered) -> Result<()> {
    for (level, version) in [("restricted", "latest"), ("privileged", "latest")] {
        let namespace = format!("{level}-{}", file.name);
        let labels = json!({
            "pod-security.kubernetes.io/enforce": level,
            "pod-security.kubernetes.io/enforce-version": version,
        });
        server.namespace(&namespace, labels).await?;
        let objects = file.chart().namespace(&namespace).objects()?;
        // Some values files have somebody else make the accounts.
        for account in ["mullion-webhook", "mullion-controller", "mullion-withdraw"] {
            let metadata = json!({"name": account, "namespace": namespace});
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
            server.apply(&account, "chart-test").await?;
        }
        for owner in objects.iter().filter(|object| object.pointer("/spec/template/spec").is_some()) {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
            pod["metadata"] = owner["spec"]["template"]["metadata"].clone();
            pod["metadata"]["name"] = owner["metadata"]["name"].clone();
            pod["metadata"]["namespace"] = json!(namespace);
            pod["spec"] = owner["spec"]["template"]["spec"].clone();
            // Of the whole cluster, and other trials' business.
            pod["spec"]["priorityClassName"] = json!("chart-test");
            let on_host = pod["spec"]["hostNetwork"] == true;
            let outcome = server.dry_run(&pod).await;
            match outcome {
                Ok(_) => ensure!(!on_host || level == "privileged", "a pod on the host's network was taken"),
                Err(why) if on_host && level == "restricted" => only_for_the_network(&format!("{why:#}"))?,
                Err(why) => return Err(why.context(format!("{level}: {}", text(owner, "/metadata/name")))),
            }
        }
    }
    Ok(())
}

/// The host's network and its ports are all that Pod Security holds against such a pod.
fn only_for_the_network(refusal: &str) -> Result<()> {
    let (_, reasons) =
        refusal.rsplit_once("violates PodSecurity \"restricted:latest\": ").context(refusal.to_owned())?;
    let known =
        |reason: &str| reason.starts_with("host namespaces (hostNetwork=true)") || reason.starts_with("hostPort (");
    // Reasons read `name (details)`, and commas stand in details too.
    for reason in reasons.split_inclusive("), ") {
        if !known(reason) {
            bail!("{reason}: {refusal}");
        }
    }
    Ok(())
}
