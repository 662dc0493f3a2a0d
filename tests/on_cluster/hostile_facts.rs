//! Annotations of a namespace and taints of a node as long as the API server accepts them: reviews stay small, and what is
//! not used is named.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use mullion_cluster::{ControlPlane, NodeSpec, wait_for};
use serde_json::{Value, json};

use crate::memory::{controller, controllers, webhook, webhooks, windows_pod};
use crate::shared::{DEADLINE, create, dry_run, pod};

/// The most resident memory of webhook and controller, in KiB.
const RESIDENT: u64 = 128 << 10;
/// The length of the annotation, in bytes: the API server accepts 256 KiB of annotations.
const ANNOTATION: usize = 250 << 10;
/// Taints of the node: about 1 MiB, of the 1.5 MiB that etcd accepts.
const TAINTS: usize = 12_000;
/// Keys of the pod's nodeSelector, about 33 KB.
const KEYS: usize = 2_000;

/// The label of the namespaces whose pods the API server sends to the webhook.
const LABEL: (&str, &str) = ("mullion-test", "facts");

const POLICY: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec: {priority: 7}\n";

/// A tenant who may change the annotations of one namespace.
async fn annotator(plane: &ControlPlane, namespace: &str) -> Result<Api<Namespace>> {
    let role = ["create", "clusterrole", "annotator", "--verb=get,patch", "--resource=namespaces"];
    plane.kubectl(&[&role[..], &["--resource-name", namespace]].concat()).await?;
    plane
        .kubectl(&["create", "clusterrolebinding", "annotator", "--clusterrole=annotator", "--user=annotator"])
        .await?;
    Ok(Api::all(plane.client_as("annotator", &[]).await?))
}

fn tolerations(pod: &Value) -> Vec<&Value> {
    let os = |one: &&Value| one["key"].as_str().is_some_and(|key| key.starts_with("os"));
    pod["spec"]["tolerations"].as_array().into_iter().flatten().filter(os).collect()
}

pub async fn long_annotations_and_taints_cost_little(plane: &ControlPlane) -> Result<()> {
    let own = plane.namespace("mullion").await?;
    let hostile = plane.namespace_with_labels("hostile", &[LABEL]).await?;
    let other = plane.namespace_with_labels("other", &[LABEL]).await?;
    let policies = tempfile::tempdir()?;
    fs::write(policies.path().join("mine.yaml"), POLICY)?;
    plane.create_node(&NodeSpec::linux("facts-linux")).await?;
    plane.create_node(&NodeSpec::windows("facts-windows", "10.0.20348.2655")).await?;
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "facts-tainted", "labels": {"kubernetes.io/os": "windows"}},
        "spec": {"taints": (0..TAINTS).map(|at| json!({"key": format!("os-{at}"), "value": "windows", "effect": "NoSchedule"}))
            .chain([json!({"key": "os", "value": "windows-too", "effect": "NoSchedule"})]).collect::<Vec<_>>()}});
    plane.kubectl_with_input(&["create", "-f", "-"], &node.to_string()).await?;
    let tenant = annotator(plane, &hostile.name).await?;
    let mut selector = String::new();
    for at in 0.. {
        let pair = format!("key-{at}=theirs,");
        if selector.len() + pair.len() > ANNOTATION {
            break;
        }
        selector.push_str(&pair);
    }
    let annotation = "scheduler.alpha.kubernetes.io/node-selector";
    let edit = json!({"metadata": {"annotations": {annotation: selector}}});
    tenant.patch(&hostile.name, &PatchParams::default(), &Patch::Merge(&edit)).await?;

    let controller = controller(&controllers(plane, &own).await?, &own, policies.path()).await?;
    let (webhook, registration) = webhook(plane, &webhooks(plane, &own, true).await?, &own, policies.path()).await?;
    let registration = registration.namespace_label(LABEL.0, LABEL.1);
    registration.register(&plane.client()).await?;

    // A pod elsewhere is placed, by the taints of the other nodes.
    let placed = wait_for("a placed pod", DEADLINE, async || {
        let pod = dry_run(&other, &windows_pod("web")).await?;
        ensure!(pod["spec"]["nodeSelector"]["kubernetes.io/os"] == "windows", "{}", pod["spec"]);
        anyhow::Ok(pod)
    })
    .await?;
    ensure!(tolerations(&placed).len() <= 2, "{:?}", tolerations(&placed));

    // In the namespace nothing is added that its selector may reject.
    let mut selecting = windows_pod("web");
    selecting["spec"]["nodeSelector"] = (0..KEYS).map(|at| (format!("key-{at}"), json!("mine"))).collect::<Value>();
    let stored = wait_for("reviews in the namespace", DEADLINE, async || {
        let pod = dry_run(&hostile, &windows_pod("plain")).await?;
        ensure!(pod["spec"].get("nodeSelector").is_none(), "{}", pod["spec"]);
        ensure!(pod["metadata"]["annotations"].get("mullion.dev/decision").is_some(), "{}", pod["metadata"]);
        anyhow::Ok(pod)
    })
    .await?;
    ensure!(stored["spec"].get("runtimeClassName").is_none(), "{}", stored["spec"]);
    for at in 0..20 {
        selecting["metadata"]["name"] = json!(format!("web-{at}"));
        create(&hostile, &selecting).await?;
    }
    let linux = json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [{"name": "c", "image": "app"}]});
    let linux = pod("linux", linux);
    create(&hostile, &linux).await?;

    let [of_webhook, of_controller] = [webhook.process.memory()?.peak, controller.process.memory()?.peak];
    ensure!(of_webhook < RESIDENT && of_controller < RESIDENT, "{of_webhook} KiB, {of_controller} KiB");
    let named = named_by_status(plane.kubeconfig(), &own.name).await?;
    for part in [annotation, &hostile.name, "facts-tainted", "limit 128", "limit 24,448"] {
        ensure!(named.contains(part), "{part}: {named}");
    }
    registration.remove(&plane.client()).await?;
    drop((webhook, controller));
    plane.kubectl(&["delete", "node", "facts-linux", "facts-windows", "facts-tainted"]).await?;
    Ok(())
}

/// The check of `mullion status` with the values that are not used.
async fn named_by_status(kubeconfig: &Path, namespace: &str) -> Result<String> {
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_mullion"));
    let done = program
        .args(["status", "-n", namespace, "-o", "json", "--kubeconfig"])
        .arg(kubeconfig)
        .kill_on_drop(true)
        .output()
        .await?;
    let report: Value = serde_json::from_slice(&done.stdout).with_context(|| format!("{done:?}"))?;
    let found = report["checks"].as_array().and_then(|all| all.iter().find(|check| check["name"] == "facts-used"));
    Ok(found.with_context(|| format!("no such check: {report}"))?.to_string())
}
