//! The writes that the fence denies to the controller itself.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use mullion_cluster::{NodeSpec, wait_for};
use serde_json::json;

use crate::site::{DEADLINE, NAMESPACE, Site, USUAL, chart};

const KEY: &str = "example.com/platform";

/// A NodePolicy has a taint with a key that the fence does not know: an Event on the node contains the chart value, and
/// with that value the taint is set. The withdraw Job removes it through the same fence. A pod that waits for a node gets
/// the tolerations that the fence permits, although it denies another one.
pub async fn a_denied_taint_names_the_value_that_allows_it(site: &Site) -> Result<()> {
    let policy = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {{name: platform}}\n\
         spec: {{taint: {{key: {KEY}, apply: Always}}, runtimeClasses: {{handler: company-windows}}}}\n"
    );
    let file = site.plane.dir().join("platform.yaml");
    std::fs::write(&file, policy)?;
    let policies = format!("policies.files.platform\\.yaml={}", file.display());
    // Nodes with taints of an administrator, and a pod from before the installation that waits for one of them.
    let build = "10.0.17763.6293";
    let shared = NodeSpec::windows("shared", build).taint("windows=shared:NoSchedule").label("trial", "shared");
    let quarantined = NodeSpec::windows("quarantined", build).taint("windows=quarantine:NoExecute");
    site.plane.create_nodes(&[shared, quarantined]).await?;
    let missed = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "missed", "namespace": "default"}, "spec": {
        "nodeSelector": {"kubernetes.io/os": "windows", "trial": "shared"},
        "containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2019"}]}});
    site.plane.kubectl_with_input(&["create", "-f", "-"], &missed.to_string()).await?;
    // The API server applies new admission policies a moment after their creation, so the controller starts later.
    site.plane.kubectl(&["cordon", "l1", "l2"]).await?;
    let chart = chart();
    let chart = chart.to_str().context("a path that is not UTF-8")?;
    let install = ["install", "mullion", chart, "-n", NAMESPACE, "--create-namespace", "--set-file", &policies];
    site.helm(&[&install[..], &USUAL, &["--set", "policies.shipped="]].concat()).await?;
    in_effect(site).await?;
    site.plane.kubectl(&["uncordon", "l1", "l2"]).await?;
    wait_for("a node for the pod that waits", DEADLINE, async || {
        let found = ["get", "pod", "missed", "-o", "jsonpath={.spec.nodeName} {.spec.tolerations[*].value}"];
        let found = site.plane.kubectl(&found).await?;
        ensure!(found.starts_with("shared ") && !found.contains("quarantine"), "{found}");
        anyhow::Ok(())
    })
    .await?;
    site.plane.kubectl(&["delete", "pod", "missed", "--grace-period=0", "--force"]).await?;
    for (object, value) in [("Node", "fence.taintKeys"), ("RuntimeClass", "fence.runtimeClassHandlers")] {
        wait_for(&format!("an Event on a {object} that names {value}"), DEADLINE, async || {
            let selector = format!("reason=WriteDenied,involvedObject.kind={object}");
            let events = ["get", "events", "--field-selector", &selector, "-o", "jsonpath={.items[*].message}"];
            let messages = site.plane.kubectl(&events).await?;
            ensure!(messages.contains(value), "{messages:?}");
            anyhow::Ok(())
        })
        .await?;
    }
    let set = async |expected: bool| {
        wait_for(&format!("taint {KEY}: {expected}"), DEADLINE, async || {
            let taints = site.plane.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].spec.taints[*].key}"]).await?;
            ensure!(taints.contains(KEY) == expected, "{taints}");
            anyhow::Ok(())
        })
        .await
    };
    set(false).await?;
    let values = format!("fence.taintKeys={{os,windows,{KEY}}},fence.runtimeClassHandlers={{company-windows}}");
    site.install(&["--set-file", &policies, "--set", &values, "--set", "policies.shipped="]).await?;
    set(true).await?;
    wait_for("a class", DEADLINE, || site.plane.kubectl(&["get", "runtimeclass", "mullion-windows-ltsc2022"])).await?;
    site.helm(&["uninstall", "mullion", "-n", NAMESPACE, "--wait"]).await?;
    set(false).await
}

/// Waits until the API server denies the controller a taint and a RuntimeClass that the fence does not know.
async fn in_effect(site: &Site) -> Result<()> {
    let client = site.plane.client_as_service_account(NAMESPACE, "mullion-controller").await?;
    let (nodes, classes): (Api<Node>, Api<RuntimeClass>) = (Api::all(client.clone()), Api::all(client));
    let taint = Patch::Merge(json!({"spec": {"taints": [{"key": KEY, "value": "windows", "effect": "NoSchedule"}]}}));
    let class = json!({"metadata": {"name": "mullion-windows-none"}, "handler": "company-windows"});
    let class: RuntimeClass = serde_json::from_value(class)?;
    let patch = PatchParams { dry_run: true, ..PatchParams::default() };
    let create = PostParams { dry_run: true, ..PostParams::default() };
    wait_for("the fence to be in effect", DEADLINE, async || {
        let patched = nodes.patch("l1", &patch, &taint).await.err().context("the taint was allowed")?.to_string();
        ensure!(patched.contains("mullion-fence-nodes"), "{patched}");
        let created = classes.create(&create, &class).await.err().context("the class was allowed")?.to_string();
        ensure!(created.contains("mullion-fence-runtimeclasses"), "{created}");
        Ok(())
    })
    .await
}
