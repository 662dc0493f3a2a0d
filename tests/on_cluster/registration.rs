//! When the API server calls Mullion, and what happens if no webhook responds: the chart's configurations on a real server.

mod calls;
mod outage;
mod policies;
mod predicate;
mod shapes;
mod upgrade;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
pub use calls::{long_lists_cost_little, the_server_calls_for_exactly_the_expected_requests};
use mullion_cluster::{ControlPlane, NodeSpec, WebhookRegistration, free_port, sum_of_metrics, wait_for};
pub use outage::an_outage_stops_windows_pods_at_most;
pub use policies::policies_are_judged_where_they_are_mounted;
use serde_json::{Value, json};
pub use upgrade::an_upgrade_leaves_the_bundle;

use crate::generator;
use crate::shared::*;

/// How often the webhook was called: both endpoints, every kind.
async fn calls(admin: u16) -> Result<u64> {
    let (_, text) = admin_get(admin, "/metrics").await?;
    Ok(sum_of_metrics(&text, "mullion_admission_reviews_total{"))
}

/// The default of `admission.controllerUsers`, compared with the roles that the API server grants to its own
/// controllers.
pub async fn controller_users_are_those_of_the_cluster(plane: &ControlPlane) -> Result<()> {
    let get = async |kind: &str| -> Result<Value> {
        Ok(serde_json::from_str(&plane.kubectl(&["get", kind, "-o", "json"]).await?)?)
    };
    let (roles, bindings) = (get("clusterroles").await?, get("clusterrolebindings").await?);
    let has = |value: &Value, name: &str| value.as_array().is_some_and(|all| all.contains(&json!(name)));
    // Objects with owner references that Mullion trusts.
    let owned = [("", "pods"), ("apps", "replicasets"), ("batch", "jobs")];
    let creates = |role: &Value| {
        role["rules"].as_array().into_iter().flatten().any(|rule| {
            has(&rule["verbs"], "create")
                && owned.iter().any(|(group, kind)| has(&rule["apiGroups"], group) && has(&rule["resources"], kind))
        })
    };
    let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
    let roles: BTreeSet<String> = items(&roles)
        .iter()
        .filter(|role| creates(role))
        .filter_map(|role| role["metadata"]["name"].as_str().map(str::to_owned))
        // Its pods, which recycle volumes, have no owner.
        .filter(|name| name.starts_with("system:controller:") && name != "system:controller:persistent-volume-binder")
        .collect();
    let mut expected = BTreeSet::from([CONTROLLERS.0.to_owned()]);
    for binding in items(&bindings) {
        if binding["roleRef"]["name"].as_str().is_some_and(|role| roles.contains(role)) {
            expected.extend(binding["subjects"].as_array().into_iter().flatten().map(|subject| {
                let text = |key: &str| subject[key].as_str().unwrap_or_default();
                format!("system:serviceaccount:{}:{}", text("namespace"), text("name"))
            }));
        }
    }
    let listed: BTreeSet<String> = controller_users()?.into_iter().collect();
    ensure!(listed == expected && roles.len() == 7, "the chart lists {listed:?}, the cluster has {expected:?}");
    Ok(())
}

pub async fn explicitly_linux_pods_cause_no_call(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace("explicit-linux").await?;
    let names = ["linux-1", "linux-2"];
    plane.create_nodes(&names.map(NodeSpec::linux)).await?;
    let admin = free_port()?;
    let (webhook, registration) = start_webhook_at(plane, &policies(), admin).await?;
    let registration = registration.as_installed().timeout_seconds(10).only_namespace(&namespace).with_nodes();
    registration.clone().register(&plane.client()).await?;
    wait_until_mullion_is_called(&namespace).await?;

    let linux = |name: &str| {
        let mut pod = pod(
            name,
            json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [
            {"name": "c", "image": "registry.example.com/app:1", "resources": {"limits": {"memory": "16Mi"}}}]}),
        );
        pod["metadata"]["annotations"] = json!({"prometheus.io/scrape": "true"});
        pod
    };
    let windows = pod("w", json!({"containers": [{"name": "c", "image": generator::WINDOWS_IMAGE}]}));
    // The API server loads the two configurations one after the other.
    wait_for("both endpoints to be called for a Windows pod", DEADLINE, async || {
        let before = calls(admin).await?;
        dry_run(&namespace, &windows).await?;
        let count = calls(admin).await? - before;
        ensure!(count == 2, "{count} calls");
        Ok(())
    })
    .await?;

    let before = calls(admin).await?;
    let pod = create(&namespace, &linux("bare")).await?;
    let mut debugged = pod.clone();
    debugged["metadata"].as_object_mut().context("metadata")?.remove("resourceVersion");
    debugged["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": "busybox"}]);
    dry_run_ephemeral(&namespace, &debugged).await?;
    merge(&namespace, "Pod", "bare", &json!({"metadata": {"labels": {"a": "b"}}})).await?;
    for kind in shapes::KINDS {
        let mut object = shapes::around(kind, &linux("x"));
        object["metadata"]["name"] = json!(format!("linux-{}", kind.to_lowercase()));
        create(&namespace, &object).await.with_context(|| format!("an explicitly Linux {kind}"))?;
    }
    // Deployment, StatefulSet, ReplicaSet, Job and ReplicationController create one pod, the DaemonSet one per node.
    bound(&namespace, 1 + 5 + names.len()).await?;
    merge(&namespace, "Deployment", "linux-deployment", &json!({"spec": {"replicas": 2}})).await?;
    merge(&namespace, "DaemonSet", "linux-daemonset", &json!({"metadata": {"labels": {"a": "b"}}})).await?;
    let newer = json!([{"name": "c", "image": "registry.example.com/app:2"}]);
    merge(
        &namespace,
        "StatefulSet",
        "linux-statefulset",
        &json!({"spec": {"template": {"spec": {"containers": newer}}}}),
    )
    .await?;
    bound(&namespace, 2 + 5 + names.len()).await?;
    delete(&namespace, "Pod", "bare").await?;
    plane.create_node(&NodeSpec::linux("linux-3")).await?;
    ensure!(calls(admin).await? == before, "{} calls about explicitly Linux pods", calls(admin).await? - before);

    // A pod without placement.
    let mut plain = linux("plain");
    plain["spec"]["nodeSelector"] = Value::Null;
    dry_run(&namespace, &plain).await?;
    ensure!(calls(admin).await? == before + 2, "pods without an operating system are reviewed");
    // Owned and unchanged templates cause no call either.
    let before = calls(admin).await?;
    let mut workload = shapes::around("Deployment", &windows);
    workload["spec"]["replicas"] = json!(0);
    workload["metadata"]["name"] = json!("w");
    create(&namespace, &workload).await?;
    ensure!(calls(admin).await? == before + 2, "both endpoints are called for a Windows template");
    wait_for("its ReplicaSet", DEADLINE, async || {
        let all = plane.kubectl(&["get", "replicasets", "-n", &namespace.name, "-o", "name"]).await?;
        ensure!(all.contains("/w-"), "{all}");
        Ok(())
    })
    .await?;
    merge(&namespace, "Deployment", "w", &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"minReadySeconds": 1}}))
        .await?;
    ensure!(calls(admin).await? == before + 2, "no template was changed");

    // If Linux nodes are tainted, Mullion adds something to Linux pods.
    registration.value("admission.skipExplicitlyLinux=false").register(&plane.client()).await?;
    wait_for("the API server to call about explicitly Linux pods", DEADLINE, async || {
        let before = calls(admin).await?;
        dry_run(&namespace, &linux("called")).await?;
        let count = calls(admin).await? - before;
        ensure!(count == 2, "{count} calls");
        Ok(())
    })
    .await?;
    WebhookRegistration::new("https://127.0.0.1:1", "").remove(&plane.client()).await?;
    drop(webhook);
    namespace.delete().await?;
    plane.kubectl(&["delete", "node", names[0], names[1], "linux-3"]).await.map(drop)
}
