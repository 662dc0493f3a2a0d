//! Every object of the chart on a real API server, and every pod under Pod Security `restricted`.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use crate::rendered::{Rendered, Template, text};
use crate::server::Server;

/// Checked by a server-side dry run that rejects unknown fields; the API server's own defaults and checks apply. An
/// object that is the same in several files is sent for one of them.
pub async fn every_object_is_accepted(server: &Server, file: &Rendered) -> Result<()> {
    let namespace = "accepted";
    server.namespace(namespace, json!({})).await?;
    let mut rejected = Vec::new();
    for object in file.chart().namespace(namespace).objects()? {
        if !server.is_new(&object).await {
            continue;
        }
        if let Err(why) = server.dry_run(&object).await {
            rejected.push(format!("{why:#}"));
        }
    }
    ensure!(rejected.is_empty(), "{}", rejected.join("\n"));
    Ok(())
}

/// Deployments are never rejected because of their pods, so the pods themselves are sent, as their owners would create
/// them.
pub async fn pods_pass_pod_security(server: &Server, file: &Rendered) -> Result<()> {
    for level in ["restricted", "privileged"] {
        let labels = json!({
            "pod-security.kubernetes.io/enforce": level,
            "pod-security.kubernetes.io/enforce-version": "latest",
        });
        server.namespace(level, labels).await?;
        // Some values files use existing accounts.
        for account in ["mullion-webhook", "mullion-controller", "mullion-withdraw"] {
            let metadata = json!({"name": account, "namespace": level});
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
            server.apply(&account, "chart-test").await?;
        }
        for Template { owner, template } in file.templates()? {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
            pod["metadata"] = template["metadata"].clone();
            pod["metadata"]["name"] = owner["metadata"]["name"].clone();
            pod["metadata"]["namespace"] = json!(level);
            pod["spec"] = template["spec"].clone();
            // Objects of the whole cluster, which other trials check.
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

/// Only the host's network and its ports violate Pod Security.
fn only_for_the_network(denial: &str) -> Result<()> {
    let (_, reasons) = denial.rsplit_once("violates PodSecurity \"restricted:latest\": ").context(denial.to_owned())?;
    // The probes connect to 127.0.0.1, where the admin port is.
    let known = |reason: &str| {
        let begins = ["host namespaces (hostNetwork=true)", "hostPort (", "probe or lifecycle host ("];
        begins.iter().any(|begin| reason.starts_with(begin))
    };
    // Reasons have the form `name (details)`, and details can contain commas.
    for reason in reasons.split_inclusive("), ") {
        if !known(reason) {
            bail!("{reason}: {denial}");
        }
    }
    Ok(())
}
