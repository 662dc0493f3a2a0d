//! Whether the API server reaches the webhook, as the controller reports it.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::ListParams;
use mullion_cluster::{ControlPlane, FailurePolicy, MullionProcess, Seen, free_port, metric, wait_for};
use serde_json::{Value, json};

use crate::rights::{self, Subject};
use crate::shared::{DEADLINE, admin_get, list, start_webhook};

/// The condition `Reachable` in `mullion-state`.
async fn condition(plane: &ControlPlane) -> Result<Value> {
    let state = Api::<ConfigMap>::namespaced(plane.client(), "default").get("mullion-state").await?;
    let text = state.data.and_then(|mut data| data.remove("conditions")).context("no conditions")?;
    let conditions: Value = serde_json::from_str(&text).with_context(|| format!("conditions {text:?}"))?;
    let found = conditions.as_array().and_then(|all| all.iter().find(|one| one["type"] == "Reachable"));
    found.cloned().with_context(|| text.clone())
}

async fn wait_for_reason(plane: &ControlPlane, status: &str, reason: &str) -> Result<Value> {
    wait_for(&format!("condition Reachable {status}, {reason}"), DEADLINE, async || match condition(plane).await {
        Ok(found) if found["status"] == status && found["reason"] == reason => Seen::Done(found),
        Ok(found) => Seen::NotYet(found.to_string()),
        Err(error) => Seen::NotYet(format!("{error:#}")),
    })
    .await
}

async fn events(plane: &ControlPlane, reason: &str) -> Result<Vec<Value>> {
    list(&plane.client(), &format!("/apis/events.k8s.io/v1/events?fieldSelector=reason={reason}")).await
}

async fn wait_for_event(plane: &ControlPlane, reason: &str) -> Result<Value> {
    wait_for(&format!("an Event {reason}"), DEADLINE, async || {
        let mut found = events(plane, reason).await?;
        found.pop().with_context(|| format!("no {reason}"))
    })
    .await
}

/// The namespace is as restrictive as possible: Pod Security `restricted`, requests of a minimum, and a quota of no
/// pods.
pub async fn the_webhook_is_reported_as_reachable_or_not(plane: &ControlPlane) -> Result<()> {
    let narrow = [("pod-security.kubernetes.io/enforce", "restricted")];
    let namespace = plane.namespace_with_labels("narrow", &narrow).await?;
    let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": namespace.name},
        "spec": {"limits": [{"type": "Container", "min": {"cpu": "250m", "memory": "64Mi"}}]}});
    plane.kubectl_with_input(&["create", "-f", "-"], &limits.to_string()).await?;
    let admin = free_port()?;
    // With the permissions of the documentation, and no others.
    let user = "controller-under-test";
    rights::of_controller(plane, "default", &namespace.name, Subject::User(user)).await?;
    let kubeconfig = plane.kubeconfig_for(user, &[])?;
    let start_controller = async || {
        MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
            .args(["controller", "--admin-bind", &format!("127.0.0.1:{admin}"), "--lease-namespace", "default"])
            .args(["--kubeconfig", &kubeconfig.to_string_lossy(), "--probe-namespace", &namespace.name])
            .args(["--probe-interval", "0.2"])
            .admin(([127, 0, 0, 1], admin).into())
            .start()
            .await
    };
    let controller = start_controller().await?;
    let line = async |wanted: &str| {
        wait_for(wanted, DEADLINE, async || match admin_get(admin, "/metrics").await {
            Ok((_, text)) if text.lines().any(|line| line.starts_with(wanted)) => Seen::Done(()),
            Ok((_, text)) => Seen::NotYet(text.lines().filter(|line| line.contains("webhook_")).collect()),
            Err(error) => Seen::NotYet(format!("{error:#}")),
        })
        .await
    };

    // Not registered with the API server: no alert.
    let condition = wait_for_reason(plane, "False", "NotRegistered").await?;
    ensure!(
        condition["message"].as_str().is_some_and(|text| text.contains("there is no MutatingWebhookConfiguration")),
        "{condition}"
    );
    ensure!(events(plane, "WebhookUnreachable").await?.is_empty(), "an alarm without a registration");

    let (webhook, registration) = start_webhook(plane).await?;
    let ours = |registration: mullion_cluster::WebhookRegistration| {
        registration.failure_policy(FailurePolicy::Ignore).only_namespace(&namespace)
    };
    ours(registration).register(&plane.client()).await?;
    wait_for_reason(plane, "True", "Reached").await?;
    line("mullion_webhook_reachable{endpoint=\"mutate\"} 1").await?;
    line("mullion_webhook_reachable{endpoint=\"validate\"} 1").await?;
    // An exhausted quota rejects the pod after both endpoints were called.
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": namespace.name},
        "spec": {"hard": {"pods": "0", "requests.cpu": "0"}}});
    plane.kubectl_with_input(&["create", "-f", "-"], &quota.to_string()).await?;
    let (_, before) = admin_get(admin, "/metrics").await?;
    let probes = |text: &str, outcome: &str| {
        let name = format!("mullion_webhook_probes_total{{outcome=\"{outcome}\"}}");
        metric::<u64>(text, &name).ok().flatten().unwrap_or(0)
    };
    wait_for("ten more probes", DEADLINE, async || match admin_get(admin, "/metrics").await {
        Ok((_, text)) if probes(&text, "reached") >= probes(&before, "reached") + 10 => Seen::Done(()),
        other => Seen::NotYet(format!("{other:?}")),
    })
    .await?;
    plane.kubectl(&["delete", "resourcequota", "q", "-n", &namespace.name]).await?;
    let standing =
        plane.kubectl(&["get", "configmap", "mullion-state", "-o", "jsonpath={.metadata.resourceVersion}"]).await?;

    // Its port is closed, and the API server reports nothing.
    webhook.kill()?;
    wait_for_reason(plane, "False", "NotReached").await?;
    let event = wait_for_event(plane, "WebhookUnreachable").await?;
    ensure!(event["type"] == "Warning" && event["regarding"]["kind"] == "MutatingWebhookConfiguration", "{event}");
    let note = event["note"].as_str().unwrap_or_default();
    for text in
        ["/mutate and /validate", "admitted unchanged", "kubectl get mutatingwebhookconfiguration", &namespace.name]
    {
        ensure!(note.contains(text), "{text} is not in {note}");
    }
    line("mullion_webhook_reachable{endpoint=\"mutate\"} 0").await?;
    let described = plane.kubectl(&["describe", "mutatingwebhookconfiguration", "mullion"]).await?;
    ensure!(described.contains("WebhookUnreachable"), "{described}");
    ensure!(events(plane, "WebhookUnreachable").await?.len() == 1, "reported more than once");
    let alarmed =
        plane.kubectl(&["get", "configmap", "mullion-state", "-o", "jsonpath={.metadata.resourceVersion}"]).await?;
    ensure!(standing != alarmed, "the condition was not written");

    // Another controller takes over, and ends the alarm that it did not raise.
    let (ended, _) = controller.stop().await?;
    ensure!(ended.success(), "{ended}");
    let controller = start_controller().await?;
    let (webhook, registration) = start_webhook(plane).await?;
    let registration = ours(registration);
    registration.register(&plane.client()).await?;
    wait_for_reason(plane, "True", "Reached").await?;
    let event = wait_for_event(plane, "WebhookReachable").await?;
    ensure!(event["type"] == "Normal", "{event}");

    let pods: Api<Pod> = namespace.api();
    ensure!(pods.list(&ListParams::default()).await?.items.is_empty(), "a probe was stored");
    registration.remove(&plane.client()).await?;
    for process in [controller, webhook] {
        let (ended, log) = process.stop().await?;
        ensure!(ended.success() && !log.contains("panicked"), "{ended} {log}");
    }
    namespace.delete().await
}
