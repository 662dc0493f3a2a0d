//! Policy files that an admin edits: the effect on pods, and where it is reported.
//!
//! Not at the same time as other trials that run Mullion over the whole cluster: see `memory`.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use mullion_cluster::{ConfigMapMount, ControlPlane, TestNamespace, wait_for};
use serde_json::{Value, json};

use crate::memory::{
    Running, as_controller, as_webhook, controller, controllers, failed_start, registration_gone, state, webhook,
    webhooks, windows_pod,
};
use crate::shared::{DEADLINE, dry_run};

/// A policy that adds a toleration of that key to every Windows pod.
fn marks(key: &str) -> String {
    format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: mine}}\nspec:\n  priority: 7\n  place:\n    \
         tolerations: {{add: [{{key: {key}, operator: Exists}}]}}\n"
    )
}

/// Waits until Windows pods get the toleration of that key, and no other.
async fn marked(namespace: &TestNamespace, what: &str, key: &str) -> Result<()> {
    wait_for(what, DEADLINE, async || {
        let pod = dry_run(namespace, &windows_pod("windows")).await?;
        let tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        let keys: Vec<&str> = tolerations.iter().filter_map(|one| one["key"].as_str()).collect();
        let ours: Vec<&str> = keys.into_iter().filter(|key| key.starts_with("of-")).collect();
        if ours == [key] { Ok(()) } else { bail!("{ours:?}, not {key}") }
    })
    .await
}

/// Waits until `/policies` has the expected content.
async fn shown(program: &Running, what: &str, expected: impl Fn(&Value) -> bool) -> Result<Value> {
    wait_for(what, DEADLINE, async || {
        let shown = program.policies().await?;
        if expected(&shown) { Ok(shown) } else { bail!("{shown}") }
    })
    .await
}

/// Waits until the condition of the policies has that status, and returns its message.
async fn condition(own: &TestNamespace, status: &str, text: &str) -> Result<String> {
    let found = |data: &Value| {
        let all: Value = serde_json::from_str(data["conditions"].as_str()?).ok()?;
        let all = all.as_array()?.clone();
        let one = all.into_iter().find(|one| one["type"] == "PoliciesLoaded" && one["status"] == status)?;
        Some(one["message"].as_str()?.to_owned()).filter(|message| message.contains(text))
    };
    let data = state(own, &format!("PoliciesLoaded {status}: {text}"), |data| found(data).is_some()).await?;
    found(&data).context("it was there")
}

/// Waits for an Event about `mullion-state` in the output of `kubectl get events`.
async fn event(plane: &ControlPlane, own: &TestNamespace, parts: &[&str]) -> Result<String> {
    let arguments = ["get", "events", "-n", &own.name, "--field-selector", "involvedObject.name=mullion-state"];
    wait_for(&format!("an Event with {parts:?}"), DEADLINE, async || {
        let all = plane.kubectl(&arguments).await?;
        let line = all.lines().find(|line| parts.iter().all(|part| line.contains(part)));
        line.map(str::to_owned).with_context(|| all.clone())
    })
    .await
}

/// A webhook that starts with `bad` files and a `mullion-state` that another version of Mullion wrote.
async fn kept_by_another_version(
    plane: &ControlPlane,
    own: &TestNamespace,
    namespace: &TestNamespace,
    kubeconfig: &Path,
    bad: &Path,
) -> Result<()> {
    let kept = |text: &str| json!([{"name": "/old/mine.yaml", "text": text, "size": 7}]).to_string();
    let earlier = kept(&marks("of-old").replace("priority", "precedence"));
    let create = ["create", "configmap", "mullion-state", "-n", &own.name];
    plane.kubectl(&[&create[..], &[&format!("--from-literal=policies={earlier}")]].concat()).await?;
    let log = failed_start(&as_webhook(plane, kubeconfig, own, bad)?.0).await?;
    for part in ["mine.yaml:5:3: ", "do not load in this version", "ConfigMap mullion-state: /old/mine.yaml:5:3: "] {
        ensure!(log.contains(part), "no {part:?}: {log}");
    }
    // The valid files are in force, despite other problems.
    let data = json!({"data": {"policies": kept(&marks("of-old")), "of-another-version": "x"}}).to_string();
    plane.kubectl(&["patch", "configmap", "mullion-state", "-n", &own.name, "--type=merge", "-p", &data]).await?;
    let (old, registration) = webhook(plane, kubeconfig, own, bad).await?;
    registration.only_namespace(namespace).register(&plane.client()).await?;
    marked(namespace, "the policies that another version kept", "of-old").await?;
    old.process.kill()?;
    Ok(())
}

/// With invalid files the last valid set decides about pods, and every status for admins shows the problem, the
/// policies in force, and the end of the problem.
#[allow(clippy::too_many_lines, reason = "one story")]
pub async fn admins_see_the_result_of_their_edit(plane: &ControlPlane) -> Result<()> {
    let own = plane.namespace("mullion").await?;
    let namespace = plane.namespace("edited").await?;
    let kubeconfigs = (controllers(plane, &own).await?, webhooks(plane, &own, true).await?);
    let (good, other) =
        (marks("of-one"), "apiVersion: mullion.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: nodes}\nspec: {}\n");
    let typos = good.replace("priority", "priorty").replace("add:", "ad:");

    // Without an earlier valid set the program reports every problem of every file, and ends.
    let mut mount = ConfigMapMount::new(&[("mine.yaml", typos.as_str()), ("nodes.yaml", "kind: NodePolicy\n")])?;
    for program in
        [as_webhook(plane, &kubeconfigs.1, &own, mount.path())?.0, as_controller(&kubeconfigs.0, &own, mount.path())]
    {
        let log = failed_start(&program).await?;
        for part in ["mine.yaml:5:3: ", "mine.yaml:7:19: ", "nodes.yaml:1:1: ", "contains none"] {
            ensure!(log.contains(part), "no {part:?}: {log}");
        }
    }

    kept_by_another_version(plane, &own, &namespace, &kubeconfigs.1, mount.path()).await?;

    mount.publish(&[("mine.yaml", good.as_str()), ("nodes.yaml", other)])?;
    let leader = controller(&kubeconfigs.0, &own, mount.path()).await?;
    let (first, registration) = webhook(plane, &kubeconfigs.1, &own, mount.path()).await?;
    registration.only_namespace(&namespace).register(&plane.client()).await?;
    marked(&namespace, "the policies to be in force", "of-one").await?;
    condition(&own, "True", "2 policy files with 2 policies are in force").await?;
    let at_first = first.policies().await?;
    ensure!(at_first["hash"] == leader.policies().await?["hash"], "the same files have the same hash");

    // One edit is invalid; the other one is valid, and must wait for it.
    let waiting = other.replace("{}", "{mode: Audit}");
    mount.publish(&[("mine.yaml", typos.as_str()), ("nodes.yaml", waiting.as_str())])?;
    let note = event(plane, &own, &["Warning", "PolicyFilesBad", "mine.yaml:5:3: "]).await?;
    for part in ["did you mean `priority`", "1 more problem", "in force instead", "Correct the file"] {
        ensure!(note.contains(part), "no {part:?}: {note}");
    }
    condition(&own, "False", "mine.yaml:5:3: ").await?;
    let described = plane.kubectl(&["describe", "configmap", "mullion-state", "-n", &own.name]).await?;
    ensure!(described.split("Events:").nth(1).is_some_and(|events| events.contains("PolicyFilesBad")), "{described}");
    for program in [&first, &leader] {
        let bad =
            shown(program, "the problems", |shown| shown["problems"].as_array().is_some_and(|all| all.len() == 2))
                .await?;
        let files: Vec<_> = bad["files"].as_array().into_iter().flatten().collect();
        ensure!(files.len() == 2 && files[0]["status"] == "bad" && files[1]["status"] == "waiting", "{bad:#}");
        ensure!(files[0]["problems"][0]["line"] == 5 && files[0]["problems"][0]["column"] == 3, "{bad:#}");
        ensure!(bad["hash"] == at_first["hash"] && bad["nodePolicy"]["mode"] == "Enforce", "{bad:#}");
        let metrics = program.get("/metrics").await?;
        for line in [
            "mullion_policy_load_errors 2",
            "mullion_policy_file_valid{file=\"mine.yaml\"} 0",
            "mullion_policy_file_problems{file=\"mine.yaml\"} 2",
            "mullion_policy_file_valid{file=\"nodes.yaml\"} 1",
            "mullion_policy_files{status=\"waiting\"} 1",
        ] {
            ensure!(metrics.lines().any(|found| found == line), "no {line}");
        }
    }
    marked(&namespace, "the last good policies", "of-one").await?;

    // A webhook that starts now uses the policies that the controller stored.
    let (second, registration) = webhook(plane, &kubeconfigs.1, &own, mount.path()).await?;
    registration.only_namespace(&namespace).register(&plane.client()).await?;
    first.process.kill()?;
    marked(&namespace, "the last good policies, after a restart", "of-one").await?;
    let kept = second.policies().await?;
    ensure!(
        kept["kept"] == true && kept["hash"] == at_first["hash"] && kept["files"][0]["status"] == "bad",
        "{kept:#}"
    );
    ensure!(
        second.process.log()?.contains("the last good ones, stored in ConfigMap mullion-state"),
        "the log lacks it"
    );

    // The directory is missing for some time.
    let away = mount.path().with_extension("away");
    std::fs::rename(mount.path(), &away)?;
    event(plane, &own, &["Warning", "PolicyFilesBad", "it does not exist"]).await?;
    for program in [&second, &leader] {
        let gone = shown(program, "the directory to be gone", |shown| shown["files"].to_string().contains("\"gone\""));
        ensure!(gone.await?["hash"] == at_first["hash"], "another set");
    }
    marked(&namespace, "the last good policies, without their directory", "of-one").await?;
    std::fs::rename(&away, mount.path())?;
    for program in [&second, &leader] {
        shown(program, "the directory to be back", |shown| !shown["files"].to_string().contains("\"gone\"")).await?;
    }

    // A ConfigMap without keys is an error, not an empty set of policies.
    mount.publish::<&str>(&[])?;
    event(plane, &own, &["Warning", "PolicyFilesBad", "the directory contains no policy file"]).await?;
    shown(&second, "the files to be gone", |shown| shown["files"].to_string().matches("\"gone\"").count() == 2).await?;
    marked(&namespace, "the last good policies, without any file", "of-one").await?;

    // Corrected.
    let corrected = marks("of-two");
    mount.publish(&[("mine.yaml", corrected.as_str())])?;
    marked(&namespace, "the new policies", "of-two").await?;
    let note = event(plane, &own, &["Normal", "PoliciesInForce", "valid again"]).await?;
    ensure!(note.contains("gone nodes.yaml") && note.contains("changed mine.yaml"), "{note}");
    condition(&own, "True", "1 policy file with 1 policy is in force").await?;
    let good = shown(&second, "no problems", |shown| shown["problems"] == json!([])).await?;
    ensure!(good["kept"] == false && good["hash"] == leader.policies().await?["hash"], "{good:#}");
    ensure!(!second.get("/metrics").await?.contains("nodes.yaml"), "metrics of a file that is gone");

    // An exemption ends by itself: no file changes, and nothing is restarted.
    let until = (Timestamp::now() + SignedDuration::from_secs(5)).strftime("%Y-%m-%dT%H:%M:%SZ");
    let exemption = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: exemption}\n";
    let exemption = format!("{exemption}spec: {{until: {until}, rules: {{denials: Warn}}}}\n");
    mount.publish(&[("mine.yaml", corrected.as_str()), ("until.yaml", exemption.as_str())])?;
    for program in [&second, &leader] {
        shown(program, "the end of the exemption", |shown| shown["ended"][0]["name"] == "exemption").await?;
    }
    condition(&own, "True", &format!("PodPolicy exemption (until {until}) has ended")).await?;
    marked(&namespace, "the other policy to stay", "of-two").await?;

    registration_gone(plane, &namespace).await
}
