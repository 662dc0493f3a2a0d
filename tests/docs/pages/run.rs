//! A directory in which the commands of a page, or of a section, are run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::golden;
use super::page::Shown;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mullion");

/// The time limit of a command, in seconds, because a test that hangs reports nothing.
const AT_MOST: &str = "300";

/// Variables of a user's own shell, which the pages do not set.
const OF_SOMEBODY: [&str; 6] =
    ["CLICOLOR_FORCE", "COLUMNS", "HELM_NAMESPACE", "KUBECONFIG", "KUBECTL_EXTERNAL_DIFF", "MULLION_LOG"];

/// An empty directory with written files, and the environment of a shell in it.
pub struct Directory {
    folder: TempDir,
    /// Folders with programs, in order of precedence.
    programs: Vec<PathBuf>,
    variables: Vec<(&'static str, OsString)>,
}

impl Directory {
    /// A directory with the built program.
    pub fn empty() -> Self {
        let program = PathBuf::from(PROGRAM).parent().unwrap().to_owned();
        Self { folder: tempfile::tempdir().unwrap(), programs: vec![program], variables: Vec::new() }
    }

    /// Adds the programs of another folder before those of the machine.
    #[allow(dead_code, reason = "for those who have a cluster")]
    pub fn programs(mut self, folder: PathBuf) -> Self {
        self.programs.push(folder);
        self
    }

    #[allow(dead_code, reason = "for those who have a cluster")]
    pub fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[allow(dead_code, reason = "for the guide")]
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path().join(name)).unwrap();
    }

    /// Copies a folder of the repository there, under its own name.
    pub fn copy(&self, folder: &str) {
        for entry in fs::read_dir(golden::path(folder)).unwrap() {
            let entry = entry.unwrap();
            let below = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                self.copy(&below);
            } else {
                let to = self.path().join(&below);
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }

    /// The terminal output of a command line: both streams in order, without color, because it is not a terminal. If
    /// Mullion reads the output of another command, that command must also succeed, because an empty input proves
    /// nothing.
    pub fn run(&self, command: &str) -> Shown {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let folders = self.programs.iter().cloned().chain(std::env::split_paths(&others));
        let strict = if command.contains("| mullion ") { "set -o pipefail\n" } else { "" };
        let mut shell = Command::new("timeout");
        shell.args([AT_MOST, "bash", "-c", &format!("exec 2>&1\n{strict}{command}")]).current_dir(self.path());
        for name in OF_SOMEBODY {
            shell.env_remove(name);
        }
        shell.env("PATH", std::env::join_paths(folders).unwrap());
        shell.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = shell.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        Shown { lines: text.lines().map(str::to_owned).collect(), code: output.status.code().unwrap() }
    }
}
