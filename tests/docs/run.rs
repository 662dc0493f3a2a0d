//! A directory in which the commands of a page, or of a section, are run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::golden;
use crate::page::Shown;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mullion");

/// An empty directory, and what is written into it.
pub struct Directory(TempDir);

impl Directory {
    pub fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Puts a copy of another file there; what was there.
    pub fn replace(&self, name: &str, other: &Path) -> String {
        let before = fs::read_to_string(self.path().join(name)).unwrap();
        self.write(name, &fs::read_to_string(other).unwrap());
        before
    }

    /// Puts a copy of a folder of the repository there, under its own name.
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

    /// What a terminal would show of a command line: both streams as they come, without colour, since it is none.
    pub fn run(&self, command: &str) -> Shown {
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(self.path())
            .env("PATH", path())
            .env_remove("CLICOLOR_FORCE")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        Shown { lines: text.lines().map(str::to_owned).collect(), code: output.status.code().unwrap() }
    }
}

/// The built program before all others.
fn path() -> OsString {
    let mut path = vec![PathBuf::from(PROGRAM).parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    std::env::join_paths(path).unwrap()
}
