//! `mullion repair` about pods that were created before Mullion, or while its webhook did not respond, and can never start where they are: those that it evicts run on
//! nodes that fit, and it lists the others with the reason.
//!
//! Pods with the annotation `mullion-cluster/waits-off` start only on nodes whose names begin with that letter.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::PostParams;
use mullion_cluster::{ControlPlane, NodeSpec, TestNamespace, WebhookRegistration, wait_for, wait_until_called};
use serde_json::{Value, json};

use crate::memory::registration_gone;
use crate::reading::{Ran, mullion};
use crate::shared::*;

const LINUX: &str = "nginx:1.27-alpine";
const WINDOWS: &str = "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022";
const PRIVATE: &str = "registry.example.com/gpu/operator:25.3";

/// A workload whose pods start only on nodes with that letter.
fn stuck(kind: &str, name: &str, image: &str, letter: &str, spec: &Value) -> Value {
    let mut object = workload(if kind == "Job" { "Job" } else { kind }, name, image);
    object["spec"]["template"]["metadata"]["annotations"] = json!({"mullion-cluster/waits-off": letter});
    json_patch::merge(&mut object["spec"], spec);
    object
}

/// The pods of the list by name without the random end, each as `action: reason`.
struct List {
    pods: BTreeMap<String, Vec<String>>,
    ran: Ran,
}

async fn list_stuck(plane: &ControlPlane, namespace: &TestNamespace, more: &[&str]) -> Result<List> {
    let words = ["repair", "-n", &namespace.name, "-o", "json", "--policies", &policies(), "--rate", "600"];
    let words: Vec<&str> = words.into_iter().chain(more.iter().copied()).collect();
    let ran = mullion(plane.kubeconfig(), &words).await?;
    let mut pods: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in ran.out.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        if line["type"] == "pod" {
            let owner = line["owner"]["name"].as_str().or(line["name"].as_str()).context("no name")?.to_owned();
            let action = line["action"].as_str().context("no action")?;
            let reason = line["reason"].as_str().unwrap_or_default();
            pods.entry(owner).or_default().push(format!("{action}{reason}"));
        }
    }
    Ok(List { pods, ran })
}

impl List {
    /// The actions of all pods of an owner, which must be the same.
    fn expect(&self, owner: &str, count: usize, action: &str) -> Result<()> {
        let found = self.pods.get(owner).map(Vec::as_slice).unwrap_or_default();
        let is_same = found.len() == count && found.iter().all(|one| one.starts_with(action));
        ensure!(is_same, "{owner}: not {count} {action}: {found:?}\n{}{}", self.ran.out, self.ran.err);
        Ok(())
    }
}

/// Waits until the namespace has that many pods, and each of them has the status of its kubelet.
async fn all_reported(namespace: &TestNamespace, count: usize) -> Result<()> {
    wait_for(&format!("{count} reported pods"), DEADLINE, async || {
        let pods = pods(namespace).await?;
        let reported = pods.iter().filter(|pod| pod["status"]["podIP"].is_string()).count();
        ensure!(pods.len() == count && reported == count, "{reported} of {}", pods.len());
        anyhow::Ok(())
    })
    .await
}

/// An Event of the kubelet about a pod.
async fn report(namespace: &TestNamespace, pod: &Value, reason: &str, message: &str) -> Result<()> {
    let time = "2026-11-20T10:05:00Z";
    let event = json!({
        "metadata": {"generateName": "played-"}, "type": "Warning", "reason": reason, "message": message,
        "firstTimestamp": time, "lastTimestamp": time, "source": {"component": "kubelet"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace.name,
            "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
    });
    let events: Api<Event> = namespace.api();
    events.create(&PostParams::default(), &serde_json::from_value(event)?).await?;
    Ok(())
}

/// What a pod of no owner, of an operator or of a helm hook looks like: gpu-operator#2608 (a hook hangs on a Windows node),
/// oneuptime#3041 (eight pods for ever), `TheRock`#2865 (one pod hangs in deletion).
fn objects() -> Vec<Value> {
    let linux = |kind: &str, name: &str, spec: Value| stuck(kind, name, LINUX, "l", &spec);
    let mut solo = pod("solo", json!({"containers": [{"name": "c", "image": LINUX}]}));
    solo["metadata"]["annotations"] = json!({"mullion-cluster/waits-off": "l"});
    let mut runner = solo.clone();
    runner["metadata"]["name"] = json!("runner");
    runner["metadata"]["finalizers"] = json!(["example.com/hangs"]);
    let nightly = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": {
        "schedule": "0 0 1 1 *", "jobTemplate": {"spec": linux("Job", "nightly", json!({}))["spec"]}}});
    let hook = json!({"backoffLimit": 1});
    vec![
        linux("Deployment", "oneuptime", json!({"replicas": 8})),
        linux("StatefulSet", "db", json!({"replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel"})),
        linux("ReplicaSet", "bare", json!({"replicas": 1})),
        linux("Job", "tries", json!({"backoffLimit": 2})),
        linux("Job", "last", json!({"backoffLimit": 0})),
        linux("DaemonSet", "agent", json!({})),
        stuck("Job", "gpu-operator-upgrade-crd", PRIVATE, "l", &hook),
        stuck("Deployment", "iis", WINDOWS, "b", &json!({"replicas": 2})),
        nightly,
        solo,
        runner,
    ]
}

#[allow(clippy::too_many_lines, reason = "one story")]
pub async fn pods_from_before_mullion_start_elsewhere(plane: &ControlPlane) -> Result<()> {
    plane
        .create_nodes(&[
            NodeSpec::linux("l1"),
            NodeSpec::linux("l2"),
            NodeSpec::windows("a1", "10.0.17763.6893"),
            NodeSpec::windows("b1", "10.0.20348.2655"),
        ])
        .await?;
    let shop = plane.namespace("shop").await?;
    // Nobody marks the Windows nodes, and the scheduler fills the pool whose build was changed.
    plane.kubectl(&["cordon", "l1", "l2", "b1"]).await?;
    for object in objects() {
        create(&shop, &object).await?;
    }
    plane.kubectl(&["create", "job", "nightly-1", "--from=cronjob/nightly", "-n", &shop.name]).await?;
    // DaemonSets ignore cordons: one pod on each of the four nodes.
    all_reported(&shop, 8 + 2 + 1 + 2 + 4 + 1 + 2 + 1 + 2).await?;
    plane.kubectl(&["uncordon", "l1", "l2", "b1"]).await?;
    plane.kubectl(&["delete", "pod", "runner", "--wait=false", "--grace-period=1", "-n", &shop.name]).await?;
    let hook =
        pods(&shop).await?.into_iter().find(|pod| pod["metadata"]["labels"]["job-name"] == "gpu-operator-upgrade-crd");
    let message = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"4f\": plugin type=\"vpc-bridge\" name=\"vpc\" failed (add): failed to parse Kubernetes args: pod does not have label vpc.amazonaws.com/PrivateIPv4Address";
    report(&shop, &hook.context("no pod of the hook")?, "FailedCreatePodSandBox", message).await?;

    // Without Mullion, the successors would land there again.
    let before = list_stuck(plane, &shop, &[]).await?;
    before.expect("oneuptime", 8, "leaveits successor may land on this node")?;
    ensure!(before.ran.code == Some(1), "{:?}", before.ran.code);

    let (webhook, registration) = start_webhook(plane).await?;
    let registration = registration.only_namespace(&shop);
    registration.register(&plane.client()).await?;
    wait_until_mullion_is_called(&shop).await?;
    let found = list_stuck(plane, &shop, &[]).await?;
    for (owner, count) in [
        ("oneuptime", 8),
        ("db", 2),
        ("bare", 1),
        ("tries", 1),
        ("nightly-1", 1),
        ("gpu-operator-upgrade-crd", 1),
        ("iis", 2),
    ] {
        found.expect(owner, count, "evict")?;
    }
    found.expect("last", 1, "leaveits Job has too few attempts left")?;
    found.expect("solo", 1, "leaveit has no owner")?;
    found.expect("agent", 2, "restartDaemonSet")?;
    let uids = async || -> Result<Vec<String>> {
        let mut uids: Vec<String> = pods(&shop).await?.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect();
        uids.sort();
        Ok(uids)
    };
    let stored = uids().await?;
    let dry = list_stuck(plane, &shop, &["--dry-run=server"]).await?;
    ensure!(dry.ran.out.contains("\"evicted\":16"), "{}{}", dry.ran.out, dry.ran.err);
    ensure!(uids().await? == stored, "a dry run evicted a pod");

    // A pod that changed since it was read is not evicted, on any release.
    let path = format!("/api/v1/namespaces/{}/pods/db-0/eviction", shop.name);
    let db = get(&shop, "Pod", "db-0").await?;
    merge(&shop, "Pod", "db-0", &json!({"metadata": {"labels": {"changed": "yes"}}})).await?;
    let preconditions = json!({"uid": db["metadata"]["uid"], "resourceVersion": db["metadata"]["resourceVersion"]});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "db-0"},
        "deleteOptions": {"preconditions": preconditions}});
    let rejected = plane.kubectl_with_input(&["create", "--raw", &path, "-f", "-"], &eviction.to_string()).await;
    ensure!(rejected.is_err() && uids().await? == stored, "a pod that changed was evicted: {rejected:?}");

    let done = list_stuck(plane, &shop, &["--yes", "--successor-timeout", "60s"]).await?;
    ensure!(done.ran.out.contains("\"evicted\":16") && done.ran.code == Some(1), "{}{}", done.ran.out, done.ran.err);
    wait_for("all but three owners to run", DEADLINE, async || {
        for pod in pods(&shop).await? {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            let is_left = ["last-", "agent-", "solo"].iter().any(|left| name.starts_with(left));
            let fits = if name.starts_with("iis-") { node == "b1" } else { node.starts_with('l') };
            ensure!(is_left || fits && pod["status"]["phase"] == "Running", "{name} on {node:?}: {}", pod["status"]);
        }
        anyhow::Ok(())
    })
    .await?;
    for (job, failed) in [("tries", 1), ("last", 0), ("gpu-operator-upgrade-crd", 1)] {
        let status = get(&shop, "Job", job).await?["status"].clone();
        let is_kept = status["failed"].as_u64().unwrap_or(0) == failed && status["conditions"].is_null();
        ensure!(is_kept, "Job {job}: {status}");
    }

    // A second run finds nothing to evict, and what a person does helps with the rest.
    let again = list_stuck(plane, &shop, &["--yes"]).await?;
    ensure!(
        again.ran.out.contains("\"evicted\":0,") && again.ran.code == Some(1),
        "{}{}",
        again.ran.out,
        again.ran.err
    );
    plane.kubectl(&["rollout", "restart", "daemonset/agent", "-n", &shop.name]).await?;
    plane.kubectl(&["delete", "job/last", "pod/solo", "-n", &shop.name]).await?;
    wait_for("the pod that hangs in deletion, and no other", DEADLINE * 3, async || {
        let left = list_stuck(plane, &shop, &[]).await?;
        left.expect("runner", 1, "leaveif its node is healthy")?;
        ensure!(left.pods.len() == 1 && left.ran.out.contains("--grace-period=0 --force"), "{}", left.ran.out);
        anyhow::Ok(())
    })
    .await?;
    merge(&shop, "Pod", "runner", &json!({"metadata": {"finalizers": null}})).await?;
    webhook.stop().await?;
    pods_of_an_outage_start_elsewhere(plane, &shop, &registration).await?;
    registration_gone(plane, &shop).await
}

/// The webhook of `registration` has stopped.
async fn pods_of_an_outage_start_elsewhere(
    plane: &ControlPlane,
    shop: &TestNamespace,
    registration: &WebhookRegistration,
) -> Result<()> {
    registration.clone().as_installed().register(&plane.client()).await?;
    let probe = serde_json::from_value(pod("probe", json!({"containers": [{"name": "c", "image": WINDOWS}]})))?;
    wait_until_called(shop, &probe, DEADLINE, |answer| {
        answer.as_ref().is_ok_and(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_selector.is_none()))
    })
    .await?;
    plane.kubectl(&["cordon", "l1", "l2"]).await?;
    create(shop, &stuck("Deployment", "late", LINUX, "l", &json!({"replicas": 2}))).await?;
    let late = async || -> Result<Vec<Value>> {
        let all = pods(shop).await?.into_iter();
        Ok(all.filter(|pod| pod["metadata"]["labels"]["app"] == "late").collect())
    };
    wait_for("two pods of the outage on Windows nodes", DEADLINE, async || {
        let found = late().await?;
        let is_unplaced = |pod: &&Value| pod["metadata"]["annotations"]["mullion.dev/decision"].is_null();
        let reported = found.iter().filter(|pod| pod["status"]["podIP"].is_string()).filter(is_unplaced).count();
        ensure!(reported == 2 && found.len() == 2, "{found:?}");
        anyhow::Ok(())
    })
    .await?;
    plane.kubectl(&["uncordon", "l1", "l2"]).await?;

    let (webhook, registration) = start_webhook(plane).await?;
    registration.only_namespace(shop).register(&plane.client()).await?;
    wait_until_mullion_is_called(shop).await?;
    list_stuck(plane, shop, &[]).await?.expect("late", 2, "evict")?;
    let done = list_stuck(plane, shop, &["--yes", "--successor-timeout", "60s"]).await?;
    ensure!(done.ran.out.contains("\"evicted\":2,"), "{}{}", done.ran.out, done.ran.err);
    wait_for("the pods of the outage to run on Linux nodes", DEADLINE, async || {
        let found = late().await?;
        let runs = |pod: &&Value| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            node.starts_with('l') && pod["status"]["phase"] == "Running"
        };
        ensure!(found.iter().filter(runs).count() == 2 && found.len() == 2, "{found:?}");
        anyhow::Ok(())
    })
    .await?;
    drop(webhook);
    Ok(())
}
