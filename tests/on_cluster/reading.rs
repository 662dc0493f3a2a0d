//! Commands that read the live cluster: as an administrator, with the shipped cluster role, and with fewer permissions.

use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{ControlPlane, NodeSpec, Release, TestNamespace, wait_for};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::shared::*;

const WINDOWS: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

/// The output of a command, and its exit code.
pub struct Ran {
    pub out: String,
    pub err: String,
    pub code: Option<i32>,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { out: text(&output.stdout), err: text(&output.stderr), code: output.status.code() }
    }
}

/// The program with the kubeconfig in its environment, as users have it.
pub async fn mullion(kubeconfig: &Path, words: &[&str]) -> Result<Ran> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mullion"));
    Ok(command.args(words).env("KUBECONFIG", kubeconfig).output().await?.into())
}

/// A namespace in which Mullion's webhook was not called yet, with a Deployment that cannot run on Windows, a StatefulSet
/// that can, and a Linux pod without owner.
async fn unplaced(shared: &Shared) -> Result<TestNamespace> {
    let namespace = shared.plane.namespace("reading").await?;
    let mut bad = workload("Deployment", "bad", WINDOWS);
    bad["spec"]["replicas"] = json!(3);
    bad["spec"]["template"]["spec"]["securityContext"] = json!({"runAsUser": 1000});
    create(&namespace, &bad).await?;
    let mut good = workload("StatefulSet", "good", WINDOWS);
    good["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/os": "windows"});
    good["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "os", "operator": "Exists"}]);
    create(&namespace, &good).await?;
    create(
        &namespace,
        &pod(
            "own",
            json!({"containers": [{"name": "c", "image": "redis:7"}], "nodeSelector": {"kubernetes.io/os": "linux"}}),
        ),
    )
    .await?;
    wait_for("five pods", DEADLINE, async || {
        let found = pods(&namespace).await?.len();
        ensure!(found == 5, "{found} pods");
        Ok(())
    })
    .await?;
    let (key, value) = LABEL;
    shared.plane.kubectl(&["label", "namespace", &namespace.name, &format!("{key}={value}")]).await?;
    Ok(namespace)
}

/// The kubeconfig of an account with these permissions in the namespaces, or everywhere.
async fn account(shared: &Shared, namespace: &str, name: &str, bindings: &[&[&str]]) -> Result<PathBuf> {
    shared.plane.kubectl(&["create", "serviceaccount", name, "--namespace", namespace]).await?;
    let subject = format!("--serviceaccount={namespace}:{name}");
    for binding in bindings {
        let words: Vec<&str> = ["create"].iter().chain(*binding).chain([&subject.as_str()]).copied().collect();
        shared.plane.kubectl(&words).await?;
    }
    shared.plane.kubeconfig_for_service_account(namespace, name).await
}

pub async fn commands_read_what_is_there(shared: &Shared) -> Result<()> {
    let namespace = unplaced(shared).await?;
    let (name, admin) = (namespace.name.as_str(), shared.plane.kubeconfig());

    // Objects with their owner: three pods and a ReplicaSet of the Deployment, one of the StatefulSet.
    let context = shared.plane.kubectl(&["config", "current-context"]).await?;
    let context = context.trim();
    let ran = mullion(admin, &["check", "--context", context, "-n", name]).await?;
    let first = format!(
        "mullion: context {context}, namespace {name}; policies of the cluster not known: the namespace of Mullion is not \
         known, because the webhook configurations mullion call no Service; the built-in ones are used\n"
    );
    ensure!(ran.err.starts_with(&first), "{}", ran.err);
    ensure!(ran.err.contains("3 workloads, 1 finding (1 denied)"), "{}{}", ran.err, ran.out);
    let place = format!("--> {name}/deployment/bad:");
    ensure!(ran.out.contains("error[MUL201]: run-as-user") && ran.out.contains(&place), "{}", ran.out);
    ensure!(ran.out.contains("runAsUser: 1000") && ran.code == Some(1), "{:?} {}", ran.code, ran.out);

    // Everywhere, as JSON: the same three, and others of other trials.
    let ran = mullion(admin, &["check", "-A", "-o", "json"]).await?;
    let records: Vec<Value> = ran.out.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let here = records.iter().filter(|record| record["type"] == "workload" && record["object"]["namespace"] == name);
    let mut names: Vec<&str> = here.filter_map(|record| record["object"]["name"].as_str()).collect();
    names.sort_unstable();
    ensure!(names == ["bad", "good", "own"], "{names:?}");
    let selected = mullion(admin, &["check", "--context", context, "-n", name, "-l", "app=good"]).await?;
    ensure!(selected.err.contains("1 workload, 0 findings") && selected.code == Some(0), "{}", selected.err);

    let deployment = mullion(admin, &["explain", "deploy/bad", "-n", name]).await?;
    ensure!(
        deployment.out.starts_with(&format!("Deployment {name}/bad ({name}/deployment/bad:1)\n")),
        "{}",
        deployment.out
    );
    // The nodes are those of the cluster.
    ensure!(deployment.out.contains("may be scheduled on: win2022, win2025"), "{}", deployment.out);

    // One pod, and what the cluster did with it.
    bound_pod(&namespace, "good-0").await?;
    let ran = mullion(admin, &["explain", "pod/good-0", "-n", name]).await?;
    ensure!(ran.out.contains(", on node win") && ran.out.contains("os: windows"), "{}", ran.out);
    let nowhere = json!({"containers": [{"name": "c", "image": "redis:7"}], "nodeSelector": {"no": "node"}});
    create(&namespace, &pod("stuck", nowhere)).await?;
    wait_for("the scheduler's message", DEADLINE, async || {
        let ran = mullion(admin, &["explain", "po/stuck", "-n", name]).await?;
        ensure!(ran.out.contains("  status: Pending, not scheduled: Unschedulable: 0/5 nodes"), "{}", ran.out);
        Ok(())
    })
    .await?;
    let absent = mullion(admin, &["explain", "deploy/absent", "-n", name]).await?;
    let message = format!("mullion: {name}/deployment/absent: not found in context {context}");
    ensure!(absent.err.contains(&message) && absent.code == Some(2), "{}", absent.err);
    let nowhere = mullion(admin, &["check", "--context", context, "-n", "no-such-namespace"]).await?;
    ensure!(
        nowhere.err.contains("there is no namespace no-such-namespace") && nowhere.code == Some(2),
        "{}",
        nowhere.err
    );

    // The live object with the changes, and files with the nodes of the cluster.
    let diff = mullion(admin, &["mutate", "--diff", "--templates", "sts/good", "-n", name]).await?;
    ensure!(diff.out.contains("--- ") && diff.out.contains("+      os:"), "{}{}", diff.out, diff.err);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("pod.yaml");
    std::fs::write(&file, pod("p", json!({"containers": [{"name": "c", "image": WINDOWS}]})).to_string())?;
    let file = file.to_string_lossy();
    let ran = mullion(admin, &["explain", &file, "--context", context, "-n", name]).await?;
    ensure!(ran.out.contains("may be scheduled on: win2022, win2025"), "{}", ran.out);

    // Policies.
    let new = folder.path().join("policies.yaml");
    let text = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: default}\nspec: {rules: {actions: [{rule: run-as-user, action: Warn}]}}\n";
    std::fs::write(&new, text)?;
    let new = new.to_string_lossy();
    let ran = mullion(admin, &["policy", "diff", "built-in", &new, "-A"]).await?;
    ensure!(ran.out.contains(&format!("Deployment {name}/bad ({name}/deployment/bad:1)")), "{}{}", ran.out, ran.err);
    ensure!(
        ran.err.contains("more pods, ReplicaSets and Jobs are reviewed with the templates") && ran.code == Some(1),
        "{}",
        ran.err
    );
    Ok(())
}

/// Waits until a pod has a node.
async fn bound_pod(namespace: &TestNamespace, name: &str) -> Result<()> {
    wait_for(&format!("pod {name} to be bound"), DEADLINE, async || {
        let pod = get(namespace, "Pod", name).await?;
        ensure!(pod["spec"]["nodeName"].is_string(), "{}", pod["status"]);
        Ok(())
    })
    .await
}

/// What Mullion and the API server set causes neither changes nor findings.
pub async fn placed_objects_are_reported_without_changes(shared: &Shared) -> Result<()> {
    let namespace = shared.namespace("placed").await?;
    create(&namespace, &workload("Deployment", "web", WINDOWS)).await?;
    create(&namespace, &workload("DaemonSet", "agent", WINDOWS)).await?;
    create(
        &namespace,
        &pod(
            "alone",
            json!({"containers": [{"name": "c", "image": WINDOWS,
        "resources": {"limits": {"memory": "512Mi"}}, "securityContext": {"procMount": "Default"}}]}),
        ),
    )
    .await?;
    let name = namespace.name.as_str();
    bound_pod(&namespace, "alone").await?;
    let ran = mullion(shared.plane.kubeconfig(), &["explain", "pod/alone", "ds/agent", "-n", name]).await?;
    ensure!(ran.out.contains("when it was created: windows, because"), "{}", ran.out);
    ensure!(ran.out.contains("\n  changes: none\n") && ran.code == Some(0), "{}{}", ran.out, ran.err);
    let ran = mullion(shared.plane.kubeconfig(), &["mutate", "--diff", "pod/alone", "ds/agent", "-n", name]).await?;
    ensure!(ran.out.is_empty() && ran.code == Some(0), "{}{}", ran.out, ran.err);
    let context = shared.plane.kubectl(&["config", "current-context"]).await?;
    let of_namespace = ["check", "--context", context.trim(), "-n", name, "-o", "json"];
    let ran = mullion(shared.plane.kubeconfig(), &of_namespace).await?;
    // The nodes on which a DaemonSet is missing are a finding about its manifest.
    let findings =
        ran.out.lines().filter(|line| line.contains("\"type\":\"finding\"") && !line.contains("nodes-left-out"));
    let findings: Vec<&str> = findings.collect();
    ensure!(findings.is_empty() && ran.err.contains("3 workloads, 1 finding "), "{findings:?} {}", ran.err);
    Ok(())
}

/// The shipped cluster role is enough for every kind, and grants no access to Secrets.
pub async fn the_shipped_role_is_enough(shared: &Shared) -> Result<()> {
    let namespace = unplaced(shared).await?;
    let name = namespace.name.as_str();
    let role = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/mullion/reader-role.yaml");
    shared.plane.kubectl(&["apply", "-f", role]).await?;
    let binding = format!("reader-of-{name}");
    let kubeconfig =
        account(shared, name, "reader", &[&["clusterrolebinding", &binding, "--clusterrole=mullion-reader"]]).await?;
    // The authorizer receives the binding through a watch.
    wait_for("a read with the shipped role", DEADLINE, async || {
        let ran = mullion(&kubeconfig, &["check", "-A"]).await?;
        ensure!(!ran.err.contains("forbidden") && ran.err.contains("workloads, "), "{}", ran.err);
        ensure!(matches!(ran.code, Some(0 | 1)), "{:?} {}", ran.code, ran.err);
        Ok(())
    })
    .await?;
    let user = format!("--as=system:serviceaccount:{name}:reader");
    let secrets = shared.plane.kubectl(&["auth", "can-i", "get", "secrets", "-A", &user]).await;
    ensure!(secrets.is_err(), "{secrets:?}");
    Ok(())
}

/// With permissions in one namespace, and only for some kinds.
pub async fn fewer_rights_are_reported_first(shared: &Shared) -> Result<()> {
    let namespace = unplaced(shared).await?;
    let name = namespace.name.as_str();
    let some = ["role", "some", "--verb=get,list", "--resource=pods,deployments.apps", "--namespace", name];
    shared.plane.kubectl(&[&["create"], &some[..]].concat()).await?;
    let bind: &[&str] = &["rolebinding", "some", "--role=some", "--namespace", name];
    let kubeconfig = account(shared, name, "some", &[bind]).await?;
    let context =
        shared.plane.kubectl(&["config", "current-context", "--kubeconfig", &kubeconfig.to_string_lossy()]).await?;
    let context = context.trim();
    let ran = wait_for("the rights of the account", DEADLINE, async || {
        let ran = mullion(&kubeconfig, &["check", "--context", context, "-n", name]).await?;
        ensure!(!ran.err.contains("\nmullion: deployments: forbidden"), "{}", ran.err);
        Ok(ran)
    })
    .await?;
    ensure!(ran.err.contains("mullion: nodes not read: forbidden: nodes is forbidden: User"), "{}", ran.err);
    for kind in ["statefulsets", "daemonsets", "cronjobs", "replicasets", "jobs", "replicationcontrollers"] {
        ensure!(
            ran.err.contains(&format!("mullion: {kind}: forbidden: {kind}."))
                || ran.err.contains(&format!("mullion: {kind}: forbidden: {kind} is")),
            "{kind}: {}",
            ran.err
        );
    }
    // The Deployment, one pod for the StatefulSet that could not be read, and the pod without an owner.
    ensure!(ran.err.contains("3 workloads, 1 finding (1 denied)"), "{}", ran.err);
    ensure!(ran.out.contains("run-as-user") && ran.code == Some(2), "{:?} {}", ran.code, ran.out);
    let json = mullion(&kubeconfig, &["check", "--context", context, "-n", name, "-o", "json"]).await?;
    let first: Value = serde_json::from_str(json.out.lines().next().context("a record")?)?;
    ensure!(first["type"] == "unread" && first["input"] == "statefulsets", "{first}");

    // A survey of the namespace has what may be read, and its coverage what was not.
    let survey = mullion(&kubeconfig, &["survey", "-n", name, "-o", "json"]).await?;
    let first = format!("mullion: context {context}, namespace {name}; policies of the cluster not known: forbidden: ");
    ensure!(survey.err.starts_with(&first), "{}", survey.err);
    let report: Value = serde_json::from_str(&survey.out).with_context(|| survey.err.clone())?;
    let unread = report["coverage"]["unread"].as_array().context("no coverage")?;
    let is_unread = |kind: &str, namespace: Value, reason: &str| {
        unread.iter().any(|one| {
            one["kind"] == kind && one["namespace"] == namespace && one["reason"].to_string().contains(reason)
        })
    };
    ensure!(is_unread("nodes", Value::Null, "forbidden"), "{unread:?}");
    ensure!(is_unread("policies in force", Value::Null, "forbidden"), "{unread:?}");
    ensure!(is_unread("statefulsets", json!(name), "forbidden"), "{unread:?}");
    ensure!(is_unread("other namespaces", Value::Null, &format!("-n selects {name}")), "{unread:?}");
    ensure!(!unread.iter().any(|one| one["kind"] == "pods" || one["kind"] == "deployments"), "{unread:?}");
    let workloads = report["workloads"].as_array().context("no workloads")?;
    let found: Vec<(&Value, &Value)> = workloads.iter().map(|one| (&one["namespace"], &one["name"])).collect();
    ensure!(found.iter().all(|(namespace, _)| *namespace == name) && found.len() == 3, "{found:?}");
    let selected = mullion(&kubeconfig, &["survey", "-n", name, "-l", "app=bad", "-o", "csv"]).await?;
    ensure!(selected.out.contains("bad") && !selected.out.contains("good"), "{}{}", selected.out, selected.err);
    let absent = mullion(shared.plane.kubeconfig(), &["survey", "-n", name, "-n", "no-such-namespace"]).await?;
    ensure!(absent.err.contains("there is no namespace no-such-namespace") && absent.code == Some(2), "{}", absent.err);

    let everywhere = mullion(&kubeconfig, &["check", "-A"]).await?;
    ensure!(everywhere.err.contains("mullion: pods: forbidden: pods is forbidden"), "{}", everywhere.err);
    ensure!(everywhere.err.contains("write --context NAME -n NAMESPACE instead of -A"), "{}", everywhere.err);
    ensure!(everywhere.code == Some(2) && everywhere.err.contains("0 workloads"), "{}", everywhere.err);
    // Another user without permissions.
    let other = mullion(shared.plane.kubeconfig(), &["check", "-A", "--as", "nobody"]).await?;
    ensure!(other.err.contains("User \"nobody\" cannot list resource \"pods\""), "{}", other.err);
    Ok(())
}

/// Nodes that do not declare a feature that a pod needs are named as the scheduler treats them, with the reason.
pub async fn nodes_without_a_needed_feature_are_named(plane: &ControlPlane) -> Result<()> {
    const FEATURE: &str = "RestartAllContainersOnContainerExits";
    let node = |name: &str| NodeSpec::windows(name, "10.0.20348.2655");
    let nodes = [node("has"), node("other"), node("silent"), node("old").kubelet_version("v1.34.3")];
    plane.create_nodes(&nodes).await?;
    let namespace = plane.namespace("features").await?;
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}]);
    let container = json!({"name": "c", "image": WINDOWS, "restartPolicy": "Never", "restartPolicyRules": rules});
    let object = pod("web", json!({"containers": [container], "nodeSelector": {"kubernetes.io/os": "windows"}}));
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("pod.yaml");
    std::fs::write(&file, object.to_string())?;
    let file = file.to_string_lossy();
    let context = plane.kubectl(&["config", "current-context"]).await?;
    let explain = async || {
        mullion(plane.kubeconfig(), &["explain", &file, "--context", context.trim(), "-n", &namespace.name]).await
    };
    let explained = async |lines: &[&str]| -> Result<()> {
        let ran = explain().await?;
        let found = |line: &&&str| ran.out.lines().any(|found| found.trim() == **line);
        let missing: Vec<&&str> = lines.iter().filter(|line| !found(line)).collect();
        ensure!(missing.is_empty(), "{missing:?} in {}{}", ran.out, ran.err);
        Ok(())
    };
    if Release::under_test()? < Release::v1(36) {
        return explained(&["may be scheduled on: has, old, other, silent"]).await;
    }
    let lacks = format!(
        "the node does not declare {FEATURE}, which the scheduler requires for restartPolicyRules with the action RestartAllContainers"
    );
    let unknown = format!(
        "whether the scheduler requires {FEATURE}, for restartPolicyRules with the action RestartAllContainers, and the node declares it, is not known"
    );
    // Without a node that declares a feature, the gate of the kubelets may be off.
    explained(&[
        "may be scheduled on: no node",
        &format!("not on old: {lacks}"),
        &format!("not known for has, other, silent: {unknown}"),
    ])
    .await?;
    for (name, feature) in [("has", FEATURE), ("other", "GuaranteedQoSPodCPUResize")] {
        let status = json!({"status": {"declaredFeatures": [feature]}}).to_string();
        plane.kubectl(&["patch", "node", name, "--subresource=status", "--type=merge", "-p", &status]).await?;
    }
    explained(&["may be scheduled on: has", "can run on: has", &format!("not on old, other, silent: {lacks}")]).await?;

    // The scheduler does the same.
    create(&namespace, &object).await?;
    bound_pod(&namespace, "web").await?;
    ensure!(get(&namespace, "Pod", "web").await?["spec"]["nodeName"] == "has", "the pod is on another node");
    plane.kubectl(&["delete", "node", "has"]).await?;
    let waiting = pod("waiting", object["spec"].clone());
    create(&namespace, &waiting).await?;
    wait_for("the scheduler's message", DEADLINE, async || {
        let ran = mullion(plane.kubeconfig(), &["explain", "pod/waiting", "-n", &namespace.name]).await?;
        let reason = "3 node(s) didn't match Pod's required features";
        ensure!(
            ran.out.contains(reason) && ran.out.contains(&format!("not on old, other, silent: {lacks}")),
            "{}",
            ran.out
        );
        Ok(())
    })
    .await
}
