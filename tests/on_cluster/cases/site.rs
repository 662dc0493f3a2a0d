//! A control plane of `tests/cases/clusters`, with its Mullion instances and the state that a case requires.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use mullion::report::mismatches;
use mullion_cluster::{
    ControlPlane, Fixture, MullionProcess, NodeSpec, TestNamespace, WebhookRegistration, free_port, wait_for,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;

use super::ask::{self, Kinds, Request};
use super::file;
use super::format::{Cluster, Failure, Mullion, Os, Step, User};
use super::third_party::ThirdPartyServer;
use crate::shared::{CONTROLLERS, DEADLINE, admin_get, start_webhook_at};

/// The label that selects the Mullion instance for a namespace.
pub const LABEL: &str = "mullion-case";

pub struct Site {
    pub plane: ControlPlane,
    pub third_party: ThirdPartyServer,
    pub kinds: Kinds,
    controller: Option<(MullionProcess, TempDir)>,
    /// The namespace of the requests that test whether the API server uses new objects.
    pub probe: TestNamespace,
    mullions: Mutex<HashMap<String, Arc<Starting>>>,
}

type Starting = OnceCell<std::result::Result<Running, String>>;

/// A registered webhook; `None` if it is dead.
struct Running {
    webhook: Option<MullionProcess>,
    _policies: TempDir,
}

impl Fixture for Site {
    fn keep_logs(&self) -> Vec<PathBuf> {
        let mut kept = vec![self.plane.keep_logs()];
        kept.extend(self.controller.iter().map(|(controller, _)| controller.keep_logs()));
        let mullions = self.mullions.lock().unwrap_or_else(PoisonError::into_inner);
        let running = mullions.values().filter_map(|cell| cell.get()?.as_ref().ok()?.webhook.as_ref());
        kept.extend(running.map(MullionProcess::keep_logs));
        kept
    }
}

impl Site {
    pub async fn start(name: &str) -> Result<Self> {
        let cluster: Cluster = file::read("clusters", name)?;
        let plugins: Vec<&str> = cluster.plugins.iter().map(String::as_str).collect();
        let mut builder = ControlPlane::builder().admission_plugins(&plugins).controller_accounts();
        for flag in &cluster.flags {
            builder = builder.api_server_flag(flag);
        }
        let plane = builder.start().await?;
        plane.create_nodes(&nodes(&cluster)?).await?;
        let third_party = ThirdPartyServer::start().await?;
        let probe = plane.namespace("probe").await?;
        let mut site =
            Self { plane, third_party, kinds: Kinds::default(), controller: None, probe, mullions: Mutex::default() };
        for object in &cluster.objects {
            site.create(object, "").await?;
        }
        if let Some(name) = &cluster.controller {
            site.controller = Some(site.start_controller(name).await?);
        }
        for step in &cluster.ready {
            site.is_ready(&Step::read(step)?).await?;
        }
        Ok(site)
    }

    /// Creates an object outside the steps, and returns its path.
    pub async fn create(&self, object: &Value, namespace: &str) -> Result<String> {
        let client = self.plane.client();
        let (version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str().context("an object has a kind")?);
        let path = self.kinds.find(&client, version, kind).await?.path(namespace);
        let request = Request { method: "POST", path, body: Some(object.clone()), ..Request::default() };
        let answer = ask::send(&client, &request).await?;
        ensure!(
            !answer.rejected(),
            "create {kind} {}: {} {}",
            object["metadata"]["name"],
            answer.status,
            answer.message()
        );
        Ok(format!("{}/{}", request.path, object["metadata"]["name"].as_str().unwrap_or_default()))
    }

    async fn delete(&self, path: String) -> Result<()> {
        let request = Request { method: "DELETE", path, ..Request::default() };
        ask::send(&self.plane.client(), &request).await.map(drop)
    }

    async fn start_controller(&self, name: &str) -> Result<(MullionProcess, TempDir)> {
        let policies = policies(&file::read("mullion", name)?)?;
        let admin = free_port()?;
        let controller = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
            .args(["controller", "--kubeconfig", &self.plane.kubeconfig().to_string_lossy()])
            .args(["--policies", &policies.path().to_string_lossy(), "--admin-bind", &format!("127.0.0.1:{admin}")])
            .admin(([127, 0, 0, 1], admin).into())
            .start()
            .await?;
        Ok((controller, policies))
    }

    async fn is_ready(&self, step: &Step) -> Result<()> {
        let (Some((kind, name)), Some(is)) =
            (step.value.as_str().and_then(|about| about.split_once('/')), &step.with.is)
        else {
            bail!("`ready` has steps of `find: Kind/name` with `is`");
        };
        let client = self.plane.client();
        let path = format!("{}/{name}", self.kinds.find(&client, None, kind).await?.path("default"));
        wait_for(&step.title(), DEADLINE, async || {
            let found = ask::get(&client, &path).await?;
            let missing = mismatches(is, found.as_ref());
            ensure!(missing.is_empty(), "{}", missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
            anyhow::Ok(())
        })
        .await
    }

    /// Waits until the API server calls the Mullion instance of that name for namespaces with its label.
    pub async fn mullion(&self, name: &str) -> Result<()> {
        let cell = Arc::clone(
            self.mullions.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default(),
        );
        let started = cell.get_or_init(|| async { self.start_mullion(name).await.map_err(|why| format!("{why:#}")) });
        started.await.as_ref().map(drop).map_err(|why| anyhow!("Mullion {name:?} does not start: {why}"))
    }

    async fn start_mullion(&self, name: &str) -> Result<Running> {
        let about: Mullion = file::read("mullion", name)?;
        let policies = policies(&about)?;
        let probe = self.plane.namespace_with_labels("called", &[(LABEL, name)]).await?;
        let webhook = if about.dead {
            self.register_dead(name, &about, &probe).await?;
            None
        } else {
            let admin = free_port()?;
            let (webhook, registration) =
                start_webhook_at(&self.plane, &policies.path().to_string_lossy(), admin).await?;
            register(&self.plane, registration, name, &about).await?;
            wait_for(&format!("the API server to call Mullion {name:?}"), DEADLINE, async || {
                self.create_probe_pod(&probe).await?;
                let metrics = admin_get(admin, "/metrics").await?.1;
                let called =
                    |endpoint| metrics.contains(&format!("mullion_admission_reviews_total{{endpoint=\"{endpoint}\""));
                ensure!(called("mutate") && called("validate"), "not both endpoints were called");
                anyhow::Ok(())
            })
            .await?;
            Some(webhook)
        };
        probe.delete().await?;
        Ok(Running { webhook, _policies: policies })
    }

    /// A server runs until the API server has called it; then it stops.
    async fn register_dead(&self, name: &str, about: &Mullion, probe: &TestNamespace) -> Result<()> {
        let endpoints = [TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?];
        let [mutate, validate] = [endpoints[0].local_addr()?, endpoints[1].local_addr()?];
        let registration = WebhookRegistration::new(&format!("https://{mutate}"), self.third_party.ca())
            .validating_at(&format!("https://{validate}"));
        register(&self.plane, registration, name, about).await?;
        let calling = wait_for("the API server to call a dead Mullion", DEADLINE, async || {
            self.create_probe_pod(probe).await?;
            Err::<(), _>(anyhow!("it did not call both endpoints"))
        });
        let called = async {
            for endpoint in &endpoints {
                endpoint.accept().await?;
            }
            anyhow::Ok(())
        };
        tokio::select! { never = calling => never, called = called => called }
    }

    /// Creates a pod as a controller does, which the API server always sends to Mullion: from here on Mullion trusts
    /// owner references only of controllers. The response does not matter.
    async fn create_probe_pod(&self, namespace: &TestNamespace) -> Result<()> {
        let image = "mcr.microsoft.com/windows/nanoserver:ltsc2022";
        let spec =
            json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "c", "image": image}]});
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true});
        let metadata = json!({"name": "probe", "ownerReferences": [owner]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        let (user, groups) = CONTROLLERS;
        let user = User::Full { user: user.to_owned(), groups: groups.iter().map(|&group| group.to_owned()).collect() };
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", namespace.name);
        let request = Request { method: "POST", path, body: Some(pod), user: Some(&user), ..Request::default() };
        ask::send(&self.plane.client(), &request).await.map(drop)
    }

    /// Sets a label of a namespace, or removes it.
    pub async fn label(&self, namespace: &str, key: &str, value: Option<&str>) -> Result<()> {
        let request = Request {
            method: "PATCH",
            path: format!("/api/v1/namespaces/{namespace}"),
            content_type: "application/merge-patch+json",
            body: Some(json!({"metadata": {"labels": {key: value}}})),
            user: None,
        };
        let answer = ask::send(&self.plane.client(), &request).await?;
        ensure!(!answer.rejected(), "label the namespace {namespace}: {}", answer.message());
        Ok(())
    }

    pub async fn remove(&self, paths: Vec<String>) -> Result<()> {
        for path in paths {
            self.delete(path).await?;
        }
        Ok(())
    }
}

/// The registration of Mullion for cases.
async fn register(plane: &ControlPlane, registration: WebhookRegistration, name: &str, about: &Mullion) -> Result<()> {
    let failure = match about.failure_policy {
        Failure::Fail => "admission.failurePolicy=Fail",
        Failure::Ignore => "admission.failurePolicy=Ignore",
    };
    let registration = registration.value(failure).named(&format!("mullion-{name}")).namespace_label(LABEL, name);
    // The API server waits long for a live webhook, because the machine can be busy; a dead webhook is registered as in
    // the chart.
    let registration = if about.dead { registration.as_installed() } else { registration };
    registration.register(&plane.client()).await
}

/// A directory with the policies.
fn policies(about: &Mullion) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for path in &about.policies {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let name = from.file_name().with_context(|| format!("{path:?} is no file"))?;
        fs::copy(&from, folder.path().join(name)).with_context(|| format!("copy {path}"))?;
    }
    for (at, document) in about.documents.iter().enumerate() {
        fs::write(folder.path().join(format!("document-{at}.yaml")), document.to_string())?;
    }
    Ok(folder)
}

fn nodes(cluster: &Cluster) -> Result<Vec<NodeSpec>> {
    let nodes = cluster.nodes.iter().map(|(name, line)| {
        let mut node = match (line.os, &line.version) {
            (Os::Linux, None) => NodeSpec::linux(name),
            (Os::Windows, Some(version)) => NodeSpec::windows(name, version),
            _ => bail!("{name}: Windows nodes have a `version`, Linux nodes have none"),
        };
        for (key, value) in &line.labels {
            node = node.label(key, value);
        }
        for taint in &line.taints {
            node = node.taint(taint);
        }
        Ok(node)
    });
    nodes.collect()
}
