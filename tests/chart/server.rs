//! The API server with the kinds that the chart can use, and helpers for requests to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use mullion_cluster::{Chart, ControlPlane, Fixture, Tool, wait_for};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::rendered::text;

pub const DEADLINE: std::time::Duration = std::time::Duration::from_secs(120);

/// One control plane for all.
pub struct Server {
    pub plane: ControlPlane,
    kinds: Mutex<BTreeMap<String, (kube::discovery::ApiResource, Scope)>>,
    seen: Mutex<BTreeSet<String>>,
    installing: Mutex<()>,
}

impl Fixture for Server {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![self.plane.keep_logs()]
    }
}

impl Server {
    pub async fn start() -> Result<Self> {
        let plane = ControlPlane::builder().kwok(false).scheduler(false).limited_system_classes().start().await?;
        let kinds = include_str!("kinds.yaml");
        plane.kubectl_with_input(&["create", "--validate=strict", "-f", "-"], kinds).await?;
        plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=120s"]).await?;
        Ok(Self { plane, kinds: Mutex::default(), seen: Mutex::default(), installing: Mutex::default() })
    }

    /// The API for an object's kind, in its own namespace.
    async fn api(&self, client: Client, object: &Value) -> Result<Api<DynamicObject>> {
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let key = format!("{version} {kind}");
        let mut kinds = self.kinds.lock().await;
        if !kinds.contains_key(&key) {
            let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let found = wait_for(&key, DEADLINE, || pinned_kind(&client, &gvk)).await?;
            kinds.insert(key.clone(), (found.0, found.1.scope));
        }
        let (resource, scope) = kinds.get(&key).context("just put there")?;
        Ok(match scope {
            Scope::Cluster => Api::all_with(client, resource),
            Scope::Namespaced => {
                let namespace = text(object, "/metadata/namespace");
                ensure!(!namespace.is_empty(), "{key} without a namespace");
                Api::namespaced_with(client, namespace, resource)
            }
        })
    }

    /// Whether no trial has asked this for an equal object.
    pub async fn is_new(&self, object: &Value) -> bool {
        self.seen.lock().await.insert(object.to_string())
    }

    /// The object as it would be stored, even if others own fields of it.
    pub async fn dry_run(&self, object: &Value) -> Result<Value> {
        self.patch(object, PatchParams::apply("chart-test").force().dry_run()).await
    }

    /// Server-side apply by that manager; returns the stored object.
    pub async fn apply(&self, object: &Value, manager: &str) -> Result<Value> {
        self.patch(object, PatchParams::apply(manager)).await
    }

    /// Does the same, and overrides fields of other managers.
    pub async fn apply_forced(&self, object: &Value, manager: &str) -> Result<Value> {
        self.patch(object, PatchParams::apply(manager).force()).await
    }

    /// Patches, with an error for every unknown field.
    async fn patch(&self, object: &Value, parameters: PatchParams) -> Result<Value> {
        let api = self.api(self.plane.client(), object).await?;
        let parameters = parameters.validation_strict();
        let name = text(object, "/metadata/name");
        let stored = api.patch(name, &parameters, &Patch::Apply(object)).await;
        let stored = stored.map_err(|why| match why {
            // The rest of such an error repeats it twice.
            kube::Error::Api(status) => anyhow::anyhow!("{} {name}: {}", text(object, "/kind"), status.message),
            other => anyhow::Error::from(other).context(format!("{} {name}", text(object, "/kind"))),
        })?;
        Ok(serde_json::to_value(stored)?)
    }

    /// The object that apply by that manager would store.
    pub async fn apply_dry(&self, object: &Value, manager: &str) -> Result<Value> {
        self.patch(object, PatchParams::apply(manager).dry_run()).await
    }

    /// A strategic merge patch by that manager.
    pub async fn strategic(&self, object: &Value, manager: &str, patch: Value) -> Result<Value> {
        let api = self.api(self.plane.client(), object).await?;
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        Ok(serde_json::to_value(
            api.patch(text(object, "/metadata/name"), &parameters, &Patch::Strategic(patch)).await?,
        )?)
    }

    /// A lock for a trial that installs: names are fixed, so one trial installs at a time. Removes what an earlier
    /// trial left.
    pub async fn alone(&self) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        let turn = self.installing.lock().await;
        let plane = &self.plane;
        self.namespace("mullion-system", json!({})).await?;
        let whole = "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings,\
            validatingadmissionpolicies,validatingadmissionpolicybindings,priorityclasses,resourcequotas,deployments,services,serviceaccounts,configmaps,roles,rolebindings,networkpolicies,\
            poddisruptionbudgets,certificates,issuers,servicemonitors,prometheusrules";
        let ours = "--selector=app.kubernetes.io/name=mullion";
        plane.kubectl(&["delete", whole, ours, "--all-namespaces", "--ignore-not-found"]).await?;
        plane.kubectl(&["delete", "secrets", "--selector=owner=helm", "--namespace=mullion-system"]).await?;
        Ok(turn)
    }

    /// The output of `helm <arguments>` in Mullion's namespace. `install` and `upgrade` get the values without a default.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String> {
        self.helm_of(self.plane.tools().command(Tool::Helm), arguments).await
    }

    /// Does the same with another program, such as Helm 3.
    pub async fn helm_of(&self, program: Command, arguments: &[&str]) -> Result<String> {
        let plane = &self.plane;
        let required = Chart::required();
        let required = required.to_string_lossy();
        let mut arguments = arguments.to_vec();
        if let Some("install" | "upgrade") = arguments.first().copied() {
            arguments.splice(1..1, ["--values", &*required]);
        }
        let home = plane.dir().join("tools");
        let done = tokio::process::Command::from(program)
            .args(["--kubeconfig", &plane.kubeconfig().to_string_lossy(), "--namespace", "mullion-system"])
            .args(&arguments)
            .envs(["CACHE", "CONFIG", "DATA"].map(|kind| (format!("HELM_{kind}_HOME"), home.join(kind))))
            .stdin(Stdio::null())
            .output()
            .await?;
        ensure!(done.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8(done.stdout)?)
    }

    pub async fn get(&self, object: &Value) -> Result<Value> {
        let api = self.api(self.plane.client(), object).await?;
        Ok(serde_json::to_value(api.get(text(object, "/metadata/name")).await?)?)
    }

    pub async fn delete(&self, object: &Value) -> Result<()> {
        let api = self.api(self.plane.client(), object).await?;
        api.delete(text(object, "/metadata/name"), &kube::api::DeleteParams::default()).await?;
        Ok(())
    }

    /// Creates a namespace of that name with labels; it may exist already.
    pub async fn namespace(&self, name: &str, labels: Value) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        self.apply(&namespace, "chart-test").await.map(drop)
    }
}
