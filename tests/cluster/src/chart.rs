//! What Mullion's chart installs, as `helm template` renders it.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::tools::{Tool, Tools, repository};

/// The namespace in which the chart is installed.
pub(crate) const NAMESPACE: &str = "mullion-system";

/// The chart's object of a kind under these values (`key=value`). Each set of values is rendered once in a process.
pub(crate) fn object(kind: &str, values: &[String]) -> Result<Value> {
    static RENDERED: Mutex<BTreeMap<Vec<String>, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let mut rendered = RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = match rendered.get(values) {
        Some(objects) => objects.clone(),
        None => rendered.entry(values.to_vec()).or_insert(render(values)?).clone(),
    };
    let found = objects.into_iter().find(|object| object.get("kind").and_then(Value::as_str) == Some(kind));
    found.with_context(|| format!("the chart has no {kind}"))
}

fn render(values: &[String]) -> Result<Vec<Value>> {
    let chart = repository().join("charts/mullion");
    let mut helm = Command::new(Tools::locate()?.path(Tool::Helm));
    helm.args(["template", "mullion", "--namespace", NAMESPACE]).arg(&chart);
    for value in values {
        helm.args(["--set", value]);
    }
    let done = helm.output().context("run helm")?;
    ensure!(done.status.success(), "helm template {}: {}", chart.display(), String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).context("what helm wrote")?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("read what helm wrote:\n{text}"))
}
