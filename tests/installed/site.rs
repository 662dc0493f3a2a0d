//! The clusters in which trials install Mullion, one after the other.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use mullion_cluster::{ControlPlane, Fixture, Image, Kubelet, Network, NodeSpec, Seen, Tool, wait_for};

/// The time limit for all actions of a cluster, far longer than they take on an idle machine.
pub const DEADLINE: Duration = Duration::from_secs(300);
/// The namespace of Mullion, as in all its documents.
pub const NAMESPACE: &str = "mullion-system";
/// The longest timeout of webhooks, so that a busy machine does not fail the trials.
pub const PATIENT: [&str; 2] = ["--set", "admission.timeoutSeconds.mutating=5,admission.timeoutSeconds.validating=5"];

/// The repository of the image, in the documents and in every installation.
pub const REPOSITORY: &str = "registry.example.com/mullion";
/// The values of every installation here, with those for which the chart has no default.
pub const USUAL: [&str; 4] =
    [PATIENT[0], PATIENT[1], "--values", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/required.yaml")];

/// For the system priority classes in kube-system, as on GKE, which limits them elsewhere to namespaces with such a
/// quota.
const QUOTA_OF_THE_CLUSTER: &str = r#"{"apiVersion": "v1", "kind": "ResourceQuota",
    "metadata": {"name": "critical-pods", "namespace": "kube-system"},
    "spec": {"hard": {"pods": "1000"}, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass",
        "operator": "In", "values": ["system-node-critical", "system-cluster-critical"]}]}}}"#;

/// The chart of the previous version: `helm package` of its folder.
pub const BEFORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chart/fenced.tgz");

/// A cluster with two Linux nodes, whose pods run as real processes, and two Windows nodes of different builds.
pub struct Site {
    pub kubelet: Kubelet, // first, because it ends before the servers that it uses
    pub plane: ControlPlane,
}

impl Fixture for Site {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![self.plane.keep_logs(), self.kubelet.keep_logs()]
    }

    async fn clean(&self) -> Result<()> {
        self.plane.clean().await?;
        self.create_nodes().await
    }
}

impl Site {
    pub async fn start() -> Result<Self> {
        let plane = ControlPlane::builder().network(Network::up()?).limited_system_classes().start().await?;
        plane.kubectl_with_input(&["create", "-f", "-"], QUOTA_OF_THE_CLUSTER).await?;
        let kubelet = Kubelet::start(&plane, [(image(REPOSITORY), program())])?;
        let site = Self { kubelet, plane };
        site.create_nodes().await?;
        Ok(site)
    }

    async fn create_nodes(&self) -> Result<()> {
        self.plane.create_nodes(&[linux_nodes(), windows_nodes()].concat()).await.map(drop)
    }

    /// The output of `helm <arguments>`.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String> {
        self.helm_of(self.plane.tools().command(Tool::Helm), arguments).await
    }

    /// The output of another program, such as Helm 3.
    pub async fn helm_of(&self, program: Command, arguments: &[&str]) -> Result<String> {
        let home = self.plane.dir();
        let mut helm = tokio::process::Command::from(program);
        helm.args(arguments).stdin(Stdio::null()).kill_on_drop(true).env("KUBECONFIG", self.plane.kubeconfig());
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            helm.env(folder, home.join("helm"));
        }
        let done = helm.output().await.context("run helm")?;
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        ensure!(done.status.success(), "helm {}: {}\n{out}", arguments.join(" "), err.trim());
        Ok(out.into_owned())
    }

    /// The pods in Mullion's namespace.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.plane.client(), NAMESPACE)
    }

    /// Waits until no pod is left in Mullion's namespace.
    pub async fn without_pods(&self) -> Result<()> {
        let pods = self.pods();
        wait_for("all pods of Mullion to be gone", DEADLINE, async || match pods.list(&ListParams::default()).await {
            Ok(left) if left.items.is_empty() => Seen::Done(()),
            Ok(left) => Seen::NotYet(left.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>().join(", ")),
            Err(error) => Seen::NotYet(error.to_string()),
        })
        .await
    }

    /// Waits until a Deployment has its number of pods, all of the latest version and ready.
    pub async fn whole(&self, deployment: &str) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.plane.client(), NAMESPACE);
        wait_for(&format!("all pods of {deployment} to be ready"), DEADLINE, async || {
            let found = match api.get(deployment).await {
                Ok(found) => found,
                Err(error) => return Seen::NotYet(error.to_string()),
            };
            let wanted = found.spec.replicas;
            let status = found.status.unwrap_or_default();
            let counts = [status.replicas, status.updated_replicas, status.ready_replicas];
            let heard = status.observed_generation == found.metadata.generation;
            if heard && counts.iter().all(|count| *count == wanted) {
                Seen::Done(())
            } else {
                Seen::NotYet(format!("{status:?}"))
            }
        })
        .await
    }

    /// The pods of one of Mullion's Deployments, except for those that are being deleted.
    pub async fn pods_of(&self, deployment: &str) -> Result<Vec<Pod>> {
        let component = deployment.trim_start_matches("mullion-");
        let selector = format!("app.kubernetes.io/name=mullion,app.kubernetes.io/component={component}");
        let mut pods = self.pods().list(&ListParams::default().labels(&selector)).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    /// Installs the chart as in the README, or upgrades an installed one to these arguments (`--set`, …).
    pub async fn install(&self, arguments: &[&str]) -> Result<String> {
        self.install_chart(&chart(), arguments).await
    }

    /// Does the same with another chart, such as [`BEFORE`].
    pub async fn install_chart(&self, chart: &Path, arguments: &[&str]) -> Result<String> {
        let chart = chart.to_str().context("a path that is not UTF-8")?;
        let mut usual = vec!["upgrade", "--install", "mullion", chart, "-n", NAMESPACE, "--create-namespace", "--wait"];
        // A third of Helm's processor time. The commands of the documents validate.
        usual.push("--disable-openapi-validation");
        self.helm(&[&usual[..], &USUAL, arguments].concat()).await
    }
}

/// Nodes with pods that run as real processes.
pub fn linux_nodes() -> [NodeSpec; 2] {
    ["l1", "l2"].map(|name| NodeSpec::linux(name).played())
}

/// Two builds.
pub fn windows_nodes() -> [NodeSpec; 2] {
    [NodeSpec::windows("w2019", "10.0.17763.6293"), NodeSpec::windows("w2022", "10.0.20348.2655")]
}

/// `charts/mullion`, unmodified.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/mullion")
}

/// The name of the image of this version in a repository.
pub fn image(repository: &str) -> String {
    format!("{repository}:{}", env!("CARGO_PKG_VERSION"))
}

/// The image as the Dockerfile builds it, with the program under test.
pub fn program() -> Image {
    Image::new(env!("CARGO_BIN_EXE_mullion"))
}
