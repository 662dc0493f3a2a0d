//! The objects that Mullion's chart installs, as `helm template` renders them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::helm::helm;
use crate::tools::repository;

/// The namespace in which the documents install the chart.
const NAMESPACE: &str = "mullion-system";

/// Mullion's chart and the values with which it is rendered; the release is named `mullion`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chart {
    namespace: String,
    arguments: Vec<OsString>,
}

impl Default for Chart {
    fn default() -> Self {
        Self { namespace: NAMESPACE.to_owned(), arguments: Vec::new() }.values(&Self::required())
    }
}

impl Chart {
    /// The chart's folder.
    pub fn folder() -> PathBuf {
        repository().join("charts/mullion")
    }

    /// The values file with the values for which the chart has no default: the repository of the image, and the
    /// policies. It comes before all other values.
    pub fn required() -> PathBuf {
        repository().join("tests/cluster/required.yaml")
    }

    /// Installs in that namespace instead of `mullion-system`.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// Adds a value after the earlier ones, in the format of `--set`: `admission.failurePolicy=Fail`.
    #[must_use]
    pub fn value(self, value: &str) -> Self {
        self.argument("--set").argument(value)
    }

    /// Adds a values file after the earlier ones.
    #[must_use]
    pub fn values(self, file: &Path) -> Self {
        self.argument("--values").argument(file)
    }

    /// Adds any other argument of `helm template`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The command that renders it: `template mullion …`.
    pub fn command(&self) -> Vec<OsString> {
        let mut command: Vec<_> =
            ["template", "mullion", "--namespace", &self.namespace].into_iter().map(OsString::from).collect();
        command.push(Self::folder().into());
        command.extend_from_slice(&self.arguments);
        command
    }

    /// The output of `helm template`.
    ///
    /// # Errors
    /// Helm's error message.
    pub fn text(&self) -> Result<String> {
        let done = helm(&self.command())?;
        ensure!(done.succeeded, "helm template: {}", done.stderr.trim());
        Ok(done.stdout)
    }

    /// The objects, including hooks, in Helm's order. Each set of values is rendered once in a process.
    pub fn objects(&self) -> Result<Vec<Value>> {
        static RENDERED: Mutex<BTreeMap<Chart, Vec<Value>>> = Mutex::new(BTreeMap::new());
        if let Some(objects) = RENDERED.lock().unwrap_or_else(PoisonError::into_inner).get(self) {
            return Ok(objects.clone());
        }
        let text = self.text()?;
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("read what helm wrote:\n{text}"))?;
        RENDERED.lock().unwrap_or_else(PoisonError::into_inner).insert(self.clone(), objects.clone());
        Ok(objects)
    }

    /// The rules that are bound to a service account of the chart (`mullion-webhook`), each with the namespace in which
    /// it applies; `None` is the whole cluster. Includes accounts of hooks.
    pub fn rules_of(&self, account: &str) -> Result<Vec<(Option<String>, Value)>> {
        let objects = self.objects()?;
        let text = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let list = |object: &Value, key: &str| object.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut found = Vec::new();
        for binding in &objects {
            let Some(kind) = text(binding, "/kind").filter(|kind| kind.ends_with("RoleBinding")) else { continue };
            let ours = list(binding, "subjects").iter().any(|subject| {
                text(subject, "/kind").as_deref() == Some("ServiceAccount")
                    && text(subject, "/name").as_deref() == Some(account)
                    && text(subject, "/namespace").as_deref() == Some(&self.namespace)
            });
            if !ours {
                continue;
            }
            let namespace = if kind == "RoleBinding" { text(binding, "/metadata/namespace") } else { None };
            let role = objects.iter().find(|role| {
                text(role, "/kind") == text(binding, "/roleRef/kind")
                    && text(role, "/metadata/name") == text(binding, "/roleRef/name")
                    && text(role, "/metadata/namespace") == namespace
            });
            let role = role.with_context(|| format!("the chart has no role for {binding}"))?;
            found.extend(list(role, "rules").into_iter().map(|rule| (namespace.clone(), rule)));
        }
        if found.is_empty() {
            bail!("the chart gives {account} no rights");
        }
        Ok(found)
    }

    /// The arguments of the first container of a Deployment.
    pub fn arguments_of(&self, deployment: &str) -> Result<Vec<String>> {
        let named = |object: &&Value| {
            object.pointer("/metadata/name").and_then(Value::as_str) == Some(deployment)
                && object.get("kind").and_then(Value::as_str) == Some("Deployment")
        };
        let objects = self.objects()?;
        let object = objects.iter().find(named).with_context(|| format!("the chart has no Deployment {deployment}"))?;
        let arguments = object.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array);
        Ok(arguments.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// The first object of a kind.
    pub fn object(&self, kind: &str) -> Result<Value> {
        let found = self.objects()?.into_iter().find(|object| object.get("kind").and_then(Value::as_str) == Some(kind));
        found.with_context(|| format!("the chart has no {kind}"))
    }
}
