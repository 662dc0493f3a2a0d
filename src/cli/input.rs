//! From the files, directories and `-` of a command line to texts.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Io, UsageError};
use crate::manifest;

/// What most commands read.
#[derive(Debug, Clone, Args)]
pub struct Inputs {
    /// Manifests: files, directories (*.yaml, *.yml, *.json, recursive), or - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    pub paths: Vec<PathBuf>,
    /// Namespace of objects that name none
    #[arg(short, long, value_name = "NS", default_value = "default", value_parser = namespace_name)]
    pub namespace: String,
}

/// One file as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// As the user named it; `<stdin>` for standard input.
    pub name: String,
    /// All of it, byte-order mark included.
    pub text: String,
}

/// Why a file or directory could not be read: one line that names it and says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(pub String);

/// All inputs, in the order in which they were named; directories sorted by path.
#[derive(Debug, Default)]
pub struct Texts {
    /// What could be read.
    pub sources: Vec<SourceText>,
    /// What could not.
    pub unreadable: Vec<Unreadable>,
    /// Directories without a single manifest.
    pub empty_directories: Vec<String>,
}

impl Inputs {
    /// Reads everything that is named. Only a wrong command line is an error; a file that cannot be read is data, since
    /// the others are still to be judged.
    pub fn read(&self, command: &str, stdin: &mut dyn Read) -> Result<Texts, UsageError> {
        let is_stdin = |path: &&PathBuf| path.as_os_str() == "-";
        match self.paths.iter().filter(is_stdin).count() {
            _ if self.paths.is_empty() => {
                return Err(UsageError(format!(
                    "{command}: nothing to read; name files or directories, or - for standard input"
                )));
            }
            0 | 1 => {}
            _ => return Err(UsageError(format!("{command}: standard input (-) can be read only once"))),
        }
        let mut texts = Texts::default();
        for path in &self.paths {
            if is_stdin(&path) {
                let mut bytes = Vec::new();
                match stdin.read_to_end(&mut bytes) {
                    Ok(_) => texts.add("<stdin>".to_owned(), bytes),
                    Err(error) => texts.refuse("<stdin>", &error),
                }
            } else if path.is_dir() {
                texts.add_directory(path);
            } else {
                texts.add_file(path);
            }
        }
        Ok(texts)
    }
}

impl Texts {
    /// Says on stderr what could not be read.
    pub fn report(&self, io: &mut Io<'_>) -> io::Result<()> {
        for unreadable in &self.unreadable {
            io.say(&unreadable.0)?;
        }
        for directory in &self.empty_directories {
            io.say(format_args!(
                "{directory}: no *.yaml, *.yml or *.json in it; name the file if it is called otherwise"
            ))?;
        }
        Ok(())
    }

    fn add(&mut self, name: String, bytes: Vec<u8>) {
        match String::from_utf8(bytes) {
            Ok(text) => self.sources.push(SourceText { name, text }),
            Err(error) => {
                let problems = manifest::documents_from_bytes(&name, error.as_bytes());
                let problem = problems.into_iter().find_map(Result::err);
                self.unreadable
                    .push(Unreadable(problem.map_or(format!("{name}: {error}"), |problem| problem.to_string())));
            }
        }
    }

    fn refuse(&mut self, name: &str, error: &io::Error) {
        self.unreadable.push(Unreadable(format!("{name}: {error}; check its name and permissions")));
    }

    fn add_file(&mut self, path: &Path) {
        let name = path.display().to_string();
        match fs::read(path) {
            Ok(bytes) => self.add(name, bytes),
            Err(error) => self.refuse(&name, &error),
        }
    }

    fn add_directory(&mut self, directory: &Path) {
        let mut walk = Walk::default();
        walk.directory(directory);
        for (path, error) in walk.failed {
            self.refuse(&path.display().to_string(), &error);
        }
        if walk.files.is_empty() {
            self.empty_directories.push(directory.display().to_string());
        }
        for path in walk.files {
            self.add_file(&path);
        }
    }
}

/// A walk through a directory. Every file and directory is entered once, whatever links lead to it: a link to a parent
/// would go round for ever, and one to a sibling would judge the same text twice.
#[derive(Default)]
struct Walk {
    files: Vec<PathBuf>,
    failed: Vec<(PathBuf, io::Error)>,
    seen: BTreeSet<PathBuf>,
}

impl Walk {
    fn directory(&mut self, directory: &Path) {
        match self.entries(directory) {
            Ok(entries) => entries.iter().for_each(|path| self.entry(path)),
            Err(error) => self.failed.push((directory.to_owned(), error)),
        }
    }

    fn entries(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        if !self.seen.insert(fs::canonicalize(directory)?) {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            // `..data` of a mounted ConfigMap too, whose files are linked from beside it.
            if !entry.file_name().to_string_lossy().starts_with('.') {
                entries.push(entry.path());
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn entry(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => self.directory(path),
            // Not pipes and sockets: reading one that nobody writes to never ends.
            Ok(found) if found.is_file() && is_manifest(path) => match fs::canonicalize(path) {
                Ok(real) => {
                    if self.seen.insert(real) {
                        self.files.push(path.to_owned());
                    }
                }
                Err(error) => self.failed.push((path.to_owned(), error)),
            },
            // A dangling link matters only under a manifest's name.
            Err(error) if is_manifest(path) => self.failed.push((path.to_owned(), error)),
            Ok(_) | Err(_) => {}
        }
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

fn namespace_name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let inner = |edge: Option<&u8>| edge.is_some_and(|byte| *byte != b'-');
    let bytes = text.as_bytes();
    if bytes.len() <= 63 && bytes.iter().all(|byte| allowed(*byte)) && inner(bytes.first()) && inner(bytes.last()) {
        Ok(text.to_owned())
    } else {
        Err("a namespace is at most 63 of a-z, 0-9 and -, with no - at either end".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_dns_labels() {
        for good in ["a", "kube-system", "0a"] {
            assert!(namespace_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a b", &"a".repeat(64)] {
            assert!(namespace_name(bad).is_err(), "{bad}");
        }
    }
}
