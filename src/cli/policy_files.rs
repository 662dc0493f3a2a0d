//! Policy files from arguments: reads them and renders errors about them, for all commands.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use jiff::Timestamp;
use mullion_engine::model::text::counted;
use mullion_manifest::Problem;
use mullion_policy::{MAX_FILE, PolicyFile, PolicyFiles, PolicySet, unpack_manifests};

use crate::cli::input::{check_stdin_once, is_stdin};
use crate::policy_files::directory;
use crate::report::STDIN;

/// The word for the policies that are built into the program; a directory of that name is `./built-in`.
pub(crate) const BUILT_IN_WORD: &str = "built-in";
/// The word for the policies in force in a cluster; a directory of that name is `./cluster`.
pub(crate) const CLUSTER_WORD: &str = "cluster";

/// The policies that a command line selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicySelection {
    /// None: those in force in the cluster that the command reads, if they can be read, else the built-in ones.
    Default,
    /// The built-in ones.
    BuiltIn,
    /// Those in force in the cluster, and no others.
    Cluster,
    /// Those of files and directories.
    Paths(Vec<PathBuf>),
}

impl PolicySelection {
    /// The selection of `--policies`.
    pub(crate) fn new(command: &str, paths: &[PathBuf]) -> anyhow::Result<Self> {
        let is = |path: &PathBuf, word: &str| path.as_os_str() == word;
        let word = [BUILT_IN_WORD, CLUSTER_WORD].into_iter().find(|word| paths.iter().any(|path| is(path, word)));
        if let (Some(word), 2..) = (word, paths.len()) {
            bail!(
                "{command}: --policies {word} is for these policies alone; remove the other --policies, or name a \
                 directory ./{word}"
            );
        }
        Ok(match word {
            Some(BUILT_IN_WORD) => Self::BuiltIn,
            Some(_) => Self::Cluster,
            None if paths.is_empty() => Self::Default,
            None => Self::Paths(paths.to_owned()),
        })
    }

    /// Loads those of files; the built-in ones for any other selection.
    pub(crate) fn load(&self) -> Result<PolicySet, BadPolicies> {
        match self {
            Self::Paths(paths) => load(paths),
            Self::Default | Self::BuiltIn | Self::Cluster => Ok(PolicySet::built_in()),
        }
    }

    /// Fails if they are those of a cluster, and the command reads none. `instead`: what to do.
    pub(crate) fn ensure_no_cluster(&self, command: &str, instead: &str) -> anyhow::Result<()> {
        ensure!(*self != Self::Cluster, "{command}: --policies {CLUSTER_WORD} needs a cluster; {instead}");
        Ok(())
    }
}

/// Reads policy files, directories of them, and manifests of ConfigMaps that contain policies.
pub(crate) fn read_policy_files(paths: &[PathBuf]) -> PolicyFiles {
    unpack(directory::read_policy_files(paths))
}

/// Like [`read_policy_files`], with `-` for standard input.
pub(crate) fn read_with_stdin(command: &str, paths: &[PathBuf], stdin: &mut dyn Read) -> anyhow::Result<PolicyFiles> {
    check_stdin_once(command, paths)?;
    let (dashes, others): (Vec<PathBuf>, Vec<PathBuf>) = paths.iter().cloned().partition(|path| is_stdin(path));
    let mut files = if others.is_empty() { PolicyFiles::default() } else { directory::read_policy_files(&others) };
    if !dashes.is_empty() {
        let mut bytes = Vec::new();
        // One byte more than the limit, so that the loader reports it.
        stdin.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
        files.texts.push(PolicyFile { name: STDIN.to_owned(), bytes });
    }
    Ok(unpack(files))
}

fn unpack(mut files: PolicyFiles) -> PolicyFiles {
    files.texts = files.texts.into_iter().flat_map(unpack_manifests).collect();
    files.texts.sort_unstable();
    files
}

/// The policies of all `paths` together. The error contains every problem.
fn load(paths: &[PathBuf]) -> Result<PolicySet, BadPolicies> {
    let set = PolicySet::load(&read_policy_files(paths)).map(|set| set.at(Timestamp::now().as_second()));
    set.map_err(|problems| BadPolicies { problems, paths: paths.to_owned() })
}

/// The policies that `--policies` selects in a command that reads no cluster.
pub(crate) fn load_without_cluster(command: &str, paths: &[PathBuf]) -> anyhow::Result<PolicySet> {
    let selection = PolicySelection::new(command, paths)?;
    selection.ensure_no_cluster(
        command,
        "this command reads none; write the policies to files with: mullion policy show --policies cluster",
    )?;
    Ok(selection.load()?)
}

/// Everything that is wrong with a set of policies.
#[derive(Debug, Clone)]
pub(crate) struct BadPolicies {
    problems: Vec<Problem>,
    paths: Vec<PathBuf>,
}

impl fmt::Display for BadPolicies {
    /// One line for the first, and the command that shows all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.problems.split_first() else {
            return f.write_str("the policies cannot be read");
        };
        write!(f, "{first}")?;
        if !rest.is_empty() {
            let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
            let rest = counted(rest.len(), "more problem");
            write!(f, "; and {rest}, shown by: mullion policy check {}", paths.join(" "))?;
        }
        Ok(())
    }
}

impl std::error::Error for BadPolicies {}
