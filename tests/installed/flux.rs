//! Flux's helm-controller and kustomize-controller beside Mullion. `make flux` builds them, sets `MULLION_FLUX` to the
//! folder with their programs and their `CustomResourceDefinitions`, and runs this trial.
//!
//! Flux's source-controller does not run: this process serves the artifacts, and `ExternalArtifact` objects refer to
//! them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::routing::get;
use mullion_cluster::wait_for;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::site::{DEADLINE, NAMESPACE, REPOSITORY, Site, chart};
use crate::user_actions::{WINDOWS, at_work};

/// The namespace of Flux's objects.
const FLUX: &str = "flux-system";
/// The namespace of the DaemonSets.
const SHOP: &str = "flux-shop";
const ROUNDS: usize = 10;
/// Everything that Flux and Mullion both write, except for the objects that Mullion's controller creates.
const KINDS: &str = "deployments,daemonsets,services,configmaps,serviceaccounts,roles,rolebindings,\
    mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,clusterroles,\
    clusterrolebindings";

/// The folder of the controllers, if `MULLION_FLUX` is set.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("MULLION_FLUX").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The helm-controller installs Mullion, and a chart with DaemonSets that Mullion places; the kustomize-controller applies
/// such DaemonSets. In ten reconciliations of each, no object is written. A change by someone else is corrected, so the
/// comparison of the helm-controller was in effect.
pub async fn ten_reconciliations_without_drift(site: &Site) -> Result<()> {
    let flux = Flux::start(site).await?;
    for name in [FLUX, SHOP] {
        site.plane.kubectl(&["create", "namespace", name]).await?;
    }
    let values = json!({
        "image": {"repository": REPOSITORY},
        "admission": {"timeoutSeconds": {"mutating": 5, "validating": 5}},
    });
    flux.release("mullion", NAMESPACE, &values).await?;
    flux.ready("helmrelease/mullion").await.context("the HelmRelease of Mullion")?;
    at_work(site).await?;
    flux.release("agents", SHOP, &json!({})).await?;
    flux.kustomization("kustomized").await?;
    let objects = ["helmrelease/mullion", "helmrelease/agents", "kustomization/kustomized"];
    for object in objects {
        flux.ready(object).await.with_context(|| object.to_owned())?;
    }
    for name in ["agents-plain", "agents-placed", "kustomized-plain", "kustomized-placed"] {
        let found = site.plane.kubectl(&["get", "daemonset", name, "-n", SHOP, "-o", "json"]).await?;
        let found: Value = serde_json::from_str(&found)?;
        let placed = &found["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/os"];
        ensure!(placed == "windows", "Mullion did not place {name}: {found}");
    }

    let before = written(site).await?;
    for round in 1..=ROUNDS {
        for object in objects {
            flux.reconcile(object, &round.to_string()).await.with_context(|| format!("{object}, round {round}"))?;
        }
        let after = written(site).await?;
        for (object, state) in &after {
            ensure!(
                before.get(object) == Some(state),
                "round {round} wrote {object}:\n{:?}\n{state}",
                before.get(object)
            );
        }
        ensure!(before.len() == after.len(), "round {round} removed an object");
    }
    for name in ["mullion", "agents"] {
        let revision = flux.get(&format!("helmrelease/{name}"), "{.status.history[*].version}").await?;
        ensure!(revision == "1", "the HelmRelease {name} has the revisions {revision}");
    }
    ensure!(flux.drifts().await? == 0, "the helm-controller reported drift");

    // The comparison finds what differs.
    site.plane.kubectl(&["scale", "deployment/mullion-webhook", "--replicas=3", "-n", NAMESPACE]).await?;
    site.plane.kubectl(&["annotate", "daemonset/agents-placed", "team=other", "--overwrite", "-n", SHOP]).await?;
    site.plane.kubectl(&["annotate", "daemonset/kustomized-placed", "team=other", "--overwrite", "-n", SHOP]).await?;
    for object in objects {
        flux.reconcile(object, "corrected").await.context(object)?;
    }
    site.whole("mullion-webhook").await?;
    ensure!(site.pods_of("mullion-webhook").await?.len() == 2, "the number of replicas was not corrected");
    for name in ["agents-placed", "kustomized-placed"] {
        let path = "jsonpath={.metadata.annotations.team} {.metadata.generation}";
        let found = site.plane.kubectl(&["get", "daemonset", name, "-n", SHOP, "-o", path]).await?;
        ensure!(found == "agents 1", "{name}: {found}");
    }
    ensure!(flux.drifts().await? > 0, "the helm-controller reported no drift");

    for object in ["kustomization/kustomized", "helmrelease/agents", "helmrelease/mullion"] {
        let delete = ["delete", object, "-n", FLUX, "--timeout=300s"];
        site.plane.kubectl(&delete).await.with_context(|| flux.log()).with_context(|| format!("delete {object}"))?;
    }
    let left = ["get", "deployments,daemonsets", "-n", NAMESPACE, "-o", "name"];
    let left = site.plane.kubectl(&left).await?;
    ensure!(left.is_empty(), "the helm-controller left {left}");
    Ok(())
}

/// The running controllers, and the artifacts that they read. Dropping it kills the controllers.
struct Flux<'s> {
    site: &'s Site,
    logs: tempfile::TempDir,
    _controllers: Vec<Child>,
    artifacts: BTreeMap<&'static str, Value>,
}

impl<'s> Flux<'s> {
    async fn start(site: &'s Site) -> Result<Self> {
        let folder = folder().context("MULLION_FLUX is not set")?;
        let crds = folder.join("crds.yaml");
        let crds = crds.to_str().context("a path that is not UTF-8")?;
        site.plane.kubectl(&["apply", "--server-side", "-f", crds]).await?;
        let established = ["wait", "--for=condition=established", "crd", "--all", "--timeout=300s"];
        site.plane.kubectl(&established).await?;
        let work = tempfile::tempdir()?;
        let artifacts = serve(&files(site, work.path()).await?).await?;
        let mut controllers = Vec::new();
        for name in ["helm-controller", "kustomize-controller"] {
            let log = fs::File::create(work.path().join(name))?;
            let mut controller = Command::new(folder.join(name));
            controller
                .args(["--feature-gates=ExternalArtifact=true", "--enable-leader-election=false"])
                .args(["--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--watch-all-namespaces=true"])
                .env("KUBECONFIG", site.plane.kubeconfig())
                .env("RUNTIME_NAMESPACE", FLUX)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .kill_on_drop(true);
            controllers.push(controller.spawn().with_context(|| format!("run {name}"))?);
        }
        Ok(Self { site, logs: work, _controllers: controllers, artifacts })
    }

    /// Creates a source with this artifact, and an object that uses it.
    async fn create(&self, artifact: &str, object: &Value) -> Result<()> {
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "ExternalArtifact",
            "metadata": {"name": artifact, "namespace": FLUX},
            "spec": {},
        });
        self.site.plane.kubectl_with_input(&["apply", "-f", "-"], &source.to_string()).await?;
        let ready = json!({"type": "Ready", "status": "True", "reason": "Succeeded", "message": "served by the test",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"status": {"artifact": self.artifacts[artifact], "conditions": [ready]}}).to_string();
        let name = format!("externalartifact/{artifact}");
        let patch = ["patch", &name, "-n", FLUX, "--subresource=status", "--type=merge", "-p", &status];
        self.site.plane.kubectl(&patch).await?;
        self.site.plane.kubectl_with_input(&["apply", "-f", "-"], &object.to_string()).await.map(drop)
    }

    async fn release(&self, name: &str, namespace: &str, values: &Value) -> Result<()> {
        let release = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": FLUX},
            "spec": {
                "interval": "1h",
                "timeout": "5m",
                "releaseName": name,
                "targetNamespace": namespace,
                "storageNamespace": namespace,
                "install": {"createNamespace": true},
                "driftDetection": {"mode": "enabled"},
                "chartRef": {"kind": "ExternalArtifact", "name": name},
                "values": values,
            },
        });
        self.create(name, &release).await
    }

    async fn kustomization(&self, name: &str) -> Result<()> {
        let kustomization = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": {"name": name, "namespace": FLUX},
            "spec": {
                "interval": "1h",
                "timeout": "5m",
                "prune": true,
                "wait": true,
                "targetNamespace": SHOP,
                "sourceRef": {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact", "name": name},
            },
        });
        self.create(name, &kustomization).await
    }

    async fn get(&self, object: &str, path: &str) -> Result<String> {
        self.site.plane.kubectl(&["get", object, "-n", FLUX, "-o", &format!("jsonpath={path}")]).await
    }

    async fn ready(&self, object: &str) -> Result<()> {
        let what = format!("{object} to be ready");
        let waited = wait_for(&what, DEADLINE, async || {
            let path =
                "{.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type==\"Ready\")].status}";
            let found = self.get(object, path).await?;
            let parts: Vec<&str> = found.split(' ').collect();
            let good = matches!(parts.as_slice(), [wanted, seen, "True"] if wanted == seen);
            ensure!(good, "{}", self.get(object, "{.status.conditions}").await?);
            Ok(())
        });
        waited.await.with_context(|| self.log())
    }

    /// What `flux reconcile` does: requests a reconciliation, and waits for its end.
    async fn reconcile(&self, object: &str, at: &str) -> Result<()> {
        let request = format!("reconcile.fluxcd.io/requestedAt={at}");
        self.site.plane.kubectl(&["annotate", object, "-n", FLUX, "--overwrite", &request]).await?;
        wait_for(&format!("reconciliation {at} of {object}"), DEADLINE, async || {
            let handled = self.get(object, "{.status.lastHandledReconcileAt}").await?;
            ensure!(handled == at, "the last one was {handled:?}");
            Ok(())
        })
        .await
        .with_context(|| self.log())?;
        self.ready(object).await
    }

    /// The number of Events about drift.
    async fn drifts(&self) -> Result<usize> {
        let events = self.site.plane.kubectl(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"]).await?;
        Ok(events.split(' ').filter(|reason| reason.starts_with("Drift")).count())
    }

    /// The end of the logs of both controllers.
    fn log(&self) -> String {
        let of = |name: &str| {
            let text = fs::read_to_string(self.logs.path().join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("{name}:\n{}", lines[lines.len().saturating_sub(15)..].join("\n"))
        };
        format!("{}\n{}", of("helm-controller"), of("kustomize-controller"))
    }
}

/// The artifacts by name: Mullion's chart, a chart with two DaemonSets, and a folder with two DaemonSets.
async fn files(site: &Site, work: &Path) -> Result<BTreeMap<&'static str, Vec<u8>>> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path that is not UTF-8");
    let agents = work.join("agents");
    let kustomized = work.join("kustomized");
    fs::create_dir_all(agents.join("templates"))?;
    fs::create_dir_all(&kustomized)?;
    fs::write(agents.join("Chart.yaml"), "apiVersion: v2\nname: agents\nversion: 1.0.0\n")?;
    for (folder, prefix) in [(&agents.join("templates"), "agents"), (&kustomized, "kustomized")] {
        fs::write(folder.join("plain.yaml"), daemon_set(&format!("{prefix}-plain"), &json!({})).to_string())?;
        // Fields that are atomic in server-side apply, and in which Mullion adds an entry.
        let placement = json!({
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
        });
        fs::write(folder.join("placed.yaml"), daemon_set(&format!("{prefix}-placed"), &placement).to_string())?;
    }
    let mut found = BTreeMap::new();
    for (name, folder) in [("mullion", chart()), ("agents", agents)] {
        let to = work.join(format!("{name}.packed"));
        site.helm(&["package", &text(&folder)?, "--destination", &text(&to)?]).await?;
        let package = fs::read_dir(&to)?.next().context("helm package wrote no file")??.path();
        found.insert(name, fs::read(package)?);
    }
    let packed = Command::new("tar").args(["-cz", "-C", &text(&kustomized)?, "."]).output().await?;
    ensure!(packed.status.success(), "tar: {}", String::from_utf8_lossy(&packed.stderr));
    found.insert("kustomized", packed.stdout);
    Ok(found)
}

fn daemon_set(name: &str, placement: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": WINDOWS}]});
    for (key, value) in placement.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "annotations": {"team": "agents"}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    })
}

/// Serves the files; returns the status of their sources.
async fn serve(files: &BTreeMap<&'static str, Vec<u8>>) -> Result<BTreeMap<&'static str, Value>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut router = Router::new();
    let mut artifacts = BTreeMap::new();
    for (name, bytes) in files {
        let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
        let mut digest = String::new();
        sum.as_ref().iter().try_for_each(|byte| write!(digest, "{byte:02x}"))?;
        let path = format!("/{name}.tar.gz");
        // The helm-controller compares this with the version of the chart.
        let version = if *name == "mullion" { env!("CARGO_PKG_VERSION") } else { "1.0.0" };
        let artifact = json!({
            "url": format!("http://{address}{path}"),
            "path": path,
            "digest": format!("sha256:{digest}"),
            "revision": format!("{version}@sha256:{digest}"),
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "size": bytes.len(),
        });
        artifacts.insert(*name, artifact);
        let bytes = bytes.clone();
        router = router.route(&path, get(async move || bytes));
    }
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(artifacts)
}

/// Who has written what: the generation and the managed fields of each object, without its status.
async fn written(site: &Site) -> Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for namespace in [NAMESPACE, SHOP] {
        let list = ["get", KINDS, "-n", namespace, "-o", "json", "--show-managed-fields"];
        let list: Value = serde_json::from_str(&site.plane.kubectl(&list).await?)?;
        for item in list["items"].as_array().into_iter().flatten() {
            let metadata = &item["metadata"];
            let managed = metadata["managedFields"].as_array().cloned().unwrap_or_default();
            let managed: Vec<Value> = managed.into_iter().filter(|fields| fields["subresource"] != "status").collect();
            let name = metadata["name"].as_str().unwrap_or_default();
            // The controller's heartbeat.
            if name == "mullion-state" {
                continue;
            }
            let state = json!({"generation": metadata["generation"], "managedFields": managed});
            found.insert(format!("{} {namespace}/{name}", item["kind"]), state);
        }
    }
    Ok(found)
}
