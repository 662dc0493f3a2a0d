//! The location of the control plane's programs.

use std::fmt::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{env, fs};

use anyhow::{Result, bail};

/// A program that `tests/cluster/tools/build.sh` builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// etcd; its Go module names the binary `server`.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kubectl.
    Kubectl,
    /// KWOK, which simulates the kubelets.
    Kwok,
    /// Helm.
    Helm,
    /// Helm that runs one command after the other (`tools/cmd/helm-batch`).
    HelmBatch,
    /// CNCF's registry for images.
    Registry,
    /// crane, which pushes images.
    Crane,
}

impl Tool {
    /// What a cluster needs. The registry and crane are missing in a folder of `build.sh --cluster`.
    const CLUSTER: [Self; 8] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubectl,
        Self::Kwok,
        Self::Helm,
        Self::HelmBatch,
    ];

    /// The file names to search for, the usual one first.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Etcd => &["etcd", "server"],
            Self::ApiServer => &["kube-apiserver"],
            Self::ControllerManager => &["kube-controller-manager"],
            Self::Scheduler => &["kube-scheduler"],
            Self::Kubectl => &["kubectl"],
            Self::Kwok => &["kwok"],
            Self::Helm => &["helm"],
            Self::HelmBatch => &["helm-batch"],
            Self::Registry => &["registry"],
            Self::Crane => &["crane"],
        }
    }

    fn in_folder(self, folder: &Path) -> Option<PathBuf> {
        self.names().iter().map(|name| folder.join(name)).find(|path| path.is_file())
    }
}

/// The files that determine the tools, relative to their source and to a folder of built ones.
const PINS: [&str; 5] = ["go.mod", "go.sum", "cmd/helm-batch/main.go", "images/go.mod", "images/go.sum"];

/// A folder that contains every [`Tool`] of a cluster.
#[derive(Clone, Debug)]
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// `KUBEBUILDER_ASSETS` if it contains every tool of a cluster, else the newest complete folder in the repository's `.tools`
    /// that was built from the current `go.mod`s and `go.sum`s.
    ///
    /// # Errors
    /// The error contains the folder, the missing tools, and the hint to run `make tools`.
    pub fn locate() -> Result<Self> {
        locate(
            env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()).map(PathBuf::from).as_deref(),
            &repository(),
        )
    }

    /// The folder: absolute.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A command that runs a tool, which collects less garbage than Go does by default: a server when its heap has
    /// grown fivefold instead of twofold, other tools at half a gigabyte, because most of them end first. 3,000 creates
    /// and their webhooks took 33.4 s of processor time with this setting, and 39.8 s without; `helm template` takes
    /// half. Each uses half of the processors: several run at the same time, and Go's scheduler looks for work on each
    /// processor that it has. The API server uses all, because trials wait for it: beside four busy programs on two
    /// processors, 200 creates at the same time took 1.8 s each, and 3.1 s with half of the processors.
    pub fn command(&self, tool: Tool) -> Command {
        let mut command = Command::new(self.path(tool));
        if tool != Tool::ApiServer {
            let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
            command.env("GOMAXPROCS", (processors / 2).max(1).to_string());
        }
        match tool {
            Tool::Kubectl | Tool::Helm | Tool::Crane => command.env("GOGC", "off").env("GOMEMLIMIT", "512MiB"),
            _ => command.env("GOGC", "400"),
        };
        command
    }

    /// The path of a tool: absolute.
    pub fn path(&self, tool: Tool) -> PathBuf {
        let fallback = || self.folder.join(tool.names().first().copied().unwrap_or_default());
        tool.in_folder(&self.folder).unwrap_or_else(fallback)
    }
}

/// Helm 3, if `HELM3` names it: `make helm3` builds it. Suites have its trials only then.
pub fn helm_3() -> Option<PathBuf> {
    env::var_os("HELM3").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The root of the repository in which this was compiled.
pub(crate) fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

fn locate(assets: Option<&Path>, repository: &Path) -> Result<Tools> {
    let mut why = String::new();
    if let Some(folder) = assets {
        let missing = missing(folder);
        if missing.is_empty() {
            return Ok(Tools { folder: std::path::absolute(folder)? });
        }
        write!(why, "KUBEBUILDER_ASSETS={} lacks {}; ", folder.display(), missing.join(", "))?;
    }
    let tools = repository.join(".tools");
    let source = repository.join("tests/cluster/tools");
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(&tools).into_iter().flatten().flatten() {
        let folder = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.'); // a build in progress
        if !hidden
            && missing(&folder).is_empty()
            && PINS.iter().all(|name| same(&folder.join(name), &source.join(name)))
        {
            let built = fs::metadata(&folder).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((built, folder));
        }
    }
    match found.into_iter().max() {
        Some((_, folder)) => Ok(Tools { folder }),
        None => bail!(
            "{why}{} holds no complete build of {}. Run `make tools` (about 6 minutes the first time, seconds later), \
             or set KUBEBUILDER_ASSETS to a folder with {}",
            tools.display(),
            source.join("go.mod").display(),
            Tool::CLUSTER.map(|tool| tool.names().join(" or ")).join(", "),
        ),
    }
}

fn missing(folder: &Path) -> Vec<&'static str> {
    let absent = Tool::CLUSTER.into_iter().filter(|tool| tool.in_folder(folder).is_none());
    absent.filter_map(|tool| tool.names().first().copied()).collect()
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn fill(folder: &Path, names: &[&str]) {
        for name in names {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, *name).unwrap();
        }
    }

    const CLUSTER: [&str; 8] = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kwok",
        "helm",
        "helm-batch",
    ];

    #[test]
    fn assets_win_only_if_complete() {
        let root = tempfile::tempdir().unwrap();
        let assets = root.path().join("assets");
        fill(&assets, &CLUSTER[1..]);
        let error = locate(Some(&assets), root.path()).unwrap_err().to_string();
        assert!(error.contains("lacks etcd;") && error.contains("`make tools`"), "{error}");
        fill(&assets, &["server"]);
        let tools = locate(Some(&assets), root.path()).unwrap();
        assert_eq!(tools.path(Tool::Etcd), assets.join("server"));
        assert_eq!(tools.path(Tool::Kwok), assets.join("kwok"));
    }

    #[test]
    fn built_tools_must_be_complete_and_of_today() {
        let root = tempfile::tempdir().unwrap();
        let absent = locate(None, root.path()).unwrap_err().to_string();
        assert!(absent.contains("`make tools`") && absent.contains("etcd or server"), "{absent}");
        fill(&root.path().join("tests/cluster/tools"), &PINS);
        let built = root.path().join(".tools/0123");
        fill(&built, &CLUSTER);
        locate(None, root.path()).unwrap_err();
        fill(&built, &PINS);
        assert_eq!(locate(None, root.path()).unwrap().folder(), built);
        fs::write(root.path().join("tests/cluster/tools/images/go.sum"), "newer").unwrap();
        locate(None, root.path()).unwrap_err();
    }

    #[test]
    fn the_repository_is_found() {
        assert!(repository().join("tests/cluster/tools/build.sh").is_file());
    }
}
