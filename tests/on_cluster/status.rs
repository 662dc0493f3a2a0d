//! `mullion status` with a controller that is not the chart's, as a user who may only read.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use mullion_cluster::{ConfigMapMount, ControlPlane, FailurePolicy, NodeSpec, wait_for};
use serde_json::{Value, json};

use crate::memory::{as_controller, controller, controllers, start, state};
use crate::shared::{DEADLINE, start_webhook, wait_until_mullion_is_called};

/// A user who runs `mullion status`.
struct Reader {
    kubeconfig: PathBuf,
    /// The value of `--namespace`.
    namespace: Option<String>,
}

impl From<PathBuf> for Reader {
    fn from(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, namespace: None }
    }
}

/// A user with the shipped cluster role, and no other permissions.
async fn reader(plane: &ControlPlane) -> Result<Reader> {
    let role = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/mullion/reader-role.yaml");
    plane.kubectl(&["apply", "-f", role]).await?;
    let binding =
        ["create", "clusterrolebinding", "status-reader", "--clusterrole=mullion-reader", "--user=status-reader"];
    plane.kubectl(&binding).await?;
    plane.kubeconfig_for("status-reader", &[]).map(Reader::from)
}

/// `mullion status <arguments>`.
async fn run(Reader { kubeconfig, namespace }: &Reader, arguments: &[&str]) -> Result<Output> {
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_mullion"));
    program.arg("status").args(arguments).arg("--kubeconfig").arg(kubeconfig).stdin(Stdio::null()).kill_on_drop(true);
    program.args(namespace.iter().flat_map(|namespace| ["--namespace", namespace]));
    program.output().await.context("run mullion status")
}

/// The check of that name, and the exit code.
async fn check(reader: &Reader, name: &str) -> Result<(Value, Option<i32>)> {
    let done = run(reader, &["-o", "json"]).await?;
    let report: Value = serde_json::from_slice(&done.stdout).with_context(|| format!("{done:?}"))?;
    ensure!(report["schema"] == "mullion.dev/status/v1", "{report}");
    let found = report["checks"].as_array().and_then(|all| all.iter().find(|check| check["name"] == name)).cloned();
    Ok((found.with_context(|| format!("no {name}: {report}"))?, done.status.code()))
}

/// Waits until the check has that result, and a text that contains `part`.
async fn wait_for_check(reader: &Reader, name: &str, result: &str, part: &str) -> Result<Value> {
    wait_for(&format!("{name} {result}: {part}"), DEADLINE, async || {
        let (check, code) = check(reader, name).await?;
        ensure!(check["result"] == result && check.to_string().contains(part), "{check}");
        // Without the chart's Deployments, something is never known.
        ensure!(code == Some(1), "exit code {code:?}");
        Ok(check)
    })
    .await
}

const PLAIN: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec: {priority: 7}\n";

/// An exemption of a namespace.
fn exemption(name: &str, until: &str) -> String {
    format!(
        "---\napiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec:\n  priority: 8\n  \
         until: {until}\n  match: {{namespaces: {{include: [{name}]}}}}\n  rules: {{denials: Warn}}\n"
    )
}

/// From a cluster without Mullion to one in which much is wrong: each fault is shown, by its name.
#[allow(clippy::too_many_lines, reason = "one story")]
pub async fn faults_are_shown_with_their_names(plane: &ControlPlane) -> Result<()> {
    let mut reader = reader(plane).await?;
    wait_for("the reader to find nothing", DEADLINE, async || {
        let (check, code) = check(&reader, "installed").await?;
        ensure!(
            check["message"] == "Mullion is not installed in this cluster, or its webhook configurations were deleted"
                && code == Some(1),
            "{check}"
        );
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let nobody = plane.kubeconfig_for("nobody-at-all", &[])?.into();
    let (denied, _) = check(&nobody, "installed").await?;
    ensure!(denied["result"] == "unknown" && denied["message"].to_string().contains("forbidden"), "{denied}");

    let own = plane.namespace("mullion").await?;
    let hostile = plane.namespace("tenant").await?;
    // There are no webhook configurations.
    reader.namespace = Some(own.name.clone());
    plane.create_node(&NodeSpec::windows("w1", "10.0.20348.2655")).await?;
    // For Windows nodes, and without a toleration: the taint waits.
    let daemon = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": hostile.name},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}},
            "spec": {"nodeSelector": {"kubernetes.io/os": "windows"},
                "containers": [{"name": "c", "image": "registry.example.com/agent:1"}]}}}});
    plane.kubectl_with_input(&["create", "-f", "-"], &daemon.to_string()).await?;
    let soon = (Timestamp::now() + SignedDuration::from_hours(48)).strftime("%Y-%m-%d").to_string();
    let good = format!("{PLAIN}{}{}", exemption("past", "2020-01-31"), exemption("soon", &soon));
    let mut mount = ConfigMapMount::new(&[("mine.yaml", good.as_str())])?;
    let running = controller(&controllers(plane, &own).await?, &own, mount.path()).await?;

    // What the controller reports.
    wait_for_check(&reader, "controller-report", "good", "reported").await?;
    wait_for_check(&reader, "leader", "good", "leads").await?;
    wait_for_check(&reader, "policies-loaded", "good", "3 policies of 1 file are in force, hash ").await?;
    wait_for_check(&reader, "certificates", "good", "keeps no certificates").await?;
    let exemptions = wait_for_check(&reader, "exemptions", "notice", "1 ended, 1 in the next 30 days").await?;
    let items = exemptions["items"].to_string();
    ensure!(items.contains("PodPolicy past (") && items.contains("has no effect (until 2020-01-31)"), "{items}");
    ensure!(items.contains("PodPolicy soon (") && items.contains("ends in "), "{items}");
    // What was never there.
    wait_for_check(&reader, "webhook-running", "unknown", "there is no Deployment").await?;
    wait_for_check(&reader, "mutating-registered", "bad", "there is no MutatingWebhookConfiguration").await?;
    wait_for_check(&reader, "webhook-reached", "bad", "not registered").await?;

    wait_for_check(&reader, "nodes-labelled", "good", "1 Windows node with label").await?;
    wait_for_check(&reader, "nodes-tainted", "notice", "without taint os=windows:NoSchedule, which waits").await?;
    wait_for_check(&reader, "taint-waits", "bad", &format!("DaemonSet {}/agent: 1 node", hostile.name)).await?;

    // A pod with findings, and an Event that would control a terminal.
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": hostile.name,
        "labels": {"mullion.dev/findings": "MUL201.MUL302"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}});
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": hostile.name},
        "eventTime": format!("{:.6}", Timestamp::now()), "type": "Warning", "reason": "WriteDenied", "action": "A",
        "reportingController": "mullion.dev/mullion-controller", "reportingInstance": "x", "note": "a\u{1b}[2Jb",
        "regarding": {"kind": "Pod", "name": "p", "namespace": hostile.name, "apiVersion": "v1"}});
    plane.kubectl_with_input(&["create", "-f", "-"], &format!("{pod}\n{event}")).await?;
    let namespace = format!("namespace {}: 1 pod with MUL201, MUL302", hostile.name);
    wait_for_check(&reader, "findings", "bad", &namespace).await?;
    wait_for_check(&reader, "events", "bad", &format!("Pod {}/p: WriteDenied", hostile.name)).await?;

    // A bad file: the problem, and what is in force.
    mount.publish(&[("mine.yaml", PLAIN.replace("priority", "priorty").as_str())])?;
    let bad = wait_for_check(&reader, "policies-loaded", "bad", "mine.yaml:4:").await?;
    ensure!(bad["message"].to_string().contains("until they are valid, 3 policies of 1 file are in force"), "{bad}");

    // The text contains the same as JSON, and no escape sequence.
    let text = String::from_utf8(run(&reader, &[]).await?.stdout)?;
    ensure!(!text.contains('\u{1b}') && text.starts_with("context ") && text.contains(&own.name), "{text}");
    let json: Value = serde_json::from_slice(&run(&reader, &["-o", "json"]).await?.stdout)?;
    for check in json["checks"].as_array().context("checks")? {
        let message = check["message"].as_str().context("a message")?;
        // Ages differ between the two runs.
        let start: String = message.chars().take_while(|c| !c.is_ascii_digit()).collect();
        ensure!(text.contains(&start), "no {start:?}: {text}");
        for item in check["items"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            ensure!(item.contains(" ago") || item.contains(" in ") || text.contains(item), "no {item:?}: {text}");
        }
    }

    // `--wait` waits for what Mullion can resolve itself, and the wait ends.
    let waited = run(&reader, &["--wait", "--timeout", "3s"]).await?;
    let message = String::from_utf8(waited.stderr)?;
    ensure!(waited.status.code() == Some(1) && message.contains("mullion: not done within 3 s"), "{message}");
    ensure!(message.contains("waiting for controller-running, ") && !message.contains("taint-waits"), "{message}");

    // Without a leader, and without its report.
    running.process.kill()?;
    plane.kubectl(&["delete", "lease", "mullion-controller", "-n", &own.name]).await?;
    wait_for_check(&reader, "leader", "bad", "no controller leads").await?;
    let old = state(&own, "a report", |data| data["controller-report"].is_string()).await?;
    let mut old: Value = serde_json::from_str(old["controller-report"].as_str().context("a report")?)?;
    old["written"] = json!("2026-01-01T00:00:00Z");
    for report in [json!(old.to_string()), json!("{"), Value::Null] {
        let patch = json!({"data": {"controller-report": report}}).to_string();
        plane.kubectl(&["patch", "configmap", "mullion-state", "-n", &own.name, "--type=merge", "-p", &patch]).await?;
        for name in ["controller-report", "policies-loaded", "certificates", "nodes", "missed-pods", "webhook-reached"]
        {
            wait_for_check(&reader, name, "unknown", "not known: the controller").await?;
        }
    }
    let patch = json!({"data": {"withdrawn": "2026-01-01T00:00:00Z"}}).to_string();
    plane.kubectl(&["patch", "configmap", "mullion-state", "-n", &own.name, "--type=merge", "-p", &patch]).await?;
    wait_for_check(&reader, "withdrawn", "bad", "withdrawn since 2026-01-01T00:00:00Z").await?;
    Ok(())
}

/// The lines that rest on webhook configurations that were deleted, and on the report of a controller that was stopped.
pub async fn evidence_that_is_gone_is_not_known(plane: &ControlPlane) -> Result<()> {
    let mut reader = reader(plane).await?;
    let own = plane.namespace("mullion").await?;
    reader.namespace = Some(own.name.clone());
    let (webhook, registration) = start_webhook(plane).await?;
    let registration = registration.failure_policy(FailurePolicy::Ignore);
    registration.register(&plane.client()).await?;
    wait_until_mullion_is_called(&own).await?;
    let mount = ConfigMapMount::new(&[("mine.yaml", PLAIN)])?;
    let mut arguments = as_controller(&controllers(plane, &own).await?, &own, mount.path());
    // The first probe is the only one: the next one would find out that the configurations are gone.
    arguments.extend(["--probe-interval", "3600"].map(str::to_owned));
    let controller = start(&arguments).await?;
    wait_for_check(&reader, "webhook-reached", "good", "the API server reaches the webhook; probed").await?;

    registration.remove(&plane.client()).await?;
    let (reached, _) = check(&reader, "webhook-reached").await?;
    ensure!(
        reached["result"] == "unknown"
            && reached["message"].to_string().contains("not known: there is no MutatingWebhookConfiguration mullion"),
        "{reached}"
    );
    wait_for_check(&reader, "mutating-registered", "bad", "there is no MutatingWebhookConfiguration").await?;

    // The last report is a minute old at most, and nobody corrects it.
    let reported =
        ["controller-report", "policies-loaded", "exemptions", "certificates", "nodes-labelled", "missed-pods"];
    for name in reported {
        wait_for_check(&reader, name, "good", "").await?;
    }
    let (ended, _) = controller.process.stop().await?;
    ensure!(ended.success(), "{ended}");
    for name in reported {
        wait_for_check(&reader, name, "unknown", "not known: ").await?;
    }
    wait_for_check(&reader, "leader", "bad", "no controller leads").await?;
    webhook.stop().await?;
    Ok(())
}
