//! Objects and requests of an attacker, on a real control plane: no depth, no redundancy and no name takes a review away
//! or fills the webhook.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use kube::client::Body;
use mullion_cluster::{ControlPlane, free_port};
use serde_json::{Value, json};

use crate::shared::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
/// What the text of an object contains instead of its owners of fields.
const OWNERS: &str = "\"OWNERS\"";

/// A pod that the shipped policies deny, as text.
fn denied_pod(name: &str, more: &Value) -> String {
    let mut spec = json!({"securityContext": {"runAsUser": 1000}, "containers": [{"name": "c", "image": WINDOWS}]});
    spec.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    let mut pod = pod(name, spec);
    pod["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": "OWNERS", "time": "2026-01-01T00:00:00Z"}]);
    pod.to_string()
}

/// Creates an object of that text; returns the message with which it is rejected. Its answer is not parsed, because it can
/// be nested deeper than the parser reads.
async fn rejection(client: &Client, path: &str, text: String) -> Result<Option<String>> {
    let request = http::Request::post(path).header("content-type", "application/json").body(text.into_bytes())?;
    match client.request_text(request).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message.clone())),
        Err(error) => Err(error).context("create"),
    }
}

/// A tenant with `edit` writes owners of fields of any depth, and sends a pod that is denied.
pub async fn field_owners_of_any_depth_are_reviewed(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("deep").await?;
    let tenant = as_tenant(&shared.plane, "tenant-of-deep-objects", &namespace).await?;
    for depth in [1, 110, 121, 130, 1_000] {
        let owners = format!("{}{{}}{}", r#"{"f:a":"#.repeat(depth), "}".repeat(depth));
        let text = denied_pod(&format!("deep-{depth}"), &json!({})).replace(OWNERS, &owners);
        let message = rejection(&tenant.client, &path(&tenant, "Pod"), text).await?;
        let message = message.with_context(|| format!("a pod with {depth} levels was created without a review"))?;
        ensure!(message.contains("run-as-user"), "{depth} levels: {message}");
    }
    namespace.delete().await
}

/// A tenant with `edit` sends a pod that is denied, with many repeated or different requirements and tolerations.
pub async fn redundant_pods_are_reviewed(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("redundant").await?;
    let tenant = as_tenant(&shared.plane, "tenant-of-redundant-objects", &namespace).await?;
    let affinity = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let expression = |at: usize| json!({"key": format!("k{at}"), "operator": "DoesNotExist"});
    let list = |number: usize, item: &dyn Fn(usize) -> Value| (0..number).map(item).collect::<Value>();
    for (name, more) in [
        ("repeated-requirements", affinity(json!([{"matchExpressions": list(23_000, &|_| expression(0))}]))),
        ("requirements", affinity(json!([{"matchExpressions": list(50_000, &expression)}]))),
        ("terms", affinity(list(30_000, &|at| json!({"matchExpressions": [expression(at)]})))),
        (
            "tolerations",
            json!({"tolerations": list(50_000, &|at| json!({"key": format!("k{at}"), "operator": "Exists"}))}),
        ),
        ("volumes", json!({"volumes": list(40_000, &|at| json!({"name": format!("v{at}"), "emptyDir": {}}))})),
    ] {
        let text = denied_pod(name, &more).replace(OWNERS, "{}");
        let bytes = text.len();
        let message = rejection(&tenant.client, &path(&tenant, "Pod"), text).await?;
        let message = message.with_context(|| format!("{name} of {bytes} bytes was created without a review"))?;
        ensure!(message.contains("run-as-user"), "{name} of {bytes} bytes: {message}");
    }
    namespace.delete().await
}

/// Anyone who reaches the port of a webhook sends reviews with names of 4 MB, and with many names that do not exist.
pub async fn names_in_requests_leave_no_memory(plane: &ControlPlane) -> Result<()> {
    let [bind, admin] = [free_port()?, free_port()?];
    let program = Path::new(env!("CARGO_BIN_EXE_mullion"));
    let (webhook, _) = start_program(program, plane, &policies(), [bind, admin], &["--namespace", "default"]).await?;
    let mut config = kube::Config::new(format!("https://127.0.0.1:{bind}").parse()?);
    config.accept_invalid_certs = true;
    let attacker = Client::try_from(config)?;
    let status = async |namespace: &str, note: &str| -> Result<u16> {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE", "name": "web",
            "namespace": namespace, "object": {"metadata": {"name": "web", "annotations": {"note": note}},
                "spec": {"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "c", "image": WINDOWS}]}}}});
        let request = http::Request::post("/mutate?timeout=30s").header("content-type", "application/json");
        let response = attacker.send(request.body(Body::from(serde_json::to_vec(&review)?))?).await?;
        Ok(response.status().as_u16())
    };
    // The same bytes in an annotation: what the allocator keeps of large requests.
    for _ in 0..10 {
        ensure!(status("default", &"x".repeat(4 << 20)).await? == 200);
    }
    let before = webhook.memory()?.resident;
    let (_, metrics) = admin_get(admin, "/metrics").await?;
    for number in 0..60 {
        let name = format!("n{number}{}", "x".repeat(4 << 20));
        ensure!(status(&name, "").await? == 400, "a namespace of 4 MB was accepted");
    }
    for number in 0..2_000 {
        ensure!(status(&format!("n{number}"), "").await? == 200);
    }
    let (after, (_, now)) = (webhook.memory()?.resident, admin_get(admin, "/metrics").await?);
    ensure!(after < before + (16 << 10), "{before} KiB before, {after} KiB after");
    ensure!(!now.contains("namespace=\"n1\"") && now.len() < metrics.len() + 4_096, "{now}");
    Ok(())
}
