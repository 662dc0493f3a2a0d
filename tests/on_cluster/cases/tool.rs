//! kubectl and Helm, run in the same way as a user runs them.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use mullion_cluster::Tool;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::format::{Input, Step, User};
use super::site::Site;

/// The exit status and the output of a program.
pub struct ToolOutput {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

pub async fn run(site: &Site, step: &Step, namespace: &str) -> Result<ToolOutput> {
    let plane = &site.plane;
    let tool = if step.verb == "helm" { Tool::Helm } else { Tool::Kubectl };
    let mut arguments = vec![format!("--namespace={namespace}")];
    match &step.with.user {
        Some(User::Name(user)) => arguments.push(format!("--as={user}")),
        Some(User::Full { user, groups }) => {
            arguments.push(format!("--as={user}"));
            arguments.extend(groups.iter().map(|group| format!("--as-group={group}")));
        }
        None => {}
    }
    let own = step.value.as_array().into_iter().flatten();
    arguments.extend(own.map(|argument| argument.as_str().unwrap_or_default().to_owned()));
    let home = plane.dir().join("tools");
    let mut child = tokio::process::Command::from(plane.tools().command(tool))
        .args(&arguments)
        .env("KUBECONFIG", plane.kubeconfig())
        .env("KUBECACHEDIR", plane.dir().join("kubectl-cache"))
        .envs(["CACHE", "CONFIG", "DATA"].map(|kind| (format!("HELM_{kind}_HOME"), home.join(kind))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| step.verb)?;
    let input = step.with.input.as_ref().map(text).unwrap_or_default();
    let mut stdin = child.stdin.take().context("a program's input")?;
    let feed = async move {
        stdin.write_all(input.as_bytes()).await.ok(); // it may end without reading everything
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), feed);
    let output = output.with_context(|| step.verb)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(ToolOutput { success: output.status.success(), stdout: text(&output.stdout), stderr: text(&output.stderr) })
}

fn text(input: &Input) -> String {
    match input {
        Input::Text(text) => text.clone(),
        Input::Object(object) => Value::Object(object.clone()).to_string(),
        Input::Objects(objects) => objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n"),
    }
}
