//! The chart checked by the program: flags, `mullion check`, the engine, the policies.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::rendered::{Rendered, list, text};

fn mullion(arguments: &[&str], input: &str) -> Result<Output> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mullion"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("run mullion")?;
    let mut stdin = child.stdin.take().context("its input")?;
    let input = input.to_owned();
    // The program may end before it has read everything.
    let feed = std::thread::spawn(move || stdin.write_all(input.as_bytes()).is_ok());
    let output = child.wait_with_output()?;
    feed.join().map_err(|_panic| anyhow::anyhow!("the input was not written"))?;
    Ok(output)
}

/// `--help` at the end: the flags before it are parsed, and nothing starts.
pub fn every_flag_is_known(file: &Rendered) -> Result<()> {
    for owner in file.templates()? {
        for container in owner.containers() {
            ensure!(container.get("command").is_none(), "{}: the image sets the program", owner.name());
            let environment = list(container, "/env");
            let mut arguments = Vec::new();
            for argument in list(container, "/args") {
                let mut argument = argument.as_str().context("an argument that is no string")?.to_owned();
                for variable in environment {
                    argument = argument.replace(&format!("$({})", text(variable, "/name")), "mullion-system");
                }
                ensure!(!argument.contains("$("), "{}: {argument}", owner.name());
                arguments.push(argument);
            }
            arguments.push("--help".to_owned());
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let done = mullion(&arguments, "")?;
            ensure!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }
    Ok(())
}

/// Runs `mullion check` as a user does on the rendered chart.
pub fn check_finds_nothing(file: &Rendered) -> Result<()> {
    let done = mullion(&["check", "--fail-on", "warn", "-o", "json", "-"], &file.chart().text()?)?;
    let output = String::from_utf8(done.stdout)?;
    let lines: Vec<Value> = output.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("its lines")?;
    let findings: Vec<_> = lines.iter().filter(|line| line["type"] == "finding").collect();
    ensure!(
        done.status.code() == Some(0) && findings.is_empty(),
        "{} {findings:?} {}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(())
}

/// The OS decision is Linux from fields of the chart, without changes by Mullion, which does not review its own
/// namespace.
pub fn the_engine_leaves_the_pods_on_linux(file: &Rendered) -> Result<()> {
    let templates = file.templates()?;
    let pods: Vec<_> = templates
        .iter()
        .map(|owner| {
            let mut metadata = owner.template["metadata"].clone();
            metadata["name"] = owner.owner["metadata"]["name"].clone();
            metadata["namespace"] = json!("mullion-system");
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": owner.spec()})
        })
        .collect();
    let input = json!({"apiVersion": "v1", "kind": "List", "items": pods}).to_string();
    let done = mullion(&["check", "-o", "json", "-"], &input)?;
    let output = String::from_utf8(done.stdout)?;
    let lines: Vec<Value> = output.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("its lines")?;
    let workloads: Vec<_> = lines.iter().filter(|line| line["type"] == "workload").collect();
    ensure!(workloads.len() == pods.len(), "{output}");
    for workload in workloads {
        ensure!(workload["os"] == "linux" && list(workload, "/changes").is_empty(), "{workload}");
    }
    Ok(())
}

/// A webhook can start with the policies that the chart installs.
pub fn policies_load(file: &Rendered) -> Result<()> {
    let mut judged = 0;
    for map in file.of_kind("ConfigMap")?.filter(|map| map["metadata"]["labels"]["mullion.dev/policy"] == "true") {
        let folder = tempfile::tempdir()?;
        for (name, content) in map["data"].as_object().into_iter().flatten() {
            std::fs::write(folder.path().join(name), content.as_str().context("a file")?)?;
        }
        let done = mullion(&["policy", "check", &folder.path().to_string_lossy()], "")?;
        ensure!(
            done.status.success(),
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        judged += 1;
    }
    let own = text(&file.values, "/policies/configMap").is_empty();
    ensure!(judged == usize::from(own), "{judged} ConfigMaps with policies");
    Ok(())
}
