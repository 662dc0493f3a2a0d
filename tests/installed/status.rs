//! `mullion status` of an installation with default values.

use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::wait_for;
use serde_json::Value;

use crate::site::{DEADLINE, NAMESPACE, Site};

async fn status(site: &Site, arguments: &[&str]) -> Result<Output> {
    mullion(site, &[&["status"], arguments].concat()).await
}

async fn mullion(site: &Site, arguments: &[&str]) -> Result<Output> {
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_mullion"));
    program.args(arguments).arg("--kubeconfig").arg(site.plane.kubeconfig());
    program.stdin(Stdio::null()).kill_on_drop(true).output().await.context("run mullion")
}

/// `mullion verify` proves the installation. The nodes cannot pull an image, and those for Windows are simulated.
async fn verify(site: &Site) -> Result<()> {
    let verified = mullion(site, &["verify", "-o", "json"]).await?;
    let report: Value = serde_json::from_slice(&verified.stdout).with_context(|| text(&verified))?;
    ensure!(verified.status.code() == Some(0), "{report}");
    for (name, status, part) in [
        ("webhook-called", "ok", "both endpoints"),
        ("policies-loaded", "ok", "polic"),
        ("denials", "ok", "MUL201"),
        ("linux-pod", "notTried", "not started: the image was not pulled"),
        ("windows-pod", "ok", "not started: simulated node"),
        ("stateful-set-pod", "ok", "placed on node w2022"),
        ("cleanup", "ok", "gone"),
    ] {
        let found = report["checks"].as_array().and_then(|all| all.iter().find(|check| check["name"] == name)).cloned();
        let check = found.with_context(|| format!("no {name}: {report}"))?;
        ensure!(check["status"] == status && check["seen"].to_string().contains(part), "{check}");
    }
    Ok(())
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The results by name.
async fn results(site: &Site) -> Result<Vec<(String, String, String)>> {
    let report: Value = serde_json::from_slice(&status(site, &["-o", "json"]).await?.stdout)?;
    let word = |check: &Value, member: &str| check[member].as_str().unwrap_or_default().to_owned();
    let checks = report["checks"].as_array().context("no checks")?;
    Ok(checks.iter().map(|check| (word(check, "name"), word(check, "result"), word(check, "message"))).collect())
}

async fn wait_for_result(site: &Site, name: &str, result: &str, part: &str) -> Result<()> {
    wait_for(&format!("{name} {result}: {part}"), DEADLINE, async || {
        let all = results(site).await?;
        let (_, actual, message) = all.iter().find(|(found, ..)| found == name).context("no such check")?;
        ensure!(actual == result && message.contains(part), "{all:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

/// Good after an installation, bad without the webhook, good again; and withdrawn.
pub async fn an_installation_is_good_until_it_is_not(site: &Site) -> Result<()> {
    let nothing = status(site, &[]).await?;
    ensure!(nothing.status.code() == Some(1), "{}", text(&nothing));
    ensure!(
        text(&nothing)
            .contains("× Mullion is not installed in this cluster, or its webhook configurations were deleted\n"),
        "{}",
        text(&nothing)
    );

    site.install(&["--set", "controller.extraArgs={--probe-interval=1}"]).await?;
    let waited = status(site, &["--wait", "--timeout", "4m"]).await?;
    ensure!(waited.status.code() == Some(0), "{}", text(&waited));
    let good = status(site, &[]).await?;
    ensure!(good.status.code() == Some(0), "{}", text(&good));
    let shown = text(&good);
    for part in [
        &format!(", namespace {NAMESPACE}\n"),
        "√ controller: 2 of 2 pods are ready\n",
        "√ webhook: 2 of 2 pods are ready\n",
        "√ the API server reaches the webhook; probed ",
        "√ the serving certificate is valid from ",
        "√ the CA is valid from ",
        "√ 2 Windows nodes with label mullion.dev/windows-release\n",
        "√ 2 Windows nodes with taint os=windows:NoSchedule\n",
        "\nNothing needs attention",
    ] {
        ensure!(shown.contains(part), "no {part:?}: {shown}");
    }

    verify(site).await?;

    // Helm's values stay, and no replica responds.
    let scale = |replicas: &str| {
        let replicas = format!("--replicas={replicas}");
        async move { site.plane.kubectl(&["scale", "deployment/mullion-webhook", "-n", NAMESPACE, &replicas]).await }
    };
    scale("0").await?;
    wait_for_result(site, "webhook-running", "bad", "scaled to 0").await?;
    wait_for_result(site, "webhook-reached", "bad", "does not reach").await?;
    ensure!(status(site, &[]).await?.status.code() == Some(1), "no replica runs, and the status does not report it");
    scale("2").await?;
    wait_for_result(site, "webhook-reached", "good", "probed").await?;

    crate::user_actions::mullion(site, &["withdraw", "--namespace", NAMESPACE]).await?;
    wait_for_result(site, "withdrawn", "bad", "withdrawn since").await?;
    crate::user_actions::mullion(site, &["withdraw", "--undo", "--namespace", NAMESPACE]).await?;
    let waited = status(site, &["--wait", "--timeout", "4m"]).await?;
    ensure!(waited.status.code() == Some(0), "{}", text(&waited));
    Ok(())
}
