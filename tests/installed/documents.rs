//! README.md, the chart's and `docs/`: every command that needs a cluster, run on one with Mullion installed as described.
//!
//! Each page with such commands is a trial. It runs in a directory with copies of the repository's folders, the page's own
//! files, kubectl, helm and mullion, and a home with a kubeconfig. Pages that install Mullion begin without it.
//! `UPDATE_DOCS=1` writes the output of `console` blocks.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{ControlPlane, Fixture, Kubelet, Network, NodeSpec, Pool, Suite, Tool};

use crate::pages::page::Shown;
use crate::pages::places::{self, Place};
use crate::pages::run::Directory;
use crate::pages::{Page, all_pages, is_known_to_servers};
use crate::site::{PATIENT, REPOSITORY, image, program};

/// The number of clusters for pages at the same time.
pub const CLUSTERS: usize = 2;

/// The state of the cluster for a page. All other pages begin with Mullion and its default policies.
const FOUND: [(&str, Found); 5] = [
    ("README.md", Found::Bare),
    ("docs/how-to/install.md", Found::Bare),
    ("charts/mullion/README.md", Found::Bare),
    ("docs/start/kind.md", Found::Bare),
    ("docs/how-to/roll-out.md", Found::Installed("audit")),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Bare,
    /// Mullion with these shipped policies.
    Installed(&'static str),
}

const INSTALL: &str = "helm upgrade --install mullion charts/mullion --namespace mullion-system --create-namespace --wait \
    --set image.repository=registry.example.com/mullion";

/// Namespaces that the pages mention.
const NAMESPACES: [&str; 2] = ["shop", "legacy"];

/// Kinds of the Prometheus operator, for commands that check whether they exist.
const MONITORING: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: ServiceMonitor, plural: servicemonitors}
  scope: Namespaced
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

/// Adds a trial for each page with commands that need a cluster. Pages that change Mullion take longest, and come first.
pub fn add(suite: &mut Suite) {
    let clusters = Pool::new(CLUSTERS, PageCluster::start);
    let mut pages = all_pages();
    pages.retain(|page| cluster_commands(page).next().is_some());
    pages.sort_by_key(|page| !changes_mullion(page));
    for page in pages {
        let name = format!("documents::{}", page.name);
        suite.pooled_trial(&clusters, name, |cluster| Box::pin(prints_what_it_shows(cluster, page)));
    }
}

fn cluster_commands(page: &Page) -> impl Iterator<Item = String> + use<> {
    let all = places::of(&page.sections).into_iter();
    all.filter(|(_, place)| *place == Place::Cluster).map(|(run, _)| run.command)
}

/// Whether Mullion may not be as it was installed after the page.
fn changes_mullion(page: &Page) -> bool {
    let changes = |command: String| {
        let mut verbs =
            ["helm install ", "helm upgrade ", "helm rollback ", "helm uninstall ", "mullion withdraw "].iter();
        verbs.any(|verb| command.contains(verb)) || (command.contains("kubectl delete ") && command.contains("mullion"))
    };
    cluster_commands(page).any(changes)
}

async fn prints_what_it_shows(cluster: Arc<PageCluster>, page: Page) -> Result<()> {
    let page = Arc::new(page);
    let mut wrong = cluster.run(&page).await?;
    // The API server waits for the webhook for 5 s, the chart's maximum, and admits a pod after that. A busy
    // machine can take longer, so a page counts as wrong only if it is also wrong after a new start.
    if !wrong.is_empty() {
        wrong = cluster.run(&page).await?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// A cluster with the nodes of the demo, which the pages mention. Pages run in it one after the other, because their
/// commands show all objects of the cluster.
struct PageCluster {
    kubelet: Kubelet, // first, because it ends before the servers that it uses
    plane: ControlPlane,
    /// Its state, if it is one in which a page can begin.
    state: Mutex<Option<Found>>,
}

impl Fixture for PageCluster {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![self.plane.keep_logs(), self.kubelet.keep_logs()]
    }
}

impl PageCluster {
    async fn start() -> Result<Self> {
        let plane = ControlPlane::builder().network(Network::up()?).start().await?;
        let kubelet = Kubelet::start(&plane, [(image(REPOSITORY), program())])?;
        plane.kubectl_with_input(&["apply", "-f", "-"], MONITORING).await?;
        Ok(Self { kubelet, plane, state: Mutex::default() })
    }

    /// What is wrong with a page on this cluster.
    async fn run(self: &Arc<Self>, page: &Arc<Page>) -> Result<Vec<String>> {
        let found =
            FOUND.iter().find(|(name, _)| *name == page.name).map_or(Found::Installed("default"), |(_, found)| *found);
        // Until the page has ended well, the state is unknown.
        let reached = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        if reached == Some(found) {
            self.remove_objects_of_pages().await?;
        } else {
            self.empty().await?;
        }
        let wrong = {
            let (cluster, page) = (Arc::clone(self), Arc::clone(page));
            let install = reached != Some(found);
            tokio::task::spawn_blocking(move || run_page(&cluster.plane, &page, found, install)).await??
        };
        if wrong.is_empty() && !changes_mullion(page) {
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        }
        Ok(wrong)
    }

    /// A cluster as it was when it was started: without Mullion, and without objects of pages.
    async fn empty(&self) -> Result<()> {
        self.plane.clean().await?;
        let nodes = [
            NodeSpec::linux("linux-1").played(),
            NodeSpec::linux("linux-2").played(),
            NodeSpec::windows("win2019", "10.0.17763.6893").label("agentpool", "win19"),
            NodeSpec::windows("win2022", "10.0.20348.2655").taint("os=Windows:NoSchedule"),
            NodeSpec::windows("win2025", "10.0.26100.2894"),
        ];
        self.plane.create_nodes(&nodes).await?;
        for namespace in NAMESPACES {
            self.plane.kubectl(&["create", "namespace", namespace]).await?;
        }
        Ok(())
    }

    async fn remove_objects_of_pages(&self) -> Result<()> {
        for namespace in NAMESPACES {
            let all = ["delete", "all", "--all", "--namespace", namespace, "--force", "--grace-period=0"];
            self.plane.kubectl(&all).await?;
        }
        let annotations = ["mullion.dev/ignore-", "mullion.dev/os-"];
        self.plane.kubectl(&[&["annotate", "namespace"], &NAMESPACES[..], &annotations].concat()).await.map(drop)
    }
}

/// What is wrong with a page; `install`: whether Mullion must first be installed as the page finds it.
fn run_page(plane: &ControlPlane, page: &Page, found: Found, install: bool) -> Result<Vec<String>> {
    let directory = directory(plane)?;
    page.fill(&directory);
    let installation = match found {
        Found::Bare => None,
        Found::Installed(policies) => Some(format!("{INSTALL} --set policies.shipped={policies}")),
    };
    if install && let Some(installation) = &installation {
        let done = directory.run(installation);
        ensure!(done.code == 0, "for {}: {installation}\n{done}", page.name);
    }
    let (mut wrong, printed) = page.run(
        &directory,
        |place| !matches!(place, Place::Nowhere(_)),
        |run| {
            // The page describes how to stop before it describes the running cluster.
            if let Some(installation) = &installation
                && run.command.contains("delete mutatingwebhookconfiguration")
            {
                directory.run(installation);
            }
        },
    );
    wrong.extend(page.compare(&printed).err());
    wrong.extend(rejections(page, &directory));
    Ok(wrong)
}

/// Errors of the API server about objects of the page.
fn rejections(page: &Page, directory: &Directory) -> Vec<String> {
    let files = page.sections.iter().flat_map(|section| &section.files).filter(|file| is_known_to_servers(file));
    let tried = files.map(|file| (file, directory.run(&format!("kubectl apply --dry-run=server -f {}", file.name))));
    let wrong = tried.filter(|(_, shown): &(_, Shown)| shown.code != 0);
    wrong.map(|(file, shown)| format!("{}:{}: {}\n{shown}", page.name, file.line, file.name)).collect()
}

fn directory(plane: &ControlPlane) -> Result<Directory> {
    let directory = Directory::empty();
    let home = directory.path().join(".home");
    fs::create_dir_all(home.join(".kube"))?;
    fs::copy(plane.kubeconfig(), home.join(".kube/config"))?;
    let programs = directory.path().join(".programs");
    fs::create_dir_all(&programs)?;
    symlink(Path::new(env!("CARGO_BIN_EXE_mullion")), programs.join("kubectl-mullion")).context("link the plugin")?;
    patient_helm(plane, &programs.join("helm"))?;
    Ok(directory.programs(programs).programs(plane.tools().folder().to_owned()).variable("HOME", home))
}

/// Helm, which sets in every installation the timeout of the other trials, and that the controller probes the webhook every
/// second, so that `mullion status --wait` does not wait for the second probe.
fn patient_helm(plane: &ControlPlane, path: &Path) -> Result<()> {
    let (helm, patience) = (plane.tools().path(Tool::Helm), PATIENT.join(" "));
    let values = format!("{patience} --set 'controller.extraArgs={{--probe-interval=1}}'");
    let script = format!(
        "#!/bin/sh\ncase $1 in\n  install | upgrade) exec '{0}' \"$@\" {values} ;;\n  *) exec '{0}' \"$@\" ;;\nesac\n",
        helm.display()
    );
    fs::write(path, script)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
