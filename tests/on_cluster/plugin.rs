//! `kubectl mullion`: the real kubectl finds its plugin, runs it and completes its command line.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{Tool, Tools};
use tokio::process::Command;

use crate::shared::*;

/// The output of `kubectl WORDS`, and that on stderr, with the plugins of `folder`.
async fn kubectl(folder: &Path, words: &[&str]) -> Result<(String, String)> {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let path: OsString = [folder.as_os_str(), &rest].join(OsString::from(":").as_os_str());
    let output = Command::new(Tools::locate()?.path(Tool::Kubectl)).args(words).env("PATH", path).output().await?;
    let text = |bytes| String::from_utf8(bytes).context("UTF-8");
    Ok((text(output.stdout)?, text(output.stderr)?))
}

pub async fn kubectl_runs_and_completes_it(shared: &Shared) -> Result<()> {
    let folder = tempfile::tempdir()?;
    for name in ["kubectl-mullion", "kubectl_complete-mullion"] {
        symlink(env!("CARGO_BIN_EXE_mullion"), folder.path().join(name))?;
    }
    let folder = folder.path();
    let (_, err) = kubectl(folder, &["mullion", "check", "--output"]).await?;
    ensure!(err.contains("kubectl mullion check") || err.contains("a value is required"), "{err}");
    let (help, _) = kubectl(folder, &["mullion", "policy", "--help"]).await?;
    ensure!(help.contains("Usage: kubectl mullion policy <COMMAND>"), "{help}");
    let (offered, errors) = kubectl(folder, &["__complete", "mullion", "check", "--fail-on", ""]).await?;
    let expected = "deny\tFindings that deny\nwarn\tAlso findings that warn\n\
        unread\tFindings that deny, and what is not known: lists of the cluster and objects with pods that cannot be read, parts of \
        objects, and the results of kustomizations\n:4\n";
    ensure!(offered == expected, "{offered:?}: {errors}");

    let kubeconfig = shared.plane.kubeconfig().to_string_lossy();
    let (_, read) = kubectl(folder, &["mullion", "check", "-A", "--kubeconfig", &kubeconfig]).await?;
    ensure!(
        read.starts_with("mullion: context ") && read.contains(", all namespaces; policies of the cluster not known: "),
        "{read}"
    );

    let dump = shared.plane.kubectl(&["get", "nodes,runtimeclasses,namespaces", "-o", "json"]).await?;
    let (snapshot, pod) = (folder.join("snapshot.json"), folder.join("pod.yaml"));
    std::fs::write(&snapshot, dump)?;
    let windows = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    \
        image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n";
    std::fs::write(&pod, windows)?;
    let path = |path: &Path| path.display().to_string();
    let (explained, errors) =
        kubectl(folder, &["mullion", "explain", &path(&pod), "--snapshot", &path(&snapshot)]).await?;
    let can_run = explained.lines().find(|line| line.contains("can run on")).unwrap_or_default();
    ensure!(can_run.contains("win2022") && !can_run.contains("win2019"), "{explained}{errors}");
    Ok(())
}
