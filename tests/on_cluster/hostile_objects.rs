//! Objects that attackers write with the permissions that they have: a tenant in one namespace, a user who may create
//! namespaces, one who may create RuntimeClasses, and the kubelet of a node. Webhook, controller and commands read all
//! other objects as before.

use std::path::Path;
use std::process::Output;

use anyhow::{Context as _, Result, bail, ensure};
use kube::Client;
use mullion_cluster::hostile::{DEEP, create_text, has_deep_owners, large_pod, with_deep_owners};
use mullion_cluster::{ControlPlane, NodeSpec, TestNamespace, wait_for};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::shared::{DEADLINE, as_tenant, dry_run, pod};
use crate::{any_objects, memory};

/// How many objects of each kind have that depth: more than the failures after which a watch is restarted.
const ADJACENT: usize = 7;
/// Large pods. Together they have more than the memory of the controller.
const LARGE: usize = 16;
/// The limit of the resident memory, in KiB.
const MEMORY: u64 = 128 << 10;
/// Mullion's policy for the namespace of the attack: pods are for Windows.
const POLICIES: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: of-label}\nspec:\n  priority: 10\n  \
                        match: {namespaceSelector: {matchLabels: {team: a}}}\n  detect: {os: windows}\n";

pub async fn are_isolated_in_streamed_lists() -> Result<()> {
    are_isolated(&ControlPlane::builder().start().await?).await
}

pub async fn are_isolated_in_plain_lists() -> Result<()> {
    are_isolated(&ControlPlane::builder().api_server_flag("--feature-gates=WatchList=false").start().await?).await
}

async fn are_isolated(plane: &ControlPlane) -> Result<()> {
    let (own, tenants) = (plane.namespace("mullion").await?, plane.namespace("tenant").await?);
    plane.create_node(&NodeSpec::linux("hostile-linux")).await?;
    let tenant = as_tenant(plane, "tenant", &tenants).await?;
    let victim = attack(plane, &tenant).await?;

    any_objects::create(plane, &tenants.name).await?;

    // Both programs start beside these objects.
    let policies = tempfile::tempdir()?;
    std::fs::write(policies.path().join("mine.yaml"), POLICIES)?;
    let controllers = memory::controllers(plane, &own).await?;
    let webhooks = memory::webhooks(plane, &own, true).await?;
    let controller = memory::controller(&controllers, &own, policies.path()).await?;
    let (webhook, registration) = memory::webhook(plane, &webhooks, &own, policies.path()).await?;
    registration.register(&plane.client()).await?;

    // A new Windows node has label and taint.
    plane.create_node(&NodeSpec::windows("hostile-new", "10.0.20348.2655")).await?;
    for name in ["hostile-new", "hostile-kubelet"] {
        wait_for(&format!("label and taint of {name}"), DEADLINE, async || {
            // Not read into a type, because that is what the attack is about.
            let text = plane.client().request_text(get(&format!("/api/v1/nodes/{name}"))?).await?;
            let managed = text.find("\"managedFields\"").unwrap_or(text.len());
            let spec = text.rfind("\"spec\"").context("no spec")?;
            let is_labelled = text[..managed].contains("mullion.dev/windows-release");
            ensure!(is_labelled && text[spec..].contains("\"key\":\"os\",\"value\":\"windows\""), "{}", &text[spec..]);
            Ok(())
        })
        .await?;
    }

    // The policies of the namespace apply.
    let any = pod("any", json!({"containers": [{"name": "c", "image": "registry.example.com/app:1"}]}));
    wait_for("the policy of the namespace", DEADLINE, async || {
        let placed = dry_run(&victim, &any).await?;
        ensure!(placed["spec"]["nodeSelector"]["kubernetes.io/os"] == "windows", "{}", placed["spec"]);
        Ok(())
    })
    .await?;

    // Commands read everything.
    for words in [&["check", "-A"][..], &["survey", "-o", "json"], &["status", "-n", &own.name]] {
        let Output { status, stdout, stderr } = mullion(plane.kubeconfig(), words).await?;
        let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        ensure!(status.code().is_some_and(|code| code <= 1), "{words:?}: {status} {err} {out}");
        ensure!(!err.contains("no response of the API server") && !err.contains("not read"), "{words:?}: {err}");
    }

    // An object that is too large is named, and changes nothing for others. Each `<` has six characters in a list.
    let text = "<".repeat(1 << 20);
    let huge = pod(
        "huge",
        json!({"containers": [{"name": "c", "image": "x", "args": [text]}], "nodeSelector": {"no": "node"}}),
    );
    create_text(&tenant.client, &format!("/api/v1/namespaces/{}/pods", tenant.name), huge.to_string()).await?;
    let gauge = "mullion_unreadable_objects{kind=\"Pod\"}";
    // Pods with 400,000 values are not parsed; those with a node are in no watch.
    let many_values = LARGE as u64 / 4;
    wait_for("the pod in the metric", DEADLINE, async || {
        let number = controller.metric(gauge).await?;
        ensure!(number == many_values + 1, "{number}");
        Ok(())
    })
    .await?;
    for (program, kinds) in [
        (&controller, &["Node", "Namespace", "RuntimeClass", "DaemonSet"][..]),
        (&webhook, &["Node", "Namespace", "RuntimeClass"]),
    ] {
        for kind in kinds {
            let number = program.metric(&format!("mullion_unreadable_objects{{kind=\"{kind}\"}}")).await?;
            ensure!(number == 0, "{kind}: {number}");
        }
        let text = program.get("/metrics").await?;
        let failing = text.lines().find(|line| line.starts_with("mullion_watch_failing{") && !line.ends_with(" 0"));
        ensure!(failing.is_none(), "{failing:?}");
        let peak = program.process.memory()?.peak;
        ensure!(peak < MEMORY, "{peak} KiB: {}", program.process.log()?);
    }
    plane.kubectl(&["delete", "pod", "huge", "-n", &tenant.name, "--grace-period=0", "--force"]).await?;
    wait_for("the metric without the pod", DEADLINE, async || {
        let number = controller.metric(gauge).await?;
        ensure!(number == many_values, "{number}");
        Ok(())
    })
    .await
}

/// Creates the objects, each as its attacker, and returns the attacked namespace.
async fn attack(plane: &ControlPlane, tenant: &TestNamespace) -> Result<TestNamespace> {
    let pods = format!("/api/v1/namespaces/{}/pods", tenant.name);
    let daemon_sets = format!("/apis/apps/v1/namespaces/{}/daemonsets", tenant.name);
    let spec = json!({"containers": [{"name": "c", "image": "redis:7"}], "nodeSelector": {"no": "node"}});
    for at in 0..ADJACENT {
        let body = json!({"metadata": {"name": format!("deep-{at}"), "managedFields": DEEP}, "spec": {
            "selector": {"matchLabels": {"app": "deep"}},
            "template": {"metadata": {"labels": {"app": "deep"}, "managedFields": DEEP}, "spec": spec}}});
        create_deep(&tenant.client, &daemon_sets, &body).await?;
        let body = json!({"metadata": {"name": format!("deep-{at}"), "managedFields": DEEP}, "spec": spec});
        create_deep(&tenant.client, &pods, &body).await?;
    }
    for at in 0..LARGE {
        create_text(&tenant.client, &pods, large_pod(at, "hostile-linux").to_string()).await?;
    }

    for (user, resource) in [("namespace-creator", "namespaces"), ("class-creator", "runtimeclasses.node.k8s.io")] {
        let resource = format!("--resource={resource}");
        plane.kubectl(&["create", "clusterrole", user, "--verb=create,get,update", &resource]).await?;
        let (role, subject) = (format!("--clusterrole={user}"), format!("--user={user}"));
        plane.kubectl(&["create", "clusterrolebinding", user, &role, &subject]).await?;
    }
    let creator = plane.client_as("namespace-creator", &[]).await?;
    let victim = plane.namespace_with_labels("hostile", &[("team", "a")]).await?;
    for at in 0..ADJACENT {
        let name = if at == 0 { victim.name.clone() } else { format!("hostile-{at}") };
        let body = json!({"metadata": {"name": name, "labels": {"team": "a"}, "managedFields": DEEP}});
        if at == 0 {
            replace_deep(&creator, &format!("/api/v1/namespaces/{name}"), &body).await?;
        } else {
            create_deep(&creator, "/api/v1/namespaces", &body).await?;
        }
    }
    let creator = plane.client_as("class-creator", &[]).await?;
    for at in 0..ADJACENT {
        let body = json!({"metadata": {"name": format!("deep-{at}"), "managedFields": DEEP}, "handler": "runc"});
        create_deep(&creator, "/apis/node.k8s.io/v1/runtimeclasses", &body).await?;
    }

    // The kubelet of a Windows node, which may update its own node.
    let created = plane.create_node(&NodeSpec::windows("hostile-kubelet", "10.0.20348.2655")).await?;
    let kubelet = plane.client_as("system:node:hostile-kubelet", &["system:nodes"]).await?;
    let mut node = serde_json::to_value(&created)?;
    node["metadata"]["managedFields"] = json!(DEEP);
    if let Some(metadata) = node["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    replace_deep(&kubelet, "/api/v1/nodes/hostile-kubelet", &node).await?;
    Ok(victim)
}

/// The text of an object at that path, with deep owners of fields.
fn deep(path: &str, object: &Value) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let version = if parts[1] == "api" { parts[2].to_owned() } else { format!("{}/{}", parts[2], parts[3]) };
    with_deep_owners(&version, object)
}

/// Creates an object, and checks that the API server has stored the depth.
async fn create_deep(client: &Client, path: &str, object: &Value) -> Result<()> {
    create_text(client, path, deep(path, object)).await?;
    let name = object["metadata"]["name"].as_str().context("a name")?;
    ensure_depth(client, &format!("{path}/{name}")).await
}

async fn replace_deep(client: &Client, path: &str, object: &Value) -> Result<()> {
    let request =
        http::Request::put(path).header("content-type", "application/json").body(deep(path, object).into_bytes())?;
    client.request_text(request).await.with_context(|| format!("PUT {path}"))?;
    ensure_depth(client, path).await
}

async fn ensure_depth(client: &Client, path: &str) -> Result<()> {
    let text = client.request_text(get(path)?).await?;
    if !has_deep_owners(&text) {
        bail!("{path} is not stored with its depth: {}", text.chars().take(2_000).collect::<String>());
    }
    Ok(())
}

fn get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}

async fn mullion(kubeconfig: &Path, words: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mullion"));
    Ok(command.args(words).env("KUBECONFIG", kubeconfig).output().await?)
}
