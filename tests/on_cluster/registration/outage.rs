//! `failurePolicy: Fail` with no server at the webhook's address, in the whole cluster.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use mullion_cluster::{ControlPlane, NodeSpec, TestNamespace, WebhookRegistration, wait_for};
use serde_json::{Value, json};

use super::shapes;
use crate::generator::WINDOWS_IMAGE;
use crate::shared::*;

fn windows(name: &str) -> Value {
    let container = json!({"name": "c", "image": WINDOWS_IMAGE, "resources": {"limits": {"memory": "16Mi"}}});
    pod(
        name,
        json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "os": {"name": "windows"}, "containers": [container]}),
    )
}

fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[last] = value;
    pod
}

fn of_daemon_set(pod: Value) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true});
    with(pod, "/metadata/ownerReferences", json!([owner]))
}

/// Nodes join and report, and everything starts except Windows pods of users, which are rejected with a message.
pub async fn an_outage_stops_windows_pods_at_most(plane: &ControlPlane) -> Result<()> {
    let team = plane.namespace("team").await?;
    let system = TestNamespace { name: "kube-system".to_owned(), client: plane.client() };
    // The chart is rendered for this namespace.
    plane.kubectl(&["create", "namespace", "mullion-system"]).await?;
    plane.kubectl(&["create", "serviceaccount", "default", "-n", "mullion-system"]).await.ok();
    let own = TestNamespace { name: "mullion-system".to_owned(), client: plane.client() };
    plane.create_nodes(&[NodeSpec::linux("out-linux"), NodeSpec::windows("out-win", "10.0.20348.2655")]).await?;
    // A pod that ran before the outage.
    create(&team, &windows("before")).await?;

    let registration = WebhookRegistration::new("https://127.0.0.1:1", "").as_installed().with_nodes();
    registration.value("admission.failurePolicy=Fail").register(&plane.client()).await?;
    let rejection =
        wait_for("a Windows pod to be rejected", DEADLINE, async || match ask(&team, &windows("rejected")).await? {
            Ok(_) => anyhow::bail!("it is taken"),
            Err(status) => Ok(status.message),
        })
        .await?;
    for text in ["failed calling webhook \"pods.mullion.dev\"", "/validate", "connection refused"] {
        ensure!(rejection.contains(text), "{text} is not in {rejection}");
    }

    // Pods that nothing in an outage may stop, each with the reason.
    let plain = pod("plain", json!({"containers": [{"name": "c", "image": "nginx"}]}));
    let explicit = with(plain.clone(), "/spec/nodeSelector", json!({"kubernetes.io/os": "linux"}));
    let host_process = json!({"windowsOptions": {"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}});
    let host = with(with(windows("host"), "/spec/securityContext", host_process), "/spec/hostNetwork", json!(true));
    let either = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux", "windows"]}]}]}}});
    let mirror = json!({"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"});
    let owned = of_daemon_set(windows("owned"));
    let controllers = as_controllers(plane, &team).await?;
    an_owner_that_a_user_names_does_not_count(&team, &owned).await?;
    let cases = [
        ("has no operating system", &team, plain.clone()),
        ("is explicitly Linux", &team, with(explicit.clone(), "/metadata/name", json!("explicit"))),
        (
            "may run on either",
            &team,
            with(with(plain.clone(), "/spec/affinity", either), "/metadata/name", json!("either")),
        ),
        ("is a HostProcess pod", &team, host),
        ("is a DaemonSet's", &controllers, owned),
        (
            "has a system priority",
            &system,
            with(windows("critical"), "/spec/priorityClassName", json!("system-node-critical")),
        ),
        ("is kube-system's", &system, windows("coredns")),
        ("is Mullion's own", &own, windows("mullion-webhook")),
        (
            "is a mirror pod",
            &team,
            with(with(windows("mirror"), "/metadata/annotations", mirror), "/spec/nodeName", json!("out-win")),
        ),
    ];
    for (why, namespace, pod) in cases {
        create(namespace, &pod).await.with_context(|| format!("a pod that {why}"))?;
    }
    let with_priority = with(windows("important"), "/spec/priorityClassName", json!("system-cluster-critical"));
    let answer = ask(&team, &with_priority).await?;
    ensure!(answer.is_ok(), "a pod of a system priority: {answer:?}");

    // Every kind of workload for Linux, and a DaemonSet for Windows, by their controllers.
    let rolled = plane.namespace("rolled").await?;
    for kind in shapes::KINDS {
        let object =
            with(shapes::around(kind, &explicit), "/metadata/name", json!(format!("linux-{}", kind.to_lowercase())));
        create(&rolled, &object).await.with_context(|| format!("a {kind} of Linux"))?;
        let object = with(
            shapes::around(kind, &windows("x")),
            "/metadata/name",
            json!(format!("windows-{}", kind.to_lowercase())),
        );
        create(&rolled, &object).await.with_context(|| format!("a {kind} of Windows"))?;
    }
    // One pod of each of Linux but the CronJob, the DaemonSet's on its node; and the Windows DaemonSet's.
    let nodes = bound(&rolled, 7).await?;
    ensure!(nodes.iter().filter(|node| *node == "out-win").count() == 1, "{nodes:?}");
    // The Events of the owners explain why the other pods are missing.
    wait_for("an event of the ReplicaSet", DEADLINE, async || {
        let path = format!("/api/v1/namespaces/{}/events?fieldSelector=reason=FailedCreate", rolled.name);
        let events = json!(list(&plane.client(), &path).await?).to_string();
        ensure!(events.contains("pods.mullion.dev") && events.contains("windows-deployment"), "{events}");
        Ok(())
    })
    .await?;

    // Pods from before the outage can be labeled, debugged and deleted.
    let before =
        merge(&team, "Pod", "before", &json!({"metadata": {"labels": {"a": "b"}, "finalizers": null}})).await?;
    let mut debugged = before.clone();
    debugged["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    debugged["spec"]["ephemeralContainers"] = json!([{"name": "debugger", "image": WINDOWS_IMAGE}]);
    dry_run_ephemeral(&team, &debugged).await.context("debug a Windows pod")?;
    delete(&team, "Pod", "before").await?;

    nodes_go_on(plane).await?;
    WebhookRegistration::new("https://127.0.0.1:1", "").remove(&plane.client()).await?;
    // Five of each operating system, and the DaemonSets' on two nodes each.
    bound(&rolled, 14).await.context("once Mullion is gone the others start")?;
    for (namespace, names) in [(&system, "coredns,critical"), (&own, "mullion-webhook")] {
        for name in names.split(',') {
            delete(namespace, "Pod", name).await?;
        }
    }
    team.delete().await?;
    rolled.delete().await?;
    plane.kubectl(&["delete", "node", "out-linux", "out-win", "out-new-linux", "out-new-windows"]).await.map(drop)
}

/// The author of a pod can write an owner reference: it counts only from the DaemonSet controller.
async fn an_owner_that_a_user_names_does_not_count(team: &TestNamespace, owned: &Value) -> Result<()> {
    let forged = ask(team, owned).await?;
    ensure!(
        forged.as_ref().is_err_and(|status| status.message.contains("failed calling webhook \"pods.mullion.dev\"")),
        "a pod that names a DaemonSet, of a user: {forged:?}"
    );
    Ok(())
}

/// Kubelets register their nodes and report.
async fn nodes_go_on(plane: &ControlPlane) -> Result<()> {
    for spec in [NodeSpec::linux("out-new-linux"), NodeSpec::windows("out-new-windows", "10.0.20348.2655")] {
        let kubelet = plane.client_as(&format!("system:node:{}", spec.name()), &["system:nodes"]).await?;
        let nodes: Api<Node> = Api::all(kubelet.clone());
        nodes
            .create(&PostParams::default(), &spec.build()?)
            .await
            .with_context(|| format!("register {}", spec.name()))?;
        let pressure = json!({"status": {"conditions": [{"type": "PIDPressure", "status": "False"}]}});
        nodes
            .patch_status(spec.name(), &PatchParams::default(), &Patch::Strategic(pressure))
            .await
            .context("a status")?;
        let annotated = json!({"metadata": {"annotations": {"example.com/x": "y"}}});
        nodes
            .patch(spec.name(), &PatchParams::default(), &Patch::Merge(annotated))
            .await
            .context("a node's metadata")?;
        let leases: Api<Lease> = Api::namespaced(kubelet, "kube-node-lease");
        // KWOK may have applied it before.
        let how = PatchParams::apply("kubelet").force();
        let lease: Lease = serde_json::from_value(
            json!({"metadata": {"name": spec.name()}, "spec": {"holderIdentity": spec.name(), "leaseDurationSeconds": 40}}),
        )?;
        leases.patch(spec.name(), &how, &Patch::Apply(&lease)).await.context("a heartbeat")?;
    }
    Ok(())
}
