//! Owners of the objects that a controller creates, the objects that are deleted with a release, and the cold start of a
//! whole cluster.
//!
//! The control plane checks owner references like that of OpenShift. Each function runs the only Mullion of the
//! cluster.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::DynamicObject;
use mullion_cluster::{
    Builder, ControlPlane, MullionProcess, NodeSpec, TestNamespace, WebhookRegistration, free_port, metric, wait_for,
};
use serde_json::{Value, json};

use crate::rights::{self, Subject};
use crate::shared::{DEADLINE, admin_get, create, delete, list, pods, wait_until_mullion_is_called, workload};

/// Nothing is scheduled, and no kubelet runs.
pub fn plane() -> Builder {
    let plugins = ["NodeRestriction", "OwnerReferencesPermissionEnforcement"];
    ControlPlane::builder().admission_plugins(&plugins).scheduler(false).kwok(false)
}

const ACCOUNT: &str = "mullion-controller";
const MADE: [(&str, &str); 4] = [
    ("ConfigMap", "mullion-state"),
    ("Lease", "mullion-controller"),
    ("Secret", "mullion-ca"),
    ("Secret", "mullion-tls"),
];

async fn made(home: &TestNamespace, kind: &str, name: &str) -> Result<Option<Value>> {
    let version = if kind == "Lease" { "coordination.k8s.io/v1" } else { "v1" };
    let resource = kube::api::ApiResource::from_gvk_with_plural(
        &match version.split_once('/') {
            Some((group, version)) => kube::api::GroupVersionKind::gvk(group, version, kind),
            None => kube::api::GroupVersionKind::gvk("", version, kind),
        },
        &format!("{}s", kind.to_lowercase()),
    );
    let api: Api<DynamicObject> = Api::namespaced_with(home.client.clone(), &home.name, &resource);
    Ok(api.get_opt(name).await?.map(serde_json::to_value).transpose()?)
}

/// Creates the controller's ServiceAccount; its uid.
async fn account(home: &TestNamespace) -> Result<String> {
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": ACCOUNT}}))?;
    let made = home.api::<ServiceAccount>().create(&PostParams::default(), &account).await?;
    made.metadata.uid.context("a uid")
}

fn user(home: &TestNamespace) -> String {
    format!("system:serviceaccount:{}:{ACCOUNT}", home.name)
}

/// A controller and its admin port.
async fn controller(kubeconfig: &Path, home: &TestNamespace, flags: &[&str]) -> Result<(MullionProcess, u16)> {
    let admin = free_port()?;
    let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(["controller", "--lease-namespace", &home.name, "--admin-bind", &format!("127.0.0.1:{admin}")])
        .args(["--log-format", "text", "--kubeconfig", &kubeconfig.to_string_lossy()])
        .args(flags)
        .admin(([127, 0, 0, 1], admin).into())
        .start()
        .await?;
    Ok((process, admin))
}

const CERTIFIED: [&str; 4] = ["--webhook-service", "mullion-webhook", "--certificate-name", "127.0.0.1"];

async fn wait_for_log(process: &MullionProcess, words: &str) -> Result<()> {
    wait_for(&format!("{words:?} in the log"), DEADLINE, async || {
        let log = process.log()?;
        if log.contains(words) { Ok(()) } else { bail!("{log}") }
    })
    .await
}

/// Waits until every object exists and has that ServiceAccount as its owner, without `blockOwnerDeletion`.
async fn all_owned_by(home: &TestNamespace, uid: &str) -> Result<()> {
    let owner = json!([{"apiVersion": "v1", "kind": "ServiceAccount", "name": ACCOUNT, "uid": uid}]);
    for (kind, name) in MADE {
        wait_for(&format!("{kind} {name} of {uid}"), DEADLINE, async || {
            let found = made(home, kind, name).await?.context("there is none")?;
            ensure!(found["metadata"]["ownerReferences"] == owner, "{}", found["metadata"]);
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn labelled(plane: &ControlPlane, name: &str, expected: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(plane.client());
    wait_for(&format!("{name} to be labelled: {expected}"), DEADLINE, async || {
        let node = nodes.get(name).await?;
        let labels = node.metadata.labels.unwrap_or_default();
        ensure!(labels.contains_key("mullion.dev/windows-release") == expected, "{labels:?}");
        Ok(())
    })
    .await
}

/// The output of `mullion withdraw`, run as by the chart's Job.
async fn withdraw(kubeconfig: &Path, home: &TestNamespace, flags: &[&str]) -> Result<String> {
    let done = tokio::process::Command::new(env!("CARGO_BIN_EXE_mullion"))
        .args(["withdraw", "--lease-namespace", &home.name, "--kubeconfig", &kubeconfig.to_string_lossy()])
        .args(flags)
        .kill_on_drop(true)
        .output()
        .await?;
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    ensure!(done.status.success(), "{}: {text}", done.status);
    Ok(text)
}

async fn delete_account(home: &TestNamespace) -> Result<()> {
    home.api::<ServiceAccount>().delete(ACCOUNT, &DeleteParams::default()).await?;
    Ok(())
}

/// Withdrawn, deleted in the worst order, and installed again: nothing is left, no process creates objects again, and the new
/// installation works.
pub async fn run_time_objects_are_deleted_with_the_release(plane: &ControlPlane) -> Result<()> {
    let home = plane.namespace("mullion").await?;
    plane.create_node(&NodeSpec::windows("owin", "10.0.20348.2655")).await?;
    let first = account(&home).await?;
    rights::of_controller_with_certificates(plane, &home.name, "default", Subject::User(&user(&home))).await?;
    let hook = "withdraw-of-the-chart";
    rights::of_withdraw(plane, &home.name, Subject::User(hook)).await?;
    let hook = plane.kubeconfig_for(hook, &[])?;

    // Before any controller runs: the withdrawal creates nothing that the first controller would find.
    let output = withdraw(&hook, &home, &[]).await?;
    ensure!(output.contains("no controller of Mullion has worked here") && !output.contains("ConfigMap"), "{output}");
    for (kind, name) in MADE {
        ensure!(made(&home, kind, name).await?.is_none(), "{kind} {name}");
    }

    let kubeconfig = plane.kubeconfig_for_service_account(&home.name, ACCOUNT).await?;
    let (process, _) = controller(&kubeconfig, &home, &CERTIFIED).await?;
    all_owned_by(&home, &first).await?;
    labelled(plane, "owin", true).await?;
    // Deleted while a controller runs, each is created again with its owner.
    for (kind, name) in MADE {
        delete_made(plane, &home, kind, name).await?;
    }
    all_owned_by(&home, &first).await?;

    let output = withdraw(&hook, &home, &[]).await?;
    ensure!(output.contains("the controller has stopped") && output.contains("nodes: 1 of 1 freed"), "{output}");
    labelled(plane, "owin", false).await?;
    // The withdrawal is undone.
    let output = withdraw(&hook, &home, &["--undo"]).await?;
    ensure!(output.contains("controllers work again"), "{output}");
    labelled(plane, "owin", true).await?;
    withdraw(&hook, &home, &[]).await?;
    // A deleted ConfigMap is created again, owned by the controller's account and not by the Job's.
    delete_made(plane, &home, "ConfigMap", "mullion-state").await?;
    withdraw(&hook, &home, &[]).await?;
    all_owned_by(&home, &first).await?;
    labelled(plane, "owin", false).await?;

    // Deleted before the Deployment: the controller keeps running without its ServiceAccount.
    delete_account(&home).await?;
    wait_for_log(&process, "no longer leading").await?;
    for (kind, name) in MADE {
        wait_for(&format!("{kind} {name} to go"), DEADLINE, async || {
            ensure!(made(&home, kind, name).await?.is_none(), "it is there");
            Ok(())
        })
        .await?;
    }
    labelled(plane, "owin", false).await?;
    process.stop().await?;
    for (kind, name) in MADE {
        ensure!(made(&home, kind, name).await?.is_none(), "{kind} {name} is left");
    }

    let second = account(&home).await?;
    ensure!(first != second, "uids");
    // If the garbage collector is late, the withdrawn state of the previous release still exists.
    let gone = json!([{"apiVersion": "v1", "kind": "ServiceAccount", "name": ACCOUNT, "uid": first}]);
    let state = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "mullion-state",
        "ownerReferences": gone}, "data": {"service-account": first, "withdrawn": "2026-01-01T00:00:00Z",
        "seen-taints": "sku=windows:NoSchedule\n"}});
    plane.kubectl_with_input(&["create", "-n", &home.name, "-f", "-"], &state.to_string()).await?;
    let kubeconfig = plane.kubeconfig_for_service_account(&home.name, ACCOUNT).await?;
    let (process, admin) = controller(&kubeconfig, &home, &CERTIFIED).await?;
    labelled(plane, "owin", true).await?;
    all_owned_by(&home, &second).await?;
    let metrics = admin_get(admin, "/metrics").await?.1;
    ensure!(metrics.contains("\nmullion_withdrawn 0\n"), "{metrics}");
    withdraw(&hook, &home, &[]).await?;
    let (ended, log) = process.stop().await?;
    ensure!(ended.success() && !log.contains("cannot set the owner of"), "{ended} {log}");
    Ok(())
}

async fn delete_made(plane: &ControlPlane, home: &TestNamespace, kind: &str, name: &str) -> Result<()> {
    plane.kubectl(&["delete", kind, name, "-n", &home.name]).await.map(drop)
}

/// Objects of a version of Mullion that set no owners: state and keys stay, and every object is deleted with the
/// release from now on, if the API server lets the controller set the owner.
pub async fn objects_without_owner_are_adopted(plane: &ControlPlane) -> Result<()> {
    for may_delete in [true, false] {
        let home = plane.namespace("mullion").await?;
        let (process, _) = controller(plane.kubeconfig(), &home, &CERTIFIED).await?;
        for (kind, name) in MADE {
            wait_for(&format!("{kind} {name}"), DEADLINE, async || {
                let found = made(&home, kind, name).await?.context("there is none")?;
                ensure!(found["metadata"].get("ownerReferences").is_none(), "{found}");
                Ok(())
            })
            .await?;
        }
        process.stop().await?;
        let newer =
            json!({"data": {"of-a-newer-version": "x", "seen-taints": "sku=windows:NoSchedule\nnewer syntax\n"}});
        let patch = ["patch", "configmap", "mullion-state", "-n", &*home.name, "--type=merge", "-p"];
        plane.kubectl(&[&patch[..], &[&*newer.to_string()]].concat()).await?;
        let mut before = Vec::new();
        for (kind, name) in MADE {
            before.push(made(&home, kind, name).await?.context("gone")?["metadata"]["uid"].clone());
        }

        let uid = account(&home).await?;
        rights::of_controller_with_certificates(plane, &home.name, "default", Subject::User(&user(&home))).await?;
        if may_delete {
            let role = ["--verb=delete", "--resource=configmaps,leases.coordination.k8s.io", "-n", &*home.name];
            plane.kubectl(&[&["create", "role", "delete"][..], &role].concat()).await?;
            let to = format!("--serviceaccount={}:{ACCOUNT}", home.name);
            plane.kubectl(&["create", "rolebinding", "delete", "--role=delete", &to, "-n", &home.name]).await?;
            let may = ["auth", "can-i", "delete", "configmaps", "-n", &*home.name, "--as", &*user(&home)];
            wait_for("the right to delete", DEADLINE, async || plane.kubectl(&may).await.map(drop)).await?;
        }
        let kubeconfig = plane.kubeconfig_for_service_account(&home.name, ACCOUNT).await?;
        let (process, _) = controller(&kubeconfig, &home, &CERTIFIED).await?;
        if !may_delete {
            // They work, and the log contains what to do.
            for what in [format!("ConfigMap {}/mullion-state", home.name), format!("Lease {}/{ACCOUNT}", home.name)] {
                wait_for_log(&process, &format!("cannot set the owner of {what}")).await?;
            }
            wait_for("the state to be claimed", DEADLINE, async || {
                let state = made(&home, "ConfigMap", "mullion-state").await?.context("gone")?;
                ensure!(state["data"]["service-account"] == *uid, "{state}");
                ensure!(state["metadata"].get("ownerReferences").is_none(), "{state}");
                Ok(())
            })
            .await?;
        }
        let state = made(&home, "ConfigMap", "mullion-state").await?.context("gone")?;
        ensure!(state["data"]["of-a-newer-version"] == "x", "{state}");
        ensure!(state["data"]["seen-taints"].as_str().is_some_and(|text| text.contains("sku=windows")), "{state}");
        if !may_delete {
            for (kind, name) in MADE.into_iter().take(2) {
                delete_made(plane, &home, kind, name).await?;
            }
        }
        all_owned_by(&home, &uid).await?;
        for ((kind, name), before) in MADE.into_iter().zip(before).skip(if may_delete { 0 } else { 2 }) {
            let now = made(&home, kind, name).await?.context("gone")?;
            ensure!(now["metadata"]["uid"] == before, "{kind} {name} was created again");
        }
        let (ended, log) = process.stop().await?;
        ensure!(ended.success(), "{ended} {log}");
        home.delete().await?;
    }
    Ok(())
}

async fn webhook(plane: &ControlPlane, home: &TestNamespace, port: u16) -> Result<(MullionProcess, u16)> {
    let admin = free_port()?;
    let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(["webhook", "--bind", &format!("127.0.0.1:{port}"), "--admin-bind", &format!("127.0.0.1:{admin}")])
        .args(["--tls-secret", &format!("{}/mullion-tls", home.name), "--drain-delay", "0"])
        .args(["--kubeconfig", &plane.kubeconfig().to_string_lossy()])
        .start()
        .await?;
    Ok((process, admin))
}

/// The expiry of the controller's certificates, in seconds since 1970: the pair, the CA.
async fn ends(admin: u16) -> Result<(i64, i64)> {
    let metrics = admin_get(admin, "/metrics").await?.1;
    let of = |certificate: &str| {
        let end = metric(&metrics, &format!("mullion_certificate_expiry_seconds{{certificate=\"{certificate}\"}}"));
        end.map(|end| end.filter(|end: &i64| *end > 0))
    };
    Ok((of("serving")?.context("no pair")?, of("ca")?.context("no CA")?))
}

/// Everything was off for longer than the certificates last, and pods of the whole cluster return, with `failurePolicy:
/// Fail` or without: Linux first, including Mullion, and then Windows, without intervention.
pub async fn a_cluster_starts_cold(plane: &ControlPlane) -> Result<()> {
    // The namespace for which the chart is rendered.
    plane.kubectl(&["create", "namespace", "mullion-system"]).await?;
    let of = |name: &str| TestNamespace { name: name.to_owned(), client: plane.client() };
    let (home, system, team) = (of("mullion-system"), of("kube-system"), plane.namespace("team").await?);
    plane.create_nodes(&[NodeSpec::linux("clinux"), NodeSpec::windows("cwin", "10.0.20348.2655")]).await?;

    let port = free_port()?;
    let (before, admin) = webhook(plane, &home, port).await?;
    wait_for("a webhook that reports what it waits for", DEADLINE, async || {
        let (status, text) = admin_get(admin, "/readyz").await?;
        ensure!(status == 503 && text.contains("no certificate"), "{status} {text}");
        Ok(())
    })
    .await?;
    let short = ["--certificate-lifetime", "10", "--ca-lifetime", "20"];
    let (keeper, admin) = controller(plane.kubeconfig(), &home, &[&CERTIFIED[..], &short].concat()).await?;
    let registration = WebhookRegistration::new(&format!("https://127.0.0.1:{port}"), "").as_installed().with_nodes();
    // The timeout is long, for a busy machine: a missing process fails immediately.
    let registration = registration.value("admission.failurePolicy=Fail").timeout_seconds(30);
    registration.register(&plane.client()).await?;
    wait_until_mullion_is_called(&team).await?;
    let for_windows = |kind: &str, name: &str| {
        let mut object = workload(kind, name, "mcr.microsoft.com/windows/servercore:ltsc2022");
        object["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
        object
    };
    let others = [(&team, "of-linux"), (&team, "agents"), (&home, "mullion-webhook"), (&system, "coredns")];
    create(&team, &for_windows("Deployment", "of-windows")).await?;
    create(&team, &for_windows("DaemonSet", "agents")).await?;
    create(&team, &workload("Deployment", "of-linux", "registry.example.com/app:1")).await?;
    create(&home, &workload("Deployment", "mullion-webhook", "registry.example.com/mullion:1")).await?;
    create(&system, &workload("Deployment", "coredns", "registry.k8s.io/coredns/coredns:v1.12.0")).await?;
    for (namespace, of) in others.into_iter().chain([(&team, "of-windows")]) {
        wait_for(&format!("a pod of {of}"), DEADLINE, async || one_of(namespace, of).await.map(drop)).await?;
    }
    before.kill()?;
    let (pair, ca) = ends(admin).await?;
    keeper.kill()?;

    // Everything stops: no pod is left. The controllers of workloads keep trying to create pods.
    for namespace in [&team, &home, &system] {
        let all = ["delete", "pods", "--all", "-n", &*namespace.name, "--force", "--grace-period=0"];
        plane.kubectl(&all).await?;
    }
    for (namespace, of) in others {
        wait_for(&format!("a pod of {of} again"), DEADLINE, async || one_of(namespace, of).await.map(drop)).await?;
    }
    wait_for("a Windows pod to be denied with a message", DEADLINE, async || {
        let path = format!("/api/v1/namespaces/{}/events?fieldSelector=reason=FailedCreate", team.name);
        let events = json!(list(&plane.client(), &path).await?).to_string();
        ensure!(events.contains("of-windows") && events.contains("pods.mullion.dev"), "{events}");
        Ok(())
    })
    .await?;
    ensure!(one_of(&team, "of-windows").await.is_err(), "it was not reviewed");
    wait_for("the certificates to end", DEADLINE, async || {
        let now = jiff::Timestamp::now().as_second();
        ensure!(now > pair.max(ca), "{} s more", pair.max(ca) - now);
        Ok(())
    })
    .await?;

    // In either order.
    let (after, admin) = webhook(plane, &home, port).await?;
    let (keeper, keeper_admin) = controller(plane.kubeconfig(), &home, &CERTIFIED).await?;
    let placed = wait_for("the Windows pod, by itself", DEADLINE, async || one_of(&team, "of-windows").await).await?;
    ensure!(placed["spec"]["os"]["name"] == "windows", "{placed}");
    ensure!(ends(keeper_admin).await?.0 > pair, "the pair is the one before");
    let (status, text) = admin_get(admin, "/readyz").await?;
    ensure!(status == 200, "{status} {text}");
    // The webhook itself responds, at both endpoints.
    wait_until_mullion_is_called(&team).await?;

    registration.remove(&plane.client()).await?;
    for process in [after, keeper] {
        let (ended, log) = process.stop().await?;
        ensure!(ended.success(), "{ended} {log}");
    }
    for (namespace, kind, name) in [(&system, "Deployment", "coredns"), (&home, "Deployment", "mullion-webhook")] {
        delete(namespace, kind, name).await?;
    }
    home.delete().await
}

async fn one_of(namespace: &TestNamespace, workload: &str) -> Result<Value> {
    let all = pods(namespace).await?;
    let found = all
        .into_iter()
        .find(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(&format!("{workload}-"))));
    found.with_context(|| format!("no pod of {workload}"))
}
