//! README.md, the chart's and `docs/`: every command that needs a cluster, run on one with Mullion installed as described.
//!
//! A page is a directory with copies of the repository's folders, its own files, kubectl, helm and mullion, and a home
//! with a kubeconfig. Pages that install Mullion begin without it. `UPDATE_DOCS=1` writes the output of `console`
//! blocks.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{ControlPlane, Kubelet, Network, NodeSpec, Tool};

use crate::pages::page::Shown;
use crate::pages::places::{self, Place};
use crate::pages::run::Directory;
use crate::pages::{Page, all_pages, is_known_to_servers};
use crate::site::{PATIENT, REPOSITORY, image, program};

/// The state of the cluster for a page; all pages that are not listed come after these.
const FOUND: [(&str, Found); 5] = [
    ("README.md", Found::Bare),
    ("docs/how-to/install.md", Found::Bare),
    ("charts/mullion/README.md", Found::Bare),
    ("docs/start/kind.md", Found::Bare),
    ("docs/how-to/roll-out.md", Found::Installed("audit")),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Bare,
    /// Mullion with these shipped policies.
    Installed(&'static str),
}

const INSTALL: &str = "helm upgrade --install mullion charts/mullion --namespace mullion-system --create-namespace --wait \
    --set image.repository=registry.example.com/mullion";

/// Without Mullion, and without objects of other pages.
const CLEAR: &str = "helm uninstall mullion --namespace mullion-system --ignore-not-found --no-hooks --wait && \
    kubectl delete namespace mullion-system --ignore-not-found && \
    kubectl delete all --all --namespace shop --force --grace-period=0 && \
    kubectl annotate namespace shop legacy mullion.dev/ignore- mullion.dev/os-";

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

pub async fn commands_for_a_cluster_print_what_their_pages_show() -> Result<()> {
    let plane = ControlPlane::builder().network(Network::up()?).start().await?;
    let _kubelet = Kubelet::start(&plane, [(image(REPOSITORY), program())])?;
    // The nodes of the demo, which the pages mention.
    let nodes = [
        NodeSpec::linux("linux-1").played(),
        NodeSpec::linux("linux-2").played(),
        NodeSpec::windows("win2019", "10.0.17763.6893").label("agentpool", "win19"),
        NodeSpec::windows("win2022", "10.0.20348.2655").taint("os=Windows:NoSchedule"),
        NodeSpec::windows("win2025", "10.0.26100.2894"),
    ];
    plane.create_nodes(&nodes).await?;
    for namespace in ["shop", "legacy"] {
        plane.kubectl(&["create", "namespace", namespace]).await?;
    }
    let kinds = plane.dir().join("monitoring.yaml");
    fs::write(&kinds, MONITORING)?;
    plane.kubectl(&["apply", "-f", kinds.to_str().context("a path that is not UTF-8")?]).await?;
    let plane = Arc::new(plane);
    let run = {
        let plane = Arc::clone(&plane);
        move || run_all(&plane)
    };
    let complaints = tokio::task::spawn_blocking(run).await??;
    if !complaints.is_empty() {
        plane.keep_logs();
    }
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(())
}

fn run_all(plane: &ControlPlane) -> Result<Vec<String>> {
    let mut pages = all_pages();
    let asks = |page: &Page| places::of(&page.sections).iter().any(|(_, place)| *place == Place::Cluster);
    pages.retain(asks);
    let order = |page: &Page| FOUND.iter().position(|(name, _)| *name == page.name).unwrap_or(FOUND.len());
    pages.sort_by_key(order);
    let mut complaints = Vec::new();
    let mut clear = false;
    for page in pages {
        let found =
            FOUND.iter().find(|(name, _)| *name == page.name).map_or(Found::Installed("default"), |(_, found)| *found);
        let mut wrong = run_page(plane, &page, found, clear && found != Found::Bare)?;
        // The API server waits for the webhook for 5 s, the chart's maximum, and admits a pod after that. A busy
        // machine can take longer, so a page counts as wrong only if it is also wrong after a new start.
        if !wrong.is_empty() {
            wrong = run_page(plane, &page, found, true)?;
        }
        complaints.extend(wrong);
        // A page that installs or removes Mullion can leave it in any state, for example withdrawn.
        let removes = |command: &str| command.contains("mullion withdraw") || command.contains("helm uninstall");
        clear = found == Found::Bare
            || places::of(&page.sections).iter().any(|(run, place)| *place == Place::Cluster && removes(&run.command));
    }
    Ok(complaints)
}

/// What is wrong with a page on a cluster in the state `found`; `clear`: whether Mullion is removed before.
fn run_page(plane: &ControlPlane, page: &Page, found: Found, clear: bool) -> Result<Vec<String>> {
    let directory = directory(plane)?;
    page.fill(&directory);
    let installs = match found {
        Found::Bare => CLEAR.to_owned(),
        Found::Installed(policies) => format!("{INSTALL} --set policies.shipped={policies}"),
    };
    let set_up = |command: &str| {
        let done = directory.run(command);
        ensure!(done.code == 0, "for {}: {command}\n{done}", page.name);
        Ok(())
    };
    if clear {
        set_up(CLEAR)?;
    }
    set_up(&installs)?;
    let (mut wrong, printed) = page.run(
        &directory,
        |place| !matches!(place, Place::Nowhere(_)),
        |run| {
            // The page describes how to stop before it describes the running cluster.
            if found != Found::Bare && run.command.contains("delete mutatingwebhookconfiguration") {
                directory.run(&installs);
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

/// Helm, which sets the timeout of the other trials in every installation.
fn patient_helm(plane: &ControlPlane, path: &Path) -> Result<()> {
    let (helm, patience) = (plane.tools().path(Tool::Helm), PATIENT.join(" "));
    let script = format!(
        "#!/bin/sh\ncase $1 in\n  install | upgrade) exec '{0}' \"$@\" {patience} ;;\n  *) exec '{0}' \"$@\" ;;\nesac\n",
        helm.display()
    );
    fs::write(path, script)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
