//! `mullion withdraw` with a real control plane, as a user with the permissions that its documentation lists and no
//! others.
//!
//! Each function changes nodes and RuntimeClasses of the whole cluster: one at a time.

use std::collections::BTreeMap;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mullion_cluster::{ControlPlane, MullionProcess, NodeSpec, free_port, wait_for};
use serde_json::{Value, json};

use crate::rights::{self, Subject};
use crate::shared::{DEADLINE, admin_metric};

const MANY: usize = 300;

/// The output and the exit code of one run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    lines: Vec<Value>,
    talk: String,
}

impl Ran {
    fn of(&self, kind: &str) -> Vec<&Value> {
        self.lines.iter().filter(|line| line["type"] == kind).collect()
    }

    pub(crate) fn summary(&self) -> &Value {
        self.lines.last().unwrap_or(&Value::Null)
    }

    fn fate(&self, class: &str) -> Option<bool> {
        self.of("runtimeClass").iter().find(|line| line["name"] == class).and_then(|line| line["deleted"].as_bool())
    }
}

/// A kubeconfig for a user with the permissions that `mullion withdraw` documents.
async fn kubeconfig(plane: &ControlPlane) -> Result<String> {
    let user = "withdraw-under-test";
    rights::of_withdraw(plane, "default", Subject::User(user)).await?;
    Ok(plane.kubeconfig_for(user, &[])?.to_string_lossy().into_owned())
}

/// Runs `mullion withdraw` with these arguments.
pub(crate) async fn withdraw(kubeconfig: &str, arguments: &[&str]) -> Result<Ran> {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_mullion"))
        .args(["withdraw", "-o", "json", "--kubeconfig", kubeconfig])
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = String::from_utf8(output.stdout)?;
    let lines = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>().with_context(|| lines.clone())?;
    Ok(Ran { code: output.status.code(), lines, talk })
}

/// Runs it for Mullion in namespace `default`.
async fn withdraw_default(kubeconfig: &str, arguments: &[&str]) -> Result<Ran> {
    withdraw(kubeconfig, &[&["--namespace", "default"], arguments].concat()).await
}

/// Everything of every node except its status and the fields that each write changes.
async fn fleet(plane: &ControlPlane) -> Result<BTreeMap<String, Value>> {
    let nodes: Api<Node> = Api::all(plane.client());
    wait_for("the nodes with what the controller manager gives them", DEADLINE, async || {
        let mut fleet = BTreeMap::new();
        for node in nodes.list(&ListParams::default()).await?.items {
            let mut node = serde_json::to_value(node)?;
            ensure!(
                node["metadata"]["annotations"].get("node.alpha.kubernetes.io/ttl").is_some(),
                "{}",
                node["metadata"]
            );
            // The time to live of a kubelet's cache, which the controller manager updates as the cluster grows.
            node["metadata"]["annotations"]
                .as_object_mut()
                .context("no object")?
                .remove("node.alpha.kubernetes.io/ttl");
            for volatile in [("metadata", "managedFields"), ("metadata", "resourceVersion")] {
                node[volatile.0].as_object_mut().context("no object")?.remove(volatile.1);
            }
            node.as_object_mut().context("no object")?.remove("status");
            fleet.insert(node["metadata"]["name"].to_string(), node);
        }
        anyhow::Ok(fleet)
    })
    .await
}

fn is_labelled(node: &Value) -> bool {
    node["metadata"]["labels"].get("mullion.dev/windows-release").is_some()
}

fn differences(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<String> {
    let all = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    all.filter(|name| before.get(*name) != after.get(*name))
        .map(|name| format!("{:?} is now {:?}", before.get(name), after.get(name)))
        .collect()
}

async fn controller(plane: &ControlPlane) -> Result<(MullionProcess, u16)> {
    let port = free_port()?;
    let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(["controller", "--kubeconfig", &plane.kubeconfig().to_string_lossy()])
        .args(["--admin-bind", &format!("127.0.0.1:{port}")])
        .admin(([127, 0, 0, 1], port).into())
        .start()
        .await?;
    Ok((process, port))
}

async fn wait_for_labels(plane: &ControlPlane, count: usize) -> Result<()> {
    wait_for(&format!("{count} labelled and tainted nodes"), DEADLINE, async || {
        let nodes = fleet(plane).await?;
        let taint = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
        let done = nodes.values().filter(|node| is_labelled(node)).filter(|node| {
            let taints = node["spec"]["taints"].as_array();
            taints.is_some_and(|taints| taints.contains(&taint) || taints.iter().any(|taint| taint["key"] == "sku"))
        });
        let done = done.count();
        if done == count { Ok(()) } else { bail!("{done}") }
    })
    .await
}

/// With a running controller, every node is restored, twice; nothing is added again until the withdrawal is undone.
pub(crate) async fn nodes_are_left_as_they_were_found(plane: &ControlPlane) -> Result<()> {
    let build = "node.kubernetes.io/windows-build";
    let mut specs = vec![
        NodeSpec::linux("dlinux").taint("os=linux:NoSchedule"),
        NodeSpec::windows("dplain", "10.0.20348.2655").label("team", "a").annotation("example.com/note", "theirs"),
        NodeSpec::windows("dbare", "10.0.17763.6293").without_label(build).without_label("beta.kubernetes.io/os"),
        NodeSpec::windows("dtaints", "10.0.26100.1")
            .taint("z=1:NoSchedule")
            .taint("a:NoExecute")
            .taint("z=1:NoExecute"),
        NodeSpec::windows("dmarked", "10.0.20348.1").taint("sku=Windows:NoSchedule"),
        NodeSpec::windows("dvirtual", "10.0.20348.1").label("type", "virtual-kubelet"),
    ];
    specs.extend((0..MANY).map(|n| NodeSpec::windows(&format!("dmany-{n:03}"), "10.0.20348.2655")));
    plane.create_nodes(&specs).await?;
    let mut before = fleet(plane).await?;
    let rights = kubeconfig(plane).await?;
    let (process, port) = controller(plane).await?;
    wait_for_labels(plane, MANY + 4).await?;

    // A taint that another tool adds after Mullion's.
    let nodes: Api<Node> = Api::all(plane.client());
    let mut taints = serde_json::to_value(nodes.get("dtaints").await?)?["spec"]["taints"].take();
    let late = json!({"key": "late", "value": "x", "effect": "NoSchedule"});
    taints.as_array_mut().context("no taints")?.push(late.clone());
    let patch = json!({"spec": {"taints": taints}});
    nodes.patch("dtaints", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    let theirs = before.get_mut("\"dtaints\"").context("no such node")?;
    theirs["spec"]["taints"].as_array_mut().context("no taints")?.push(late);

    let planned = withdraw_default(&rights, &["--dry-run"]).await?;
    ensure!(planned.code == Some(0) && planned.summary()["cleaned"] == MANY + 4, "{planned:?}");
    ensure!(planned.talk.is_empty(), "it talks of what it did not do: {planned:?}");
    ensure!(fleet(plane).await?.values().filter(|node| is_labelled(node)).count() == MANY + 4, "a dry run wrote");

    for cleaned in [MANY + 4, 0] {
        let ran = withdraw_default(&rights, &[]).await?;
        ensure!(ran.code == Some(0), "{ran:?}");
        ensure!(ran.summary()["cleaned"] == cleaned && ran.summary()["nodes"] == MANY + 6, "{ran:?}");
        ensure!(ran.of("controller").len() == 1, "{ran:?}");
        let differences = differences(&before, &fleet(plane).await?);
        ensure!(differences.is_empty(), "{} nodes differ: {:?}", differences.len(), differences.first());
    }
    let classes: Api<RuntimeClass> = Api::all(plane.client());
    ensure!(classes.list(&ListParams::default()).await?.items.is_empty(), "RuntimeClasses are left");

    // The controller keeps running and does nothing, neither for a new node nor for one that changes.
    wait_for("the controller to say that it is withdrawn", DEADLINE, async || {
        let state = Api::<ConfigMap>::namespaced(plane.client(), "default").get("mullion-state").await?;
        let condition = state.data.and_then(|mut data| data.remove("conditions")).context("no conditions")?;
        let condition: Value = serde_json::from_str(&condition)?;
        // With others, in the order in which they were added.
        let mut all = condition.as_array().into_iter().flatten();
        let stands = all.any(|one| one["type"] == "Withdrawn" && one["status"] == "True");
        if stands { Ok(()) } else { bail!("{condition}") }
    })
    .await?;
    ensure!(admin_metric::<u64>(port, "mullion_withdrawn").await? == 1, "the metric differs");
    let patched = admin_metric::<u64>(port, "mullion_node_patches_total{outcome=\"done\"}").await?;
    plane.create_node(&NodeSpec::windows("dnew", "10.0.20348.2655")).await?;
    plane.kubectl(&["label", "node", "dplain", "team=b", "--overwrite"]).await?;
    let ran = withdraw(&rights, &["--lease-namespace", "default"]).await?;
    ensure!(ran.code == Some(0) && ran.summary()["cleaned"] == 0, "{ran:?}");
    ensure!(ran.of("controller")[0]["controller"] == "stopped", "{ran:?}");
    ensure!(
        admin_metric::<u64>(port, "mullion_node_patches_total{outcome=\"done\"}").await? == patched,
        "it patched on"
    );

    // A controller that takes over now reads first that Mullion is withdrawn.
    process.stop().await?;
    let (process, port) = controller(plane).await?;
    wait_for("the new controller to lead, withdrawn", DEADLINE, async || {
        ensure!(admin_metric::<u64>(port, "mullion_leader").await? == 1, "it does not lead yet");
        ensure!(admin_metric::<u64>(port, "mullion_withdrawn").await? == 1, "it does not know yet");
        anyhow::Ok(())
    })
    .await?;
    ensure!(differences(&before, &fleet(plane).await?).len() == 2, "it is at work");

    let ran = withdraw_default(&rights, &["--undo"]).await?;
    ensure!(ran.code == Some(0) && ran.of("controller")[0]["controller"] == "resumed", "{ran:?}");
    wait_for_labels(plane, MANY + 5).await?;
    ensure!(admin_metric::<u64>(port, "mullion_withdrawn").await? == 0, "the metric differs");
    let ran = withdraw_default(&rights, &[]).await?;
    ensure!(ran.code == Some(0) && ran.summary()["cleaned"] == MANY + 5, "{ran:?}");
    // As `helm uninstall` runs it.
    plane.kubectl(&["delete", "configmap", "mullion-state"]).await?;
    wait_for_labels(plane, MANY + 5).await?;
    let ran = withdraw_default(&rights, &[]).await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    process.stop().await?;
    Ok(())
}

/// Classes of existing pods or templates stay, and the output lists them; third-party classes are not changed.
pub(crate) async fn classes_that_are_named_stay(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace("withdraw").await?;
    let classes: Api<RuntimeClass> = Api::all(plane.client());
    for (name, ours) in
        [("dpod", true), ("dended", true), ("dtemplate", true), ("dcron", true), ("dfree", true), ("dtheirs", false)]
    {
        let labels = if ours { json!({"app.kubernetes.io/managed-by": "mullion"}) } else { json!({}) };
        let class = json!({"metadata": {"name": name, "labels": labels}, "handler": "h"});
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    }
    let pods: Api<Pod> = namespace.api();
    let spec = |class: &str| json!({"runtimeClassName": class, "restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]});
    for (name, class) in [("runs", "dpod"), ("ended", "dended"), ("else", "dtheirs")] {
        let pod = json!({"metadata": {"name": name}, "spec": spec(class)});
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    }
    let ended = json!({"status": {"phase": "Succeeded"}});
    pods.patch_status("ended", &PatchParams::default(), &Patch::Merge(&ended)).await?;
    let labels = json!({"app": "d"});
    let mut always = spec("dtemplate");
    always["restartPolicy"] = json!("Always");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": always}}});
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "night"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": spec("dcron")}}}}});
    plane.kubectl_with_input(&["-n", &namespace.name, "apply", "-f", "-"], &format!("{deployment}\n{cron}")).await?;

    let rights = kubeconfig(plane).await?;
    let everything = [("dpod", false), ("dended", true), ("dtemplate", false), ("dcron", false), ("dfree", true)];
    for arguments in [&["--dry-run"][..], &[]] {
        let ran = withdraw_default(&rights, arguments).await?;
        ensure!(ran.code == Some(0), "{ran:?}");
        for (class, deleted) in everything {
            ensure!(ran.fate(class) == Some(deleted), "{class}: {ran:?}");
            let stands = classes.get_opt(class).await?.is_some();
            ensure!(stands == (!deleted || !arguments.is_empty()), "{class} after {arguments:?}");
        }
        ensure!(ran.fate("dtheirs").is_none() && classes.get_opt("dtheirs").await?.is_some(), "{ran:?}");
        let by = |class: &str| {
            ran.of("runtimeClass").iter().find(|line| line["name"] == class).map(|line| line["namedBy"].to_string())
        };
        ensure!(by("dpod") == Some(format!("[\"Pod {}/runs\"]", namespace.name)), "{ran:?}");
        ensure!(by("dtemplate") == Some(format!("[\"Deployment {}/web\"]", namespace.name)), "{ran:?}");
    }
    // The pod and the template that used them are deleted, and the next run finishes.
    plane.kubectl(&["-n", &namespace.name, "delete", "deployment,cronjob", "--all"]).await?;
    pods.delete("runs", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await?;
    let ran = withdraw_default(&rights, &[]).await?;
    ensure!(ran.code == Some(0) && ran.summary()["classesKept"] == 0, "{ran:?}");
    Ok(())
}

/// A node cannot get a third-party taint removed by recording it as Mullion's; the output contains what stays, and what
/// to do.
pub(crate) async fn a_record_frees_no_node_of_foreign_taints(plane: &ControlPlane) -> Result<()> {
    let owned = |taint: &str| format!("{{\"labels\":{{\"team\":\"a\"}},\"taint\":{taint}}}");
    let vault = owned(r#"{"key":"dedicated","value":"vault","effect":"NoSchedule"}"#);
    let platform = owned(r#"{"key":"example.com/platform","value":"nt","effect":"NoSchedule"}"#);
    let specs = [
        NodeSpec::windows("dforged", "10.0.20348.1")
            .label("team", "a")
            .taint("dedicated=vault:NoSchedule")
            .annotation("mullion.dev/owned", &vault),
        NodeSpec::windows("dcustom", "10.0.20348.1")
            .label("team", "a")
            .taint("example.com/platform=nt:NoSchedule")
            .annotation("mullion.dev/owned", &platform),
        NodeSpec::linux("dlinux")
            .taint("os=windows:NoSchedule")
            .annotation("mullion.dev/owned", &owned(r#"{"key":"os","value":"windows","effect":"NoSchedule"}"#)),
    ];
    plane.create_nodes(&specs).await?;
    let before = fleet(plane).await?;
    let rights = kubeconfig(plane).await?;
    let ran = withdraw_default(&rights, &[]).await?;
    ensure!(ran.code == Some(1), "{ran:?}");
    let left: Vec<String> = ran.of("left").iter().map(ToString::to_string).collect();
    ensure!(
        left.len() == 2
            && left.iter().any(|line| line.contains("node dforged")
                && line.contains("dedicated=vault:NoSchedule")
                && line.contains("kubectl annotate node dforged")),
        "{left:?}"
    );
    ensure!(differences(&before, &fleet(plane).await?).is_empty(), "something was taken off");

    // The policy with the other taint proves that it is Mullion's.
    let policies = tempfile::tempdir()?;
    let policy = "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\n\
        spec: {taint: {key: example.com/platform, value: nt, effect: NoSchedule}}\n";
    std::fs::write(policies.path().join("nodes.yaml"), policy)?;
    let ran = withdraw_default(&rights, &["--policies", &policies.path().to_string_lossy()]).await?;
    ensure!(ran.code == Some(1) && ran.of("left").len() == 1, "{ran:?}");
    let after = fleet(plane).await?;
    let freed = &after["\"dcustom\""];
    ensure!(freed["spec"].get("taints").is_none() && freed["metadata"]["labels"]["team"] == "a", "{freed}");
    ensure!(after["\"dforged\""] == before["\"dforged\""] && after["\"dlinux\""] == before["\"dlinux\""], "{after:?}");
    Ok(())
}

/// A tenant with the cluster role `edit` has a Lease that is held, a state that contains a taint of the administrator, and a
/// Deployment with the labels of the chart; a kubelet records that taint as Mullion's. `withdraw` and `status` use the
/// namespace of the Service that the webhook configurations call; without them, they require it.
pub(crate) async fn a_tenant_is_not_believed(plane: &ControlPlane) -> Result<()> {
    const TAINT: &str = "dedicated=payments:NoSchedule";
    let (own, tenant) = (plane.namespace("own").await?, plane.namespace("tenant").await?);
    let user = ["--as", "tenant", "-n", &*tenant.name];
    plane
        .kubectl(&["create", "rolebinding", "edit", "--clusterrole=edit", "--user=tenant", "-n", &tenant.name])
        .await?;
    let may = [&["auth", "can-i", "create", "leases.coordination.k8s.io"], &user[..]].concat();
    wait_for("the rights of the tenant", DEADLINE, async || plane.kubectl(&may).await.map(drop)).await?;
    let metadata = |name: &str| json!({"name": name, "labels": {"app.kubernetes.io/name": "mullion"}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata("mullion-controller"),
        "spec": {"holderIdentity": "tenant", "leaseDurationSeconds": 3600}});
    let state = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("mullion-state"),
        "data": {"seen-taints": TAINT, "own-taints": TAINT}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("mullion-controller"),
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let objects = format!("{lease}\n{state}\n{deployment}");
    plane.kubectl_with_input(&[&["create", "-f", "-"], &user[..]].concat(), &objects).await?;

    plane.create_nodes(&[NodeSpec::windows("dforger", "10.0.20348.1").taint(TAINT)]).await?;
    let record = json!({"taint": {"key": "dedicated", "value": "payments", "effect": "NoSchedule"}}).to_string();
    let claim = Patch::Merge(json!({"metadata": {"annotations": {"mullion.dev/owned": record}}}));
    let kubelet: Api<Node> = Api::all(plane.client_as("system:node:dforger", &["system:nodes"]).await?);
    kubelet.patch("dforger", &PatchParams::default(), &claim).await.context("a kubelet's annotation")?;
    let before = fleet(plane).await?;

    let service = json!({"name": "mullion-webhook", "namespace": own.name});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "mullion"}, "webhooks": [{"name": "pods.mullion.dev", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"service": service}}]});
    plane.kubectl_with_input(&["create", "-f", "-"], &configuration.to_string()).await?;
    let rights = kubeconfig(plane).await?;
    crate::rights::of_withdraw(plane, &own.name, Subject::User("withdraw-under-test")).await?;
    let status = async || {
        let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_mullion"));
        program.arg("status").arg("--kubeconfig").arg(plane.kubeconfig()).stdin(Stdio::null()).kill_on_drop(true);
        anyhow::Ok(String::from_utf8(program.output().await?.stdout)?)
    };
    let ran = withdraw(&rights, &[]).await?;
    ensure!(ran.of("controller")[0]["namespace"] == *own.name, "{ran:?}");
    ensure!(ran.of("controller")[0]["controller"] == "neverWorked", "{ran:?}");
    ensure!(ran.code == Some(1) && ran.of("left").len() == 1 && ran.of("left")[0]["what"] == "node dforger", "{ran:?}");
    ensure!(differences(&before, &fleet(plane).await?).is_empty(), "something was taken off");
    let shown = status().await?;
    ensure!(shown.contains(&format!(", namespace {}\n", own.name)) && !shown.contains("scaled to 0"), "{shown}");

    // As in an emergency: the configurations are deleted first.
    plane.kubectl(&["delete", "mutatingwebhookconfiguration", "mullion"]).await?;
    let ran = withdraw(&rights, &[]).await?;
    ensure!(ran.code == Some(2) && ran.talk.contains("--namespace") && ran.lines.is_empty(), "{ran:?}");
    let ran = withdraw(&rights, &["--namespace", &own.name]).await?;
    ensure!(ran.code == Some(1) && ran.of("left").len() == 1, "{ran:?}");
    ensure!(differences(&before, &fleet(plane).await?).is_empty(), "something was taken off");
    ensure!(status().await?.contains("with --namespace"), "{}", status().await?);
    let theirs = Api::<ConfigMap>::namespaced(plane.client(), &tenant.name).get("mullion-state").await?;
    ensure!(!theirs.data.unwrap_or_default().contains_key("withdrawn"), "the state of a tenant was changed");
    tenant.delete().await?;
    own.delete().await
}
